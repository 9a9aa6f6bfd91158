"""Rows and a model -> HTML file: how much each word adds to an answer."""

import contextlib
from collections.abc import Callable, Iterator

from bert_tf.contrib.apps import attributions
from bert_tf.contrib.apps.page import marked_text
from bert_tf.serving import predictions, text_rows
from tfrecords.io import atomic_files


@contextlib.contextmanager
def open_file(
    path: str, model: predictions.Model
) -> Iterator[Callable[[text_rows.Row], None]]:
    """Yields a function that adds a row to the file, written atomically."""
    explain = attributions.Explainer(model.owner)
    with atomic_files.atomic_file(path) as file:
        found = []

        def add(row: text_rows.Row) -> None:
            texts = {name: row.fields.get(name, "") for name in model.ranks}
            found.append((row.line, explain(texts)._replace(pieces=())))

        yield add
        # At the end, since all texts have one scale of colors.
        most = max((marked_text.largest(x) for _, x in found), default=0)
        file.write(marked_text.HEAD)
        for line, explanation in found:
            section = marked_text.explained(explanation, most)
            file.write(marked_text.numbered(line, section))
        file.write(marked_text.TAIL)
