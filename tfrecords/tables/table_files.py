"""TSV, CSV, JSON lines or Parquet file -> header and rows of cells.

Each but Parquet may be compressed (.gz, .bz2, .xz, .zst).
"""

import csv
import dataclasses
import datetime
import decimal
import itertools
import json
import math
import os
import shlex
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import logging

from tfrecords.io import json_files
from tfrecords.io.inputs import file_kinds
from tfrecords.options import Options, option, quoted, shortened, to_index
from tfrecords.tables import parts
from tfrecords.text import text_files

FORMATS = ("auto", "tsv", "csv", "quoted_tsv", "jsonl", "parquet")
# The csv module's limit, 131072, is less than a long passage.
MAX_FIELD = 1 << 24
_ENDINGS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "parquet",  # A stream of Arrow, which is read as Parquet is.
}
_ROWS_AT_ONCE = 1024
# JSON lines whose names are the columns, if all that are wanted are there.
_HEADER_LINES = 1000
_MOST_JSON = 1 << 26  # Bytes of a file whose form is told in a message.
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
        "object on each line, a .parquet or .arrow is Parquet; any other file "
        "has tabs and no quotes. quoted_tsv: tabs and quotes, as pandas and "
        "Label Studio write them.",
        choices=FORMATS,
    )


@dataclasses.dataclass
class ReadStatistics:
    """Counts of reading rows."""

    rows: int = 0
    skipped_rows: int = 0
    unlabelled_rows: int = 0
    lines_with_invalid_utf8: int = 0


def format_of(
    path: str, input_format: str = "auto", default: str = "tsv"
) -> str:
    """Returns the format of a file, by its ending if it is "auto".

    `default` is that of all other endings.
    """
    if input_format != "auto":
        return input_format
    found = _ENDINGS.get(parts.ending(path))
    # A file of the Hub's cache has no ending.
    if not found and os.path.isfile(path) and file_kinds.is_table(path):
        found = "parquet"
    return found or default


def manifest_entries(names: str, input_format: str) -> dict[str, str]:
    """Returns `parts.source`, and the format if it is not that of the ending.

    The arguments are those of `read_columns`.
    """
    path, *_ = parts.find(names)
    found = format_of(path, input_format)
    unusual = {"input_format": found} if found != format_of(path) else {}
    return unusual | parts.source(names)


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
    lines, the header has the keys of the first 1,000 objects, and of more if a
    wanted column is in none of these; a key that is missing in an object is
    None. The "line" of a row of Parquet is its number, from 1.

    Args:
      path: a file on a disk. CSV has commas and quotes; TSV has tabs, and
        quotes are text.
      input_format: one of `FORMATS`.
      statistics: counts lines with invalid UTF-8; None to count nothing.
      columns: the columns to read; of Parquet, values of others are None.
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
    with file_kinds.open_text(path) as file:
        if input_format == "jsonl":
            not_json = None
        lines = decoded(file, path, statistics or ReadStatistics(), not_json)
        if input_format == "jsonl":
            yield from _json_cells(lines, path, columns)
        elif input_format == "tsv":
            yield from _tsv_cells(lines, path)
        else:
            yield from csv_cells(lines, path, separator_of(input_format))


def separator_of(input_format: str) -> str:
    """Returns the separator of the cells of a CSV or a TSV."""
    return "," if input_format == "csv" else "\t"


def read_header(
    names: str, input_format: str = "auto", **keywords
) -> list[str]:
    """Returns the columns of a table's first part; empty for an empty file.

    Further arguments are those of `read`; `names` are those of `parts.find`.
    """
    path, *_ = parts.find(names)
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
    is_warned = False
    for number, line in enumerate(lines, 1):
        if line := line.removesuffix("\n").removesuffix("\r"):
            if '""' in line and not is_warned:
                is_warned = warn_of_quotes(line, path, number)
            yield number, line.split("\t")


