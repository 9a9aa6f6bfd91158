"""File of texts -> dicts of a kind's fields, and their encoded rows."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from bert_tf.contrib.runtimes import label_scores
from bert_tf.contrib.runtimes import tokenizer as tokenizer_lib
from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords.io import json_files
from tfrecords.io.inputs import file_kinds
from tfrecords.options import quoted
from tfrecords.tables import table_files
from tfrecords.text import text_files

LABEL = "label"


def read(path: str, kind: type[Kind], most: int | None = None) -> list[dict]:
    """Returns the texts of a file.

    Args:
      path: file with a text on each line; JSON objects, as
        `tokenizer.choose_format` decides; or .tsv or .csv, whose header names
        the columns; each perhaps compressed. Other columns and keys are
        ignored, but for `label`.
      kind: kind of the answers, which decides on the fields.
      most: maximum number of texts.

    Returns:
      At least one dict of the kind's fields and perhaps `label`, str.

    Raises:
      ValueError: if the file is missing, empty or not UTF-8 text, its format
        cannot hold the fields, or a text lacks one or has one of another type.
      OSError: if it cannot be read.
    """
    lines = text_files.read_lines(path, text_files.ReadStatistics())
    texts = list(itertools.islice(_parse(path, kind, lines), most))
    if not texts:
        raise ValueError(f"{path} has no texts. Give a file with some.")
    return texts


def _parse(path: str, kind: type[Kind], lines: Iterator[str]) -> Iterator[dict]:
    input_format = _format(path, kind)
    if input_format == "jsonl":
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            yield _fields(json_files.parse(line, where), kind, where)
    elif input_format in ("tsv", "csv"):
        yield from _parse_table(path, kind, lines, input_format)
    elif input_format == "parquet":
        raise ValueError(
            f"{path} is a Parquet file, which is not read here. Convert it to "
            ".jsonl, .csv or .tsv."
        )
    else:
        for number, line in enumerate(lines, 1):
            values = {tokenizer_lib.FIELDS[kind.name][0]: line.rstrip("\r\n")}
            yield _fields(values, kind, f"{path}:{number}")


def _parse_table(path, kind, lines, input_format) -> Iterator[dict]:
    table = enumerate((line.rstrip("\r\n").split("\t") for line in lines), 1)
    if input_format == "csv":
        table = table_files.csv_cells(lines, path)
    _, header = next(table, (0, []))
    names = tokenizer_lib.FIELDS[kind.name]
    text_files.check_unique((*names, LABEL), header, path)
    lists = [x for x, rank in kind.inputs[TEXT].items() if rank > 1]
    if lists:
        raise ValueError(
            f"{path}: a column cannot hold a list of {lists[0]}. Give a "
            f'.jsonl file with "{lists[0]}" in each object.'
        )
    for number, row in table:
        if input_format == "csv" and len(row) != len(header):
            raise ValueError(
                f"{path}:{number} has {len(row)} columns where the header has "
                f"{len(header)}: {quoted(row)}. Put quotes around a text with "
                "a comma."
            )
        cells = dict(zip(header, row, strict=False))
        if "words" in cells:
            cells["words"] = cells["words"].split()
        yield _fields(cells, kind, f"{path}:{number}")


def _format(path: str, kind: type[Kind]) -> str:
    """Returns the format of the decompressed file."""
    name = file_kinds.without_compression(path)
    return tokenizer_lib.choose_format(name, kind.name)


def _fields(values: Mapping, kind: type[Kind], where: str) -> dict:
    """Returns the fields of a text; `words` may be there instead of `text`."""
    names = tokenizer_lib.FIELDS[kind.name]
    found = {x: values[x] for x in (*names, LABEL) if x in values}
    needed = tokenizer_lib.needed(kind.name)
    missing = [x for x in needed if x not in found]
    if missing and not ("words" in found and needed == ["text"]):
        raise ValueError(
            f"{where} has {quoted(', '.join(values))} and no "
            f"{', '.join(missing)}. Name the columns or keys so; --help tells "
            "how."
        )
    label = found.pop(LABEL, None)
    if isinstance(label, list):  # Several labels.
        label = ",".join(map(str, label))
    if label is not None:
        found[LABEL] = str(label)
    for name in names:
        type_of = [str] if name in tokenizer_lib.LISTS else str
        if name in found:
            found[name] = table_files.to_cell(found[name], f"{where}: {name}")
            json_files.check(found[name], type_of, where, name)
    return found


def check_labels(
    path: str, texts: Sequence[Mapping], kind: type[Kind], labels: Sequence[str]
) -> None:
    """Raises ValueError if the label of a text cannot be scored.

    Args:
      path: the file of the texts.
      texts: all of its texts, from `read`.
      kind: kind of the answers.
      labels: names of the classes.
    """
    # Of a CSV it is only near, since a row may have line breaks.
    first = 1 + (_format(path, kind) in ("tsv", "csv"))
    for number, text in enumerate(texts, first):
        label = text.get(LABEL)
        if expected := label_scores.check(kind.name, label, labels):
            raise ValueError(
                f"{path}:{number} has the label {quoted(label)}; {expected}. "
                "Correct it, or give the column another name."
            )
