"""Rows and a model -> HTML file: how much each word adds, or attention."""

import contextlib
from collections.abc import Callable, Iterator

from absl import logging

from bert_tf.contrib.apps import attributions
from bert_tf.contrib.apps.page import attention_page, marked_text
from bert_tf.serving import predictions, text_rows
from tfrecords.io import atomic_files


@contextlib.contextmanager
def open_file(
    path: str, model: predictions.Model
) -> Iterator[Callable[[text_rows.Row], None]]:
    """Yields a function that adds a row to the file, written atomically.

    A file whose name ends in attention.html has the attention of each head, any
    other how much each word adds.

    Raises:
      ValueError: if the model does not have it.
    """
    if path.endswith("attention.html"):
        with _open_attention(path, model) as add:
            yield add
        return
    explain = attributions.Explainer(model.owner)
    with atomic_files.atomic_file(path) as file:
        found, left_out = [], []

        def add(row: text_rows.Row) -> None:
            texts = {name: row.fields.get(name, "") for name in model.ranks}
            try:
                found.append((row.line, explain(texts)._replace(pieces=())))
            except ValueError as error:  # A text of several windows.
                left_out.append(f"line {row.line}: {error}")

        yield add
        if left_out:
            values = path, len(left_out), left_out[0]
            logging.warning(
                "texts left out of %s: %d, the first in %s", *values
            )
        # At the end, since all texts have one scale of colors.
        most = max((marked_text.largest(x) for _, x in found), default=0)
        file.write(marked_text.HEAD)
        for line, explanation in found:
            section = marked_text.explained(explanation, most)
            file.write(marked_text.numbered(line, section))
        file.write(marked_text.TAIL)


@contextlib.contextmanager
def _open_attention(
    path: str, model: predictions.Model
) -> Iterator[Callable[[text_rows.Row], None]]:
    """Like `open_file`, for attention."""
    names = list(model.kind.inputs["text"])  # In the order of the segments.
    if not set(model.ranks) <= set(names) or max(model.ranks.values()) > 1:
        raise ValueError(
            f"--explain={path}: attention is drawn for a text or a pair, and "
            f"{model.path} reads {', '.join(model.ranks)}. Give another file "
            "name, or none."
        )
    source, found = model.owner, []
    num_left_out = 0
    with atomic_files.atomic_file(path) as file:

        def add(row: text_rows.Row) -> None:
            nonlocal num_left_out
            if not attention_page.fits(found):
                num_left_out += 1
                return
            text, *other = (row.fields.get(name, "") for name in names)
            found.append(
                attention_page.compute(
                    source.model.encoder,
                    source.tokenizer,
                    source.max_seq_length,
                    [source.prompt + text, *other],
                    row.line,
                )
            )

        yield add
        if num_left_out:
            logging.warning(
                "%s has the attention of the first %d texts, without that of "
                "%d more: a browser could not open it. Give them a file each.",
                *(path, len(found), num_left_out),
            )
        file.write(attention_page.draw(found, model.path))