def warn_of_quotes(line: str, path: str, number: int) -> bool:
    """Warns of a cell of a TSV with quotes of a CSV; returns whether it did."""
    cells = line.split("\t")
    found = any('""' in cell and _is_quoted(cell) for cell in cells)
    if found:
        logging.warning(
            "%s:%d: a cell is in quotes, with doubled ones inside, as in a "
            "CSV; here, quotes are text. --input_format=quoted_tsv reads the "
            "file as pandas and Label Studio write it",
            *(path, number),
        )
    return found


def _is_quoted(cell: str) -> bool:
    """Returns whether a cell is in quotes, and those inside are doubled."""
    inner = cell[1:-1].replace('""', "")
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner


class RowError(ValueError):
    """An error in one row of a CSV, which was read to `last_line`."""

    last_line: int


def csv_rows(
    lines: Iterable[str], path: str, separator: str = ","
) -> Iterator[tuple[int, list[str] | RowError]]:
    """Yields first line and cells of the rows of a CSV that are not empty.

    A row whose quotes do not match, or with a field of more than 16 million
    characters, is a RowError that names file and line: later rows can be read.
    """
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(lines, strict=True, delimiter=separator)
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
    lines: Iterable[str], path: str, separator: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yields `csv_rows`; raises the first RowError."""
    for number, row in csv_rows(lines, path, separator):
        if isinstance(row, RowError):
            raise row
        yield number, row


def _describe(error: csv.Error) -> str:
    """Returns the fault in a row of a CSV, and its correction."""
    fix = (
        "Is a quote not closed, or not doubled inside a quoted text? Write it "
        'as "". Or is the separator a tab, which --input_format=quoted_tsv '
        "reads, or a semicolon? Then write commas."
    )
    if "field limit" in str(error):
        fix = "Shorten it; or is a quote not closed?"
    elif "new-line" in str(error):
        fix = "Remove the carriage return, or put quotes around it."
    # Without the csv module's advice to programmers.
    reason = str(error).partition(" - ")[0]
    return f"{reason}. {fix}"


def _json_cells(lines, path, columns) -> Iterator[tuple[int, list]]:
    if header := _json_columns(path, columns):
        yield 1, header
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = json_object(line, number, f"{path}:{number}")
            yield number, [row.get(name) for name in header]


def _json_columns(path, columns) -> list[str]:
    """Returns the keys of the first objects, and of more for wanted columns.

    A line that is no object ends them; it is told when rows are read.
    """
    found, missing = {}, set(columns or ())
    with file_kinds.open_text(path) as file:
        for number, line in enumerate(filter(bytes.strip, file)):
            if number >= _HEADER_LINES and not missing:
                break
            line = line.decode("utf-8-sig", "replace")
            if not number:
                _check_lines(line, path)
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(row, dict):
                break
            found |= dict.fromkeys(row)
            missing -= row.keys()
    return list(found)


# Writes the rows of other JSON as JSON lines.
_TO_LINES = (
    "python -c 'import json,sys; [print(json.dumps(x)) for x in {}]' < {} > "
    "rows.jsonl"
)
_LOADED = "for t in [json.load(sys.stdin)]"


def _check_lines(line: str, path: str) -> None:
    """Raises ValueError if the first line of a file begins no JSON lines.

    But other JSON, which the message says how to convert.
    """
    line, other = line.strip(), None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and not any(isinstance(x, dict) for x in value):
        what, rows = "a list on each line", "map(json.loads, sys.stdin)"
        if value and isinstance(value[0], list):  # orient="values" of pandas.
            what, rows, value = (
                "a list of lists",
                "json.load(sys.stdin)",
                value[0],
            )
        names = ["text_a", "text_b"] + [f"column_{i}" for i in range(2, 99)]
        names = json.dumps(names[: len(value)])
        other = what, f"[dict(zip({names}, x)) for x in {rows}]"
    elif line.startswith("["):
        other = "a JSON list", "json.load(sys.stdin)"
    elif isinstance(value, dict):
        other = _of_pandas(value)
    elif line.endswith("},"):
        other = "objects with commas between them", None
    elif line.startswith("{") and os.path.isfile(path):
        with file_kinds.open_text(path) as file:
            text = file.read(_MOST_JSON).decode("utf-8-sig", "replace").strip()
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return
        lists = (
            f"json.load(sys.stdin)[{json.dumps(name)}]"
            for name, rows in value.items()
            if isinstance(rows, list) and rows and isinstance(rows[0], dict)
        )
        rows = next(lists, "[json.load(sys.stdin)]")
        # With others after it, as jq writes them.
        rows = None if text[end:] else rows
        other = "one JSON object on several lines", rows
    if other:
        what, rows = other
        is_file = os.path.isfile(path)  # Not stdin.
        name = shlex.quote(path) if is_file else "FILE"
        kind = is_file and file_kinds.of_file(path)
        call = f"jq -c . {name} > rows.jsonl"
        if line.endswith("},"):
            call = f"sed 's/,$//' {name} > rows.jsonl"
        if rows:
            call = _TO_LINES.format(rows, "NEW" if kind else name)
        if kind:  # It is compressed.
            call = f"{kind.fix.replace('FILE', name)}; then {call}"
        raise ValueError(
            f"{path}:1: the file is {what}, not JSON lines. Write one "
            f'object a line, such as {{"text": "...", "label": "..."}}: {call}'
        )


def _of_pandas(value: dict) -> tuple[str, str] | None:
    """Returns what pandas.DataFrame.to_json wrote, and Python for its rows.

    None for another object, which may be the first of JSON lines.
    """
    what = "one object, as pandas.DataFrame.to_json writes it"
    if value.keys() == {"schema", "data"}:
        return what, 'json.load(sys.stdin)["data"]'
    if value.keys() >= {"columns", "data"} and len(value) < 4:
        rows = f'[dict(zip(t["columns"], r)) {_LOADED} for r in t["data"]]'
        return what, rows
    inner = [x.keys() if isinstance(x, dict) else () for x in value.values()]
    if any(x != inner[0] for x in inner) or not all(inner):
        return None
    if all(map(str.isdecimal, value)):  # orient="index".
        return what, "json.load(sys.stdin).values()"
    if not all(map(str.isdecimal, inner[0])):
        return None
    columns = "zip(*[c.values() for c in t.values()])"
    return what, f"[dict(zip(t, r)) {_LOADED} for r in {columns}]"


def json_object(line: str, number: int, where: str) -> dict[str, Any]:
    """Returns the object of one of the JSON lines of a file.

    Raises:
      ValueError: if it is no object, or a text in it has an unpaired surrogate.
        Of the first line, it says what writes JSON lines, if the file is a
        list, one object on several lines, or lines of lists.
    """
    if number == 1:
        _check_lines(line, where.removesuffix(":1"))
    return json_files.parse_valid(line, where)


def _parquet_cells(path, columns) -> Iterator[tuple[int, list]]:
    from tfrecords.io.inputs import parquet_files  # For this format alone.

    with parquet_files.open_table(path) as table:
        yield 1, table.names
        wanted = None if columns is None else {*columns}
        number = 0
        for batch in table.batches(_ROWS_AT_ONCE, wanted):
            for row in zip(*batch, strict=True):
                number += 1
                yield number, list(row)


def class_names(path: str, input_format: str, column: str) -> tuple[str, ...]:
    """Returns the names of the classes whose ids are in a column, if known.

    Hugging Face's `datasets` writes them into a Parquet file, for a feature
    ClassLabel or a list of these, `[ClassLabel]` in old versions; other files
    have none.

    Raises:
      ValueError: as in `read`.
    """
    if format_of(path, input_format) != "parquet":
        return ()
    from tfrecords.io.inputs import parquet_files  # For this format alone.

    with parquet_files.open_table(path) as table:
        content = table.metadata.get(b"huggingface", b"{}")
    try:
        feature = json.loads(content)["info"]["features"][column]
        while feature != (inner := _inner(feature)):
            feature = inner
        if feature["_type"] != "ClassLabel":
            return ()
        return tuple(map(str, feature["names"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()  # Of another tool, or no feature.


def _inner(feature: Any) -> Any:
    """Returns the feature of the items of a list, else the feature itself."""
    if isinstance(feature, list):
        (feature,) = feature
        return feature
    return feature.get("feature", feature)


def to_cell(value: Any, where: str) -> Cell:
    """Returns a value of a row, of JSON or Parquet, as a cell.

    Numbers and booleans become strings as JSON writes them; UUIDs, dates and
    times as Python does.

    Args:
      value: from `read`.
      where: file, line and column, for the message.

    Raises:
      ValueError: if it is none of these, nor a string, a list of these, or
        null.
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
    elif isinstance(value, decimal.Decimal) and value.is_finite():
        return f"{value.normalize():f}"  # 0.5 for the 0.50 of a DECIMAL(9, 2).
    elif isinstance(value, uuid.UUID | datetime.date | datetime.time):
        return str(value)  # A datetime is a date.
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
        is_quoted = all(map(_is_quoted, header)) and "\t" not in header[0]
        if is_quoted or (len(header) == 1 and "\t" in header[0]):
            fix = "Its tabs and quotes are read by --input_format=quoted_tsv."
        elif len(header) == 1 and "," in header[0]:
            fix = "Its cells have commas between them: --input_format=csv."
        elif len(header) == 1 and ";" in header[0]:
            fix = (
                "Its cells have ; between them; write commas: "
                'pandas.read_csv(FILE, sep=";").to_csv(OTHER, index=False)'
            )
        raise ValueError(
            f"{path}:{line}: no column {listed(missing)}; there are "
            f"{listed(header)}. {fix}"
        )
    text_files.check_unique(wanted, header, f"{path}:{line}")


