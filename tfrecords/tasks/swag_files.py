"""CSV files in the layout of SWAG -> checked contexts with their endings."""

import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

from tfrecords.options import quoted
from tfrecords.tables import table_files
from tfrecords.tasks import data_files

# Zellers et al. 2018; other columns are ignored.
CONTEXT, BEGINNING, LABEL = "sent1", "sent2", "label"
_ENDING = re.compile(r"ending([0-9]{1,3})")
_LABEL = re.compile(r"[0-9]{1,3}")
_FIX = (
    "Use the official file, or name the columns of yours as in SWAG: sent1, "
    "sent2, ending0, ending1 and so on, label."
)
# Split -> official name of its file.
FILES = {"train": "train.csv", "dev": "val.csv", "test": "test.csv"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwagData(data_files.TaskFiles):
    """Files in the layout of SWAG to read."""

    def find_files(self) -> dict[str, str]:
        """Returns {split: path}, by `data_files.find_files`."""
        given = {split: getattr(self, f"{split}_file") for split in FILES}
        return data_files.find_files(
            self.data_dir, given, FILES, "CSV in the layout of SWAG"
        )


class Row(NamedTuple):
    """A sentence, and its possible continuations."""

    context: str  # The sentence, A of every pair.
    endings: tuple[str, ...]  # B of each pair: sent2 and an ending.
    label: int | None  # Index of the right ending; None in test sets.
    source: str  # "file:line".


def _read_header(path: str) -> list[str]:
    # The commands have no --input_format to recommend.
    return table_files.read_header(path, "csv", not_json=table_files.TABLE)


def read_rows(
    path: str,
    *,
    is_labelled: bool,
    statistics: table_files.ReadStatistics | None = None,
) -> Iterator[Row]:
    """Yields the rows of a file, one at a time.

    Args:
      path: CSV with a header line that contains sent1, sent2, ending0, ending1
        and so on, label, in any order. Two or more endings, the same number in
        each row.
      is_labelled: whether to read labels; test sets have none.
      statistics: counts are added to it; None to count nothing.

    Raises:
      ValueError: naming file and line, if the file is empty or lacks a column,
        a row has fewer or more cells or endings than the header, a quote is not
        closed, or a label is not the number of an ending.
    """
    statistics = statistics or table_files.ReadStatistics()
    endings = _endings(_read_header(path))
    names = [CONTEXT, BEGINNING, *[LABEL] * is_labelled, *endings]
    for where, cells in table_files.read_columns(
        path, "csv", names, _FIX, statistics=statistics
    ):
        named = zip(names, (cell.strip() for cell in cells), strict=True)
        yield _parse(dict(named), endings, is_labelled, where)
        statistics.rows += 1
    if not statistics.rows:
        raise ValueError(f"{path} has no rows; copy or create it again.")


def count_endings(path: str) -> int:
    """Returns the number of endings per row of a file, from its header.

    Raises:
      ValueError: naming the file, if it has no such header.
    """
    header = _read_header(path)
    endings = _endings(header)
    wanted = [CONTEXT, BEGINNING, *endings]
    table_files.check_columns(wanted, header, path, _FIX)
    return len(endings)


def _endings(header: list[str]) -> list[str]:
    """Returns the columns of endings that a file should have."""
    # At least two, and none missing before the last.
    last = max([1, *(int(m[1]) for m in map(_ENDING.fullmatch, header) if m)])
    return [f"ending{number}" for number in range(last + 1)]


def _parse(
    cells: dict[str, str], endings: list[str], is_labelled: bool, where: str
) -> Row:
    empty = [name for name in endings if not cells[name]]
    if empty:
        raise ValueError(
            f"{where}: {len(endings) - len(empty)} endings where the file has "
            f"{len(endings)}: {', '.join(empty)} is empty. All rows of a file "
            "need the same number; add an ending to this row, or move it to a "
            "separate file."
        )
    label = None
    if is_labelled:
        word = cells[LABEL]
        if not _LABEL.fullmatch(word) or int(word) >= len(endings):
            raise ValueError(
                f"{where}: label {quoted(word)} should be the number of an "
                f"ending, 0 to {len(endings) - 1}. Correct the line."
            )
        label = int(word)
    return Row(
        cells[CONTEXT],
        tuple(f"{cells[BEGINNING]} {cells[name]}".strip() for name in endings),
        label,
        where,
    )
