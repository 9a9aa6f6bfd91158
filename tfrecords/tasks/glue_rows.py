"""TSV or CSV files of a GLUE task -> rows of texts and label."""

import csv
import dataclasses
import io
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfrecords.options import quoted, shortened
from tfrecords.tasks import glue_tables
from tfrecords.text import text_files

# The csv module's limit, 131072, is less than a long passage.
MAX_FIELD = 1 << 24
# Maximum number of labels that a message proposes.
_MAX_LABELS = 50
_TABLE = (
    "a table with a header line; pandas.read_json(..., lines=True) and "
    ".to_csv(..., index=False) convert it"
)


class Row(NamedTuple):
    """A text or a pair of texts, and its label."""

    texts: tuple[str, ...]  # One or two.
    label: int | float | None  # Class id or score; None in test sets.
    source: str  # "file:line".


@dataclasses.dataclass
class ReadStatistics:
    """Counts of reading rows."""

    rows: int = 0
    skipped_rows: int = 0
    lines_with_invalid_utf8: int = 0


def choose_task(data: glue_tables.GlueData) -> glue_tables.GlueTask:
    """Returns `GlueData.choose_task`.

    Raises:
      ValueError: likewise; if text columns or labels are omitted, the message
        has the columns or the labels of the file.
    """
    files = data.own_files()
    if files and not data.text_column:
        (split, path), *_ = files.items()
        names = ",".join(_read_header(path))
        raise ValueError(
            f"--{split}_file needs --text_column, the names of one or two "
            f"columns. {path} has {shortened(names, 300)}."
        )
    labelled = [split for split in files if split != "test"]
    if labelled and not data.labels:
        raise ValueError(
            f"--{labelled[0]}_file needs --labels, in the order of their ids: "
            + _describe_labels(files[labelled[0]], data.label_column)
        )
    return data.choose_task()


def _read_header(path: str) -> list[str]:
    with open(path, "rb") as file:
        _, header = next(_cells(file, path, ReadStatistics()), (0, []))
    return header


def _describe_labels(path: str, column: str) -> str:
    """Returns the values of a column as a flag, or why they are no labels."""
    found = set()
    with open(path, "rb") as file:
        table = _cells(file, path, ReadStatistics())
        _, header = next(table, (0, []))
        check_columns([column], header, path, "Name one with --label_column.")
        index = header.index(column)
        for _, row in table:
            found.update(row[index : index + 1])
            if len(found) > _MAX_LABELS:
                break
    found.discard("")
    where = f"column {column!r} of {path} has"
    if not found:
        return f"{where} no values. Name another with --label_column."
    numbers = all(map(_is_number, found))
    if len(found) > _MAX_LABELS:
        return (
            f"{where} more than {_MAX_LABELS} different values, such as "
            f"{quoted(min(found))}. Give --labels=score if it is a number to "
            "predict, or name another column with --label_column."
        )
    names = io.StringIO()
    order = sorted(found, key=float) if numbers else sorted(found)
    csv.writer(names, lineterminator="").writerow(order)
    score = "; or --labels=score to predict the number" if numbers else ""
    return f"{where} {shlex.quote(f'--labels={names.getvalue()}')}{score}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def read_rows(
    task: glue_tables.GlueTask,
    path: str,
    *,
    is_labelled: bool,
    statistics: ReadStatistics | None = None,
) -> Iterator[Row]:
    """Yields the rows of a file, one at a time.

    Args:
      task: defines columns and labels.
      path: `*.csv` has commas and quotes; other files have tabs, and quotes are
        text.
      is_labelled: whether to read labels; test sets have none.
      statistics: counts are added to it; None to count nothing.

    Raises:
      ValueError: naming file and line, if the file is empty, a column is
        missing, a row has too few or too many columns or an unclosed quote, or
        a label is not one of the task's.
    """
    statistics = statistics or ReadStatistics()
    with open(path, "rb") as file:
        table = _cells(file, path, statistics)
        header = task.header if is_labelled else None
        if header is None:
            _, header = next(table, (0, ()))
        wanted = task.text_columns + (task.label_column,) * is_labelled
        check_columns(
            wanted,
            header,
            path,
            "Name other columns with --text_column and --label_column, or use "
            "the task's official file.",
        )
        columns = [header.index(name) for name in wanted]
        for line, row in table:
            if len(row) != len(header):
                # A skipped test row would shift the predictions after it.
                if task.skips_bad_rows and is_labelled:
                    statistics.skipped_rows += 1
                    continue
                raise ValueError(
                    f"{path}:{line}: {len(row)} columns where the header has "
                    f"{len(header)}: {listed(header)}. There is a separator "
                    "too few or too many, or a stray quote or line break "
                    "joined or split rows. Correct this line."
                )
            values = [row[column] for column in columns]
            label = None
            if is_labelled:
                label = _parse_label(task, values.pop(), f"{path}:{line}")
            statistics.rows += 1
            yield Row(tuple(values), label, f"{path}:{line}")
    if not statistics.rows:
        raise ValueError(f"{path} has no rows; copy or create it again.")


