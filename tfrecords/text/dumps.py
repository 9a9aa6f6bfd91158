"""JSON lines or Parquet -> the text of each row.

Parquet requires pyarrow, installed with the extra `parquet`.
"""

import contextlib
from collections.abc import Iterable, Iterator

from absl import logging

from tfrecords import libraries
from tfrecords.io import storage
from tfrecords.options import shortened
from tfrecords.text import text_files

_ROWS = 256  # Rows of Parquet in memory.


def read_json_lines(
    lines: Iterable[str],
    path: str,
    text_field: str,
    statistics: text_files.ReadStatistics,
    first_line: int = 1,
) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of each JSON object with a text.

    Args:
      lines: the lines of the file; blank ones are skipped.
      path: path of the file, for messages.
      text_field: name of the field that holds the text.
      statistics: counts rows whose text is null; they are skipped.
      first_line: number of the first of the lines.

    Raises:
      ValueError: naming file and line, if a line is not a JSON object, or its
        field is missing or not a string.
    """
    from tfrecords.io import json_files  # Only for this format.

    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json_files.parse(line, where)
        except ValueError as error:
            raise ValueError(
                f"{error} Each line should be an object such as "
                '{"text": "..."}; or set --input_format.'
            ) from None
        if text_field not in row:
            raise ValueError(
                f"{where}: the line is an object with the fields "
                f"{shortened(str(sorted(row)), 300)}; expected the field "
                f"{text_field!r}. Set --text_field to the field with the text."
            )
        if _is_text(row[text_field], where, text_field, statistics):
            yield number, row[text_field]


def read_parquet(
    path: str, text_field: str, statistics: text_files.ReadStatistics
) -> Iterator[tuple[int, str]]:
    """Yields (row number from 1, text) of each row with a text.

    The arguments are those of `read_json_lines`; the field is a column.

    Raises:
      ValueError: if the column is missing or of another type, the file is
        damaged, or pyarrow is not installed.
    """
    with libraries.extra("parquet", f"Reading {path}"):
        import pyarrow.parquet as parquet
    number = 0
    with _reading(path), storage.open_bytes(path) as opened:
        file = parquet.ParquetFile(opened)
        names = file.schema_arrow.names
        if text_field not in names:
            raise ValueError(
                f"{path} has the columns {names} and no {text_field!r}. Set "
                "--text_field to the column with the text."
            )
        for batch in file.iter_batches(_ROWS, columns=[text_field]):
            for text in batch.column(0).to_pylist():
                number += 1
                where = f"{path}:{number}"
                if _is_text(text, where, text_field, statistics):
                    yield number, text


def _is_text(value, where, text_field, statistics) -> bool:
    """Returns whether a value is a text; counts null, which is skipped."""
    if value is None:
        if not statistics.rows_without_text:
            logging.warning(
                "%s: %r is null; such rows are skipped", where, text_field
            )
        statistics.rows_without_text += 1
        return False
    from tfrecords.io import json_files

    try:
        json_files.check(value, str, where, text_field)
    except ValueError as error:
        raise ValueError(
            f"{error} Or set --text_field to the field or column with the text."
        ) from None
    return True


@contextlib.contextmanager
def _reading(path):
    """Adds the path to errors of pyarrow."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"No input file at {path}; check the path.") from None
    except Exception as error:
        # pyarrow's errors are ValueErrors and OSErrors; it is not imported.
        is_known = isinstance(error, UnicodeDecodeError)
        if not is_known and not type(error).__module__.startswith("pyarrow"):
            raise
        raise ValueError(
            f"{path} is damaged or not a Parquet file ({error}); copy it "
            "again, or set --input_format."
        ) from error
