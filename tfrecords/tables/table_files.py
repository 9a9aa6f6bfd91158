"""TSV, CSV, JSON lines or Parquet file -> header and rows of cells."""

import contextlib
import csv
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfrecords import libraries
from tfrecords.io import json_files
from tfrecords.options import Options, option, quoted, shortened
from tfrecords.text import text_files

FORMATS = ("auto", "tsv", "csv", "jsonl", "parquet")
# The csv module's limit, 131072, is less than a long passage.
MAX_FIELD = 1 << 24
_ENDINGS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_ROWS_AT_ONCE = 1024
TABLE = (
    "a table with a header line; pandas.read_json(..., lines=True) and "
    ".to_csv(..., index=False) convert it"
)
_TABLE_OR_FORMAT = (
    "a table with a header line, or the flag --input_format=jsonl if each line "
    "is an object"
)

# Of JSON and Parquet, None is a value that is null or missing.
Cell = str | list[str] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """How tables are read."""

    input_format: str = option(
        "auto",
        "Format of tables. auto: a .csv has commas and quotes, a .jsonl an "
        "object on each line, a .parquet is Parquet; any other file has tabs "
        "and no quotes.",
        choices=FORMATS,
    )


@dataclasses.dataclass
class ReadStatistics:
    """Counts of reading rows."""

    rows: int = 0
    skipped_rows: int = 0
    lines_with_invalid_utf8: int = 0


def format_of(
    path: str, input_format: str = "auto", default: str = "tsv"
) -> str:
    """Returns the format of a file, by its ending if it is "auto".

    `default` is that of all other endings.
    """
    if input_format != "auto":
        return input_format
    ending = os.path.splitext(path.lower())[1]
    return _ENDINGS.get(ending, default)


def read(
    path: str,
    input_format: str = "auto",
    statistics: ReadStatistics | None = None,
    columns: Iterable[str] | None = None,
    not_json: str | None = _TABLE_OR_FORMAT,
) -> Iterator[tuple[int, list]]:
    """Yields line and values: first of the header, then of each row.

      {"text": "A fine film", "stars": 5}     1, ["text", "stars"]
                                              1, ["A fine film", 5]

    Values of TSV and CSV are strings; `to_cell` is for the others. Of JSON
    lines, the header has the keys of the first object; a key that is missing in
    another is None. The "line" of a row of Parquet is its number, from 1.

    Args:
      path: a file on a disk. CSV has commas and quotes; TSV has tabs, and
        quotes are text.
      input_format: one of `FORMATS`.
      statistics: counts lines with invalid UTF-8; None to count nothing.
      columns: of Parquet, the columns to read; values of others are None.
        Default: all.
      not_json: what to give instead of JSON, for a message.

    Raises:
      ValueError: naming file and line, if the file is of another format, not
        UTF-8 or damaged, or pyarrow is not installed for Parquet.
    """
    input_format = format_of(path, input_format)
    if input_format == "parquet":
        yield from _parquet_cells(path, columns)
        return
    with open(path, "rb") as file:
        if input_format == "jsonl":
            not_json = None
        lines = decoded(file, path, statistics or ReadStatistics(), not_json)
        cells = {"tsv": _tsv_cells, "csv": csv_cells, "jsonl": _json_cells}
        yield from cells[input_format](lines, path)


def read_header(path: str, input_format: str = "auto", **keywords) -> list[str]:
    """Returns the names of the columns; empty for an empty file.

    Further arguments are those of `read`.
    """
    _, header = next(read(path, input_format, **keywords), (0, []))
    return header


def decoded(
    lines: Iterable[bytes],
    path: str,
    statistics: ReadStatistics,
    not_json: str | None = TABLE,
) -> Iterator[str]:
    """Yields lines decoded as UTF-8; counts lines with invalid bytes.

    Args:
      lines: the lines of the file.
      path: path of the file, for messages.
      statistics: counts are added to it.
      not_json: what to give instead of JSON; None if the lines are JSON.

    Raises:
      ValueError: as `text_files.check_line`; or if a table is JSON.
    """
    decode = text_files.Decoder(path, is_table=not_json is not None)
    for number, line in enumerate(lines, 1):
        before = decode.num_replaced
        text = decode(line, number)
        if number == 1 and not_json:
            text_files.check_not_json(text, path, not_json)
        statistics.lines_with_invalid_utf8 += decode.num_replaced > before
        yield text


