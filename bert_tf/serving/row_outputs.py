"""Rows of text and a signature -> outputs and answer of each row."""

import collections
import contextlib
import decimal
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.serving.answers.kind import Arrays, ExplainedKind, Kind, plain
from bert_tf.serving.text_rows import BadLine, Row, prefixed
from tfrecords.options import quoted


def batches_of(
    rows: Sequence[Row], ranks: Mapping[str, int], batch_size: int
) -> Iterator[list[Row]]:
    """Yields the rows in batches of similar length, which need less padding."""

    def num_characters(row):
        inputs = [row.fields.get(name, "") for name in ranks]
        return sum(len("".join(texts)) for texts in inputs)

    by_length = sorted(rows, key=num_characters)
    for begin in range(0, len(rows), batch_size):
        yield by_length[begin : begin + batch_size]


def count_cut(
    rows: Sequence[Row],
    ranks: Mapping[str, int],
    max_seq_length: int | None,
    num_tokens: Callable | None,
    prompt: str = "",
) -> int:
    """Returns how many rows of a batch are cut; 0 if that is unknown.

    All but `rows` are attributes of `predictions.Model`.
    """
    if not max_seq_length or not num_tokens:
        return 0

    def most_tokens(row):
        texts = [row.fields.get(name, "") for name in ranks]
        texts = [[text] if isinstance(text, str) else text for text in texts]
        texts.append([prompt])
        # A token has at least a byte; [CLS] and [SEP] are three at most.
        return 3 + sum(
            max((len(part.encode()) for part in text), default=0)
            for text in texts
        )

    rows = [row for row in rows if most_tokens(row) > max_seq_length]
    if not rows:
        return 0
    lengths = num_tokens(**make_inputs(rows, ranks)).numpy()
    return int(np.sum(lengths > max_seq_length))


def warn_of_cut(num_cut: int, count: int, max_seq_length: int) -> None:
    """Logs how many of `count` texts were cut, if any."""
    if num_cut:
        logging.warning(
            "%d of %d texts have more than max_seq_length=%d tokens and are "
            "cut",
            *(num_cut, count, max_seq_length),
        )


