"""File of texts -> dicts of a kind's fields, and their encoded rows."""

import itertools
from collections.abc import Iterator, Mapping

from bert_tf.export.runtimes import tokenizer as tokenizer_lib
from tfrecords.io import json_files
from tfrecords.options import quoted
from tfrecords.text import text_files

LABEL = "label"
# Fields that may be missing in a text.
_OPTIONAL = ("text_b", "words")
_LISTS = ("endings", "words")


def read(path: str, kind: str, most: int | None = None) -> list[dict]:
    """Returns the texts of a file.

    Args:
      path: file with a text on each line; .jsonl, JSON objects; or .tsv, whose
        header names the columns. Other columns and keys are ignored, but for
        `label`.
      kind: kind of export, which decides on the fields.
      most: maximum number of texts.

    Returns:
      At least one dict of `tokenizer.FIELDS[kind]` and perhaps `label`, str.

    Raises:
      ValueError: if the file is missing, empty or not UTF-8 text, or a text
        lacks a field.
      OSError: if it cannot be read.
    """
    lines = text_files.read_lines(path, text_files.ReadStatistics())
    lines = (line.rstrip("\r\n") for line in lines)
    texts = list(itertools.islice(_parse(path, kind, lines), most))
    if not texts:
        raise ValueError(f"{path} has no texts. Give a file with some.")
    return texts


def _parse(path: str, kind: str, lines: Iterator[str]) -> Iterator[dict]:
    names = tokenizer_lib.FIELDS[kind]
    if path.endswith(".jsonl"):
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            yield _fields(json_files.parse(line, where), names, where)
    elif path.endswith(".tsv"):
        header = next(lines, "").split("\t")
        text_files.check_unique((*names, LABEL), header, path)
        for number, line in enumerate(lines, 2):
            cells = dict(zip(header, line.split("\t"), strict=False))
            cells |= {x: cells[x].split() for x in _LISTS if x in cells}
            yield _fields(cells, names, f"{path}:{number}")
    else:
        for number, line in enumerate(lines, 1):
            yield _fields({names[0]: line}, names, f"{path}:{number}")


def _fields(values: Mapping, names, where: str) -> dict:
    """Returns the fields of a text; `words` may be there instead of `text`."""
    found = {x: values[x] for x in (*names, LABEL) if x in values}
    needed = [x for x in names if x not in _OPTIONAL]
    missing = [x for x in needed if x not in found]
    if missing and not ("words" in found and needed == ["text"]):
        raise ValueError(
            f"{where} has {quoted(', '.join(values))} and no "
            f"{', '.join(missing)}. Name the columns or keys so; --help tells "
            "how."
        )
    if LABEL in found:
        found[LABEL] = str(found[LABEL])
    for name in names:
        kind = [str] if name in _LISTS else str
        if name in found:
            json_files.check(found[name], kind, where, name)
    return found