def _tsv_cells(lines, path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        if line := line.removesuffix("\n").removesuffix("\r"):
            yield number, line.split("\t")


class RowError(ValueError):
    """An error in one row of a CSV, which was read to `last_line`."""

    last_line: int


def csv_rows(
    lines: Iterable[str], path: str
) -> Iterator[tuple[int, list[str] | RowError]]:
    """Yields first line and cells of the rows of a CSV that are not empty.

    A row whose quotes do not match, or with a field of more than 16 million
    characters, is a RowError that names file and line: later rows can be read.
    """
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(lines, strict=True)
    while True:
        first_line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            row = RowError(f"{path}:{first_line}: {_describe(error)}")
            row.last_line = reader.line_num
        if row is None:
            return
        if row:
            yield first_line, row


def csv_cells(
    lines: Iterable[str], path: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields `csv_rows`; raises the first RowError."""
    for number, row in csv_rows(lines, path):
        if isinstance(row, RowError):
            raise row
        yield number, row


def _describe(error: csv.Error) -> str:
    """Returns the fault in a row of a CSV, and its correction."""
    fix = (
        "Is a quote not closed, or not doubled inside a quoted text? Write it "
        'as "".'
    )
    if "field limit" in str(error):
        fix = "Shorten it; or is a quote not closed?"
    elif "new-line" in str(error):
        fix = "Remove the carriage return, or put quotes around it."
    # Without the csv module's advice to programmers.
    reason = str(error).partition(" - ")[0]
    return f"{reason}. {fix}"


def _json_cells(lines, path) -> Iterator[tuple[int, list]]:
    header = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = json_object(line, number, f"{path}:{number}")
        if header is None:
            header = list(row)
            yield number, header
        yield number, [row.get(name) for name in header]


def json_object(line: str, number: int, where: str) -> dict[str, Any]:
    """Returns the object of one of JSON lines.

    Raises:
      ValueError: if it is no object, a text in it has an unpaired surrogate, or
        the first line begins a list.
    """
    if number == 1 and line.lstrip().startswith("["):
        raise ValueError(
            f"{where}: the file is a JSON list, not JSON lines. Write one "
            'object a line, such as {"text": "...", "label": "..."}: '
            'pandas.read_json(...).to_json(..., orient="records", '
            "lines=True) does."
        )
    row = json_files.parse(line, where)
    if "\\u" in line:  # JSON may escape an unpaired surrogate.
        text = json.dumps(row, ensure_ascii=False)
        json_files.check(text, str, where, "the line")
    return row


def _parquet_cells(path, columns) -> Iterator[tuple[int, list]]:
    with _open_parquet(path) as file:
        header = list(file.schema_arrow.names)
        yield 1, header
        names = None if columns is None else {*columns} & {*header}
        number = 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
            if names is None:
                values = [column.to_pylist() for column in batch.columns]
            else:
                nulls = [None] * batch.num_rows
                values = [
                    batch.column(name).to_pylist() if name in names else nulls
                    for name in header
                ]
            for row in zip(*values, strict=True):
                number += 1
                yield number, list(row)


@contextlib.contextmanager
def _open_parquet(path: str) -> Iterator[Any]:
    """Yields a pyarrow.parquet.ParquetFile; raises ValueError for others."""
    with libraries.extra("parquet", f"Reading {path}"):
        import pyarrow
        import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is damaged or not a Parquet file ({error}); copy it "
            "again, or set --input_format."
        ) from error


def class_names(path: str, input_format: str, column: str) -> tuple[str, ...]:
    """Returns the names of the classes whose ids are in a column, if known.

    Hugging Face's `datasets` writes them into a Parquet file, for a feature
    ClassLabel or a list of these; other files have none.

    Raises:
      ValueError: as in `read`.
    """
    if format_of(path, input_format) != "parquet":
        return ()
    with _open_parquet(path) as file:
        content = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        feature = json.loads(content)["info"]["features"][column]
        feature = feature.get("feature", feature)
        if feature["_type"] != "ClassLabel":
            return ()
        return tuple(map(str, feature["names"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()  # Of another tool, or no feature.


def to_cell(value: Any, where: str) -> Cell:
    """Returns a value of a row, of JSON or Parquet, as a cell.

    Numbers and booleans become strings as JSON writes them.

    Args:
      value: from `read`.
      where: file, line and column, for the message.

    Raises:
      ValueError: if it is neither a string, a number, a boolean, a list of
        these, nor null.
    """
    if isinstance(value, list):
        cells = [to_cell(item, where) for item in value]
        if all(isinstance(cell, str) for cell in cells):
            return cells
    elif value is None or isinstance(value, str):
        return value
    elif isinstance(value, float) and math.isnan(value):
        return None  # As pandas writes what is missing.
    elif isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ValueError(
        f"{where} is {quoted(value)}; expected a string, a number or a list of "
        "them. Convert the column, or write another table."
    )


def check_columns(
    wanted: Iterable[str],
    header: Sequence[str],
    path: str,
    fix: str,
    line: int = 1,
) -> None:
    """Raises ValueError for columns that are missing or there twice.

    If columns are missing, its message ends with `fix`. The header is at
    `line`.
    """
    wanted = list(wanted)
    if not header:
        raise ValueError(f"{path} is empty; copy or create it again.")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(
            f"{path}:{line}: no column {listed(missing)}; there are "
            f"{listed(header)}. {fix}"
        )
    text_files.check_unique(wanted, header, f"{path}:{line}")


def read_columns(
    path: str,
    input_format: str,
    wanted: Sequence[str],
    fix: str,
    *,
    header: Sequence[str] | None = None,
    skips_bad_rows: bool = False,
    statistics: ReadStatistics | None = None,
) -> Iterator[tuple[int, list]]:
    """Yields the line and the wanted values of each row.

    Args:
      path: a table.
      input_format: one of `FORMATS`.
      wanted: names of columns; or numbers, of a table without a header.
      fix: what to do if columns are missing.
      header: the header of a file without one.
      skips_bad_rows: whether rows of too few or many cells are skipped.
      statistics: counts are added to it.

    Raises:
      ValueError: as in `read` and `check_columns`; or naming file and line, if
        a row has too few or too many cells.
    """
    statistics = statistics or ReadStatistics()
    table = read(path, input_format, statistics, wanted)
    first = None
    if header is None:
        line, header = next(table, (0, ()))
        numbers = [*map(str, range(len(header)))]
        is_text = format_of(path, input_format) in ("tsv", "csv")
        # pandas writes numbers as a header, of columns without names.
        if is_text and are_numbers(wanted) and header != numbers:
            first, header = (line, header), numbers
    check_columns(wanted, header, path, fix)
    columns = [header.index(name) for name in wanted]
    for line, row in itertools.chain([first] if first else (), table):
        if len(row) == len(header):
            yield line, [row[column] for column in columns]
        elif skips_bad_rows:
            statistics.skipped_rows += 1
        else:
            raise ValueError(
                f"{path}:{line}: {len(row)} columns where the header has "
                f"{len(header)}: {listed(header)}. There is a separator too "
                "few or too many, or a stray quote or line break joined or "
                "split rows. Correct this line."
            )


def listed(names: Iterable[str]) -> str:
    """Returns the names of columns for a message, shortened."""
    return shortened(", ".join(map(repr, names)), 300)


def are_numbers(columns: Iterable[str]) -> bool:
    """Returns whether columns are given by their numbers, from 0."""
    return all(column.isdecimal() for column in columns)