def make_inputs(
    rows: Sequence[Row], ranks: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the inputs of a signature for a batch, see `make_tensor`."""
    return {name: make_tensor(rows, name, rank) for name, rank in ranks.items()}


def make_tensor(rows: Sequence[Row], name: str, rank: int):
    """Returns an input of all rows: [N] string, or [N, C] padded with "".

    A missing text is "".
    """
    if rank == 1:
        texts = [row.fields.get(name, "") for row in rows]
        return tf.constant(texts, tf.string)
    lists = [row.fields.get(name, []) for row in rows]
    most = max(map(len, lists), default=0)
    padded = [[*texts, *[""] * (most - len(texts))] for texts in lists]
    return tf.reshape(tf.constant(padded, tf.string), [len(rows), most])


def compute(
    kind: type[Kind], signature, rows: Sequence[Row], ranks: Mapping[str, int]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields all outputs for each row of a batch, [1, ...], without padding.

    Args:
      kind: kind of the answers.
      signature: signature of a SavedModel, or the function that becomes one.
      rows: one batch.
      ranks: name -> rank of its inputs.
    """
    inputs = make_inputs(rows, ranks)
    outputs = {name: x.numpy() for name, x in signature(**inputs).items()}
    for i, row in enumerate(rows):
        of_row = {name: array[i : i + 1] for name, array in outputs.items()}
        # Other keys, such as words beside a text that is read, say nothing.
        fields = {x: row.fields[x] for x in ranks if x in row.fields}
        yield _without_padding(kind, of_row, fields)


def _without_padding(
    kind: type[Kind], outputs: Arrays, fields: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the outputs of one row without the padding of its batch."""
    count = kind.count(outputs, fields)
    if count is None:
        return dict(outputs)
    return dict(outputs) | {
        name: value[:, :count]
        for name, value in outputs.items()
        if value.ndim > 1 and name.startswith(kind.ragged_outputs)
    }


@contextlib.contextmanager
def abstaining(model, min_probability: float | None):
    """Yields a model that labels probable rows only; then logs how many.

    Args:
      model: a `predictions.Model`.
      min_probability: the least of the likeliest class; None labels all rows.

    Raises:
      ValueError: if the answers are no classes.
    """
    if min_probability is None:
        yield model
        return
    if model.kind.name != "classification":
        raise ValueError(
            f"--min_probability={min_probability} is for classification; "
            f"{model.path} is for {model.kind.name or 'unknown'}. Omit it."
        )
    counts = collections.Counter()

    def abstain(answer, outputs, cells):
        # In the decimals that are written.
        top = max(plain(outputs["probabilities"])[0])
        is_sure = top >= min_probability
        given = str(cells.get("label"))
        is_known = is_sure and given in model.labels
        is_right = is_known and plain(outputs["label"])[0] == given
        counts.update(rows=1, sure=is_sure, known=is_known, right=is_right)
        is_left_out = not is_sure and "label" in answer
        return answer | {"label": None} if is_left_out else answer

    yield model._replace(abstain=abstain)
    share = counts["sure"] / max(1, counts["rows"])
    logging.info("labelled rows %d  coverage %.4f", counts["sure"], share)
    if counts["known"]:
        accuracy = counts["right"] / counts["known"]
        logging.info("accuracy %.4f of %d", accuracy, counts["known"])


def answer(
    model,
    rows: Sequence[Row],
    names: set[str],
    source: str,
    is_table: bool = False,
) -> dict[int, str | dict[str, Any] | BadLine]:
    """Returns the number of each row of a batch -> its line of JSON.

    Other keys of a row that an answer has, too, are `prefixed`; NaN and
    infinity, which JSON does not have, become null. In an answer they make the
    row a bad one. Values of Parquet are as in `_of_other_type`.

    Args:
      model: a `predictions.Model`.
      rows: one batch.
      names: outputs that are wanted.
      source: name of the file, for messages.
      is_table: whether to return `to_cells` of the answer in place of a line.

    Raises:
      ValueError: naming a key whose value has bytes.
    """
    to_text = functools.partial(json.dumps, default=_of_other_type)
    dumps = functools.partial(to_text, ensure_ascii=False, allow_nan=False)
    found = {}
    computed = compute(model.kind, model.signature, rows, model.ranks)
    for (line, fields, cells), outputs in zip(rows, computed, strict=True):
        of_row = to_json(model.kind, fields, outputs, names)
        of_row = model.abstain(of_row, outputs, cells)
        if is_table and not any(_fails(dumps, x) for x in of_row.values()):
            found[line] = to_cells(model.kind, of_row, model.labels)
            continue
        taken = {"line", "error", *of_row}
        named = {
            name if name in model.ranks else prefixed(name, taken): value
            for name, value in fields.items()
        }
        values = {"line": line} | named | of_row
        try:
            found[line] = dumps(values)
        except (TypeError, ValueError):
            if faulty := [x for x in of_row if _fails(dumps, of_row[x])]:
                found[line] = BadLine(
                    line,
                    f"{source}:{line}: numbers of {', '.join(faulty)} are not "
                    "finite. The weights of the model are damaged, so copy it "
                    "again; or too large for its --precision.",
                )
                continue
            for key in fields:
                if _fails(to_text, fields[key]):
                    raise ValueError(
                        f"{source}:{line}: {key!r} is {quoted(fields[key])}, "
                        "and bytes are no JSON. Write the file without this "
                        "column, from Python: import pyarrow.parquet as pq; "
                        f"pq.write_table(pq.read_table({source!r})"
                        f".drop_columns([{key!r}]), 'rows.parquet')"
                    ) from None
            text = to_text(values)
            values = json.loads(text, parse_constant=lambda _: None)
            found[line] = dumps(values)
    return found


def _fails(dumps: Callable, value: Any) -> bool:
    try:
        dumps(value)
    except (TypeError, ValueError):
        return True
    return False


def _of_other_type(value: Any) -> float | str:
    """Returns a value of Parquet for JSON; raises TypeError for bytes.

    A decimal becomes a number if this is as exact, and what JSON does not know,
    such as a date, its text.
    """
    if isinstance(value, bytes):
        raise TypeError
    if isinstance(value, decimal.Decimal):
        number = float(value)
        if value == value.to_integral_value():
            return int(value)
        if decimal.Decimal(repr(number)) == value:
            return number
    return str(value)


def to_json(
    kind: type[Kind],
    fields: Mapping[str, Any],
    outputs: Arrays,
    names: set[str],
) -> dict[str, Any]:
    """Returns the answer of a row for JSON.

    Args:
      kind: kind of the answers.
      fields: the row.
      outputs: its outputs, [1, ...], without padding.
      names: those of them that are wanted.
    """
    if kind.record_outputs and names.issuperset(kind.record_outputs):
        return kind.records(fields, outputs, names)
    return {name: plain(outputs[name])[0] for name in sorted(names)}


def to_cells(
    kind: type[Kind], answer: Mapping[str, Any], labels: Sequence[str]
) -> dict[str, Any]:
    """Returns the answer of a row for a table, column -> value.

      {"label": "good", "probabilities": [0.1, 0.9]}
      -> {"label": "good", "probability": 0.9,
          "probability_bad": 0.1, "probability_good": 0.9}

    Args:
      kind: kind of the answer.
      answer: from `to_json`.
      labels: names of the classes; empty in exports that do not name them.
    """
    if not issubclass(kind, ExplainedKind) or "probabilities" not in answer:
        return dict(answer)
    cells = dict(answer)
    values = cells.pop("probabilities")
    if "label" in cells:
        cells["probability"] = max(values)
    for name, value in zip(labels or range(len(values)), values, strict=True):
        cells[f"probability_{name}"] = value
    return cells