def read_columns(
    names: str,
    input_format: str,
    wanted: Sequence[str],
    fix: str,
    *,
    header: Sequence[str] | None = None,
    skips_bad_rows: bool = False,
    statistics: ReadStatistics | None = None,
) -> Iterator[tuple[str, list]]:
    """Yields "file:line" and the wanted values of each row.

    Args:
      names: a table, or its parts, as in `parts.find`.
      input_format: one of `FORMATS`.
      wanted: names of columns; or numbers, of a table without a header.
      fix: what to do if columns are missing.
      header: the header of a file without one.
      skips_bad_rows: whether rows of too few or many cells are skipped.
      statistics: counts are added to it.

    Raises:
      ValueError: as in `parts.find`, `read` and `check_columns`; or naming file
        and line, if a row has too few or too many cells.
    """
    statistics = statistics or ReadStatistics()
    paths = parts.find(names)
    # Lines of JSON may leave out nulls, so that a part can lack a column.
    lacking, given = {*wanted}, header
    for path in paths:
        table = read(path, input_format, statistics, wanted)
        first, header = None, given
        file_format = format_of(path, input_format)
        if header is None:
            line, header = next(table, (0, ()))
            numbers = [*map(str, range(len(header)))]
            is_text = file_format not in ("jsonl", "parquet")
            # pandas writes numbers as a header, of columns without names.
            if is_text and are_numbers(wanted) and header != numbers:
                if header == ["", *numbers[:-1]]:
                    raise ValueError(
                        f"{path}:{line}: the first column is the index that "
                        "pandas writes. Write the table without it: "
                        ".to_csv(..., index=False)."
                    )
                first, header = (line, header), numbers
        lacking -= {*header}
        if file_format == "jsonl" and len(paths) > 1:
            text_files.check_unique(wanted, header, path)
        else:
            check_columns(wanted, header, path, fix)
        yield from _wanted_cells(
            itertools.chain([first] if first else (), table),
            [header.index(name) if name in header else None for name in wanted],
            header,
            path,
            statistics if skips_bad_rows else None,
        )
    if lacking:
        check_columns(wanted, header, names, fix)


def _wanted_cells(
    rows, columns, header, path, skipped: ReadStatistics | None
) -> Iterator[tuple[str, list]]:
    """Yields "file:line" and the wanted values of the rows of one file."""
    for line, row in rows:
        if len(row) == len(header):
            yield (
                f"{path}:{line}",
                [None if column is None else row[column] for column in columns],
            )
        elif skipped:
            skipped.skipped_rows += 1
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
    return None not in map(to_index, columns)