def _cells(file, path, statistics) -> Iterator[tuple[int, list[str]]]:
    lines = decoded(file, path, statistics)
    is_csv = path.lower().endswith(".csv")
    return (csv_cells if is_csv else _tsv_cells)(lines, path)


def decoded(
    lines: Iterable[bytes], path: str, statistics: ReadStatistics
) -> Iterator[str]:
    """Yields lines decoded as UTF-8; counts lines with invalid bytes.

    Raises:
      ValueError: as `text_files.check_line`, for a table; or if the file is
        JSON.
    """
    decode = text_files.Decoder(path, is_table=True)
    for number, line in enumerate(lines, 1):
        before = decode.num_replaced
        text = decode(line, number)
        if number == 1:
            text_files.check_not_json(text, path, _TABLE)
        statistics.lines_with_invalid_utf8 += decode.num_replaced > before
        yield text


def _tsv_cells(lines, path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        if line := line.removesuffix("\n").removesuffix("\r"):
            yield number, line.split("\t")


def csv_cells(
    lines: Iterable[str], path: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV that are not empty, with their first lines.

    Raises:
      ValueError: naming file and line, if quotes do not match, or a field is
        longer than 16 million characters.
    """
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(lines, strict=True)
    while True:
        first_line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            where = f"{path}:{first_line}"
            raise ValueError(f"{where}: {describe(error)}") from error
        if row is None:
            return
        if row:
            yield first_line, row


def describe(error: csv.Error) -> str:
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


def check_columns(
    wanted: Iterable[str], header: Sequence[str], path: str, fix: str
) -> None:
    """Raises ValueError for columns that are missing or there twice.

    If columns are missing, its message ends with `fix`.
    """
    wanted = list(wanted)
    if not header:
        raise ValueError(f"{path} is empty; copy or create it again.")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(
            f"{path}:1: no column {listed(missing)}; there are "
            f"{listed(header)}. {fix}"
        )
    text_files.check_unique(wanted, header, f"{path}:1")


def listed(names: Iterable[str]) -> str:
    """Returns the names of columns for a message, shortened."""
    return shortened(", ".join(map(repr, names)), 300)


def _parse_label(
    task: glue_tables.GlueTask, label: str, where: str
) -> int | float:
    if not task.is_regression:
        if label not in task.labels:
            raise ValueError(
                f"{where}: label {quoted(label)} is not one of {task.name}'s: "
                f"{', '.join(task.labels)}. Correct the line or the labels."
            )
        return task.labels.index(label)
    low, high = task.score_range or (-3e38, 3e38)  # Range of float32.
    try:
        score = float(label)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise ValueError(
            f"{where}: label {quoted(label)} is not a score of {task.name}, a "
            f"number from {low:g} to {high:g}. Correct the line."
        )
    return score
