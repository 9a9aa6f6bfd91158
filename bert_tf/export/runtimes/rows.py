"""File of texts -> dicts of a kind's fields, and their encoded rows."""

import itertools
import math
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
        header names the columns; each perhaps with .gz or .zst. Other columns
        and keys are ignored, but for `label`.
      kind: kind of export, which decides on the fields.
      most: maximum number of texts.

    Returns:
      At least one dict of `tokenizer.FIELDS[kind]` and perhaps `label`, str.

    Raises:
      ValueError: if the file is missing, empty or not UTF-8 text, a text lacks
        a field, or the label of a regression is no number.
      OSError: if it cannot be read.
    """
    lines = text_files.read_lines(path, text_files.ReadStatistics())
    lines = (line.rstrip("\r\n") for line in lines)
    texts = list(itertools.islice(_parse(path, kind, lines), most))
    if not texts:
        raise ValueError(f"{path} has no texts. Give a file with some.")
    return texts


def _parse(path: str, kind: str, lines: Iterator[str]) -> Iterator[dict]:
    name = path.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".jsonl"):
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            yield _fields(json_files.parse(line, where), kind, where)
    elif name.endswith(".tsv"):
        header = next(lines, "").split("\t")
        text_files.check_unique(
            (*tokenizer_lib.FIELDS[kind], LABEL), header, path
        )
        if kind == "multiple_choice":
            raise ValueError(
                f"{path}: a column cannot hold a list of endings. Give a "
                '.jsonl file with "endings" in each object.'
            )
        for number, line in enumerate(lines, 2):
            cells = dict(zip(header, line.split("\t"), strict=False))
            if "words" in cells:
                cells["words"] = cells["words"].split()
            yield _fields(cells, kind, f"{path}:{number}")
    else:
        first = tokenizer_lib.FIELDS[kind][0]
        for number, line in enumerate(lines, 1):
            yield _fields({first: line}, kind, f"{path}:{number}")


def _fields(values: Mapping, kind: str, where: str) -> dict:
    """Returns the fields of a text; `words` may be there instead of `text`."""
    names = tokenizer_lib.FIELDS[kind]
    found = {x: values[x] for x in (*names, LABEL) if x in values}
    needed = [x for x in names if x not in _OPTIONAL]
    missing = [x for x in needed if x not in found]
    if missing and not ("words" in found and needed == ["text"]):
        raise ValueError(
            f"{where} has {quoted(', '.join(values))} and no "
            f"{', '.join(missing)}. Name the columns or keys so; --help tells "
            "how."
        )
    label = found.pop(LABEL, None)
    if label is not None:
        found[LABEL] = str(label)
    if label is not None and kind == "regression":
        _check_number(found[LABEL], where)
    for name in names:
        type_of = [str] if name in _LISTS else str
        if name in found:
            json_files.check(found[name], type_of, where, name)
    return found


def _check_number(label: str, where: str) -> None:
    try:
        is_number = math.isfinite(float(label))
    except ValueError:
        is_number = False
    if not is_number:
        raise ValueError(
            f"{where}: the label {quoted(label)} is no number, as the score of "
            "a regression should be. Correct it, or rename the column."
        )
