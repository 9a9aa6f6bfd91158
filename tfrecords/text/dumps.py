"""JSON lines or Parquet -> the text of each row.

Parquet requires pyarrow, installed with the extra `parquet`.
"""

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from absl import logging

from tfrecords.io import json_files
from tfrecords.io.inputs import parquet_files
from tfrecords.options import shortened
from tfrecords.text import text_files

_ROWS = 256  # Rows of Parquet in memory.
_WIKIEXTRACTOR = {"id", "url", "title", "text"}


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
            text = row[text_field]
            if _is_wikiextractor(row):  # Each line is a paragraph.
                text = html.unescape(text).replace("\n", "\n\n")
            yield number, text


def _is_wikiextractor(row: Mapping[str, Any]) -> bool:
    """Returns whether a row is of `wikiextractor --json`, which escapes &.

    Other extracts of Wikipedia have these fields, too, but not its addresses or
    the numbers of revisions.
    """
    return row.keys() - {"revid"} == _WIKIEXTRACTOR and (
        "revid" in row or "?curid=" in str(row["url"])
    )


def read_parquet(
    path: str, text_field: str, statistics: text_files.ReadStatistics
) -> Iterator[tuple[int, str]]:
    """Yields (row number from 1, text) of each row with a text.

    The arguments are those of `read_json_lines`; the field is a column.

    Raises:
      ValueError: if the column is missing or of another type, the file is
        damaged, or pyarrow is not installed.
    """
    with parquet_files.open_table(path) as table:
        if text_field not in table.names:
            raise ValueError(
                f"{path} has the columns {table.names} and no {text_field!r}. "
                "Set --text_field to the column with the text."
            )
        index, number = table.names.index(text_field), 0
        for batch in table.batches(_ROWS, {text_field}):
            for text in batch[index]:
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
    try:
        json_files.check(value, str, where, text_field)
    except ValueError as error:
        raise ValueError(
            f"{error} Or set --text_field to the field or column with the text."
        ) from None
    return True
