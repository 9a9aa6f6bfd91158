"""Tables of similar texts -> rows of texts, and perhaps the score of a pair."""

import contextlib
import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from typing import NamedTuple

from tfrecords.options import option, quoted, to_number
from tfrecords.tables import table_files
from tfrecords.tasks import data_files
from tfrecords.text import text_files

_FIX = "Name other columns with --text_column and --score_column."


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimilarityData(table_files.TableOptions):
    """Tables of similar texts."""

    train_file: str | None = option(
        None,
        "Table to train on (TSV, CSV, JSON lines, Parquet). Its rows are "
        "sentences, pairs, or pairs and texts that are like them but wrong, as "
        "--text_column says.",
        reads=True,
    )
    dev_file: str | None = option(
        None, "Table to evaluate on, of pairs.", reads=True
    )
    text_column: tuple[str, ...] = option(
        ("text",),
        "Columns of texts: one of sentences, whose vectors learn to tell them "
        "apart by dropout alone (SimCSE); two of pairs that belong together, "
        "such as a query and its passage; any more of texts that do not belong "
        "to the first one (hard negatives). The pairs of other rows of a batch "
        "are negatives, too. A cell may be a list of texts, as query,pos,neg "
        "of FlagEmbedding: a row for each of them, and for each combination of "
        "two lists. Names in the header, or numbers from 0 in tables without a "
        "header.",
    )
    score_column: str | None = option(
        None,
        "Column with the similarity of the two texts of a row, a number: "
        "their cosine learns it; or a list, of a number for each text of a "
        "list. Default: none.",
    )
    score_range: tuple[str, ...] = option(
        ("0", "1"),
        "Lowest and highest score, for cosines of 0 and 1; those of STS-B are "
        "0,5.",
    )
    dev_text_column: tuple[str, ...] | None = option(
        None,
        "Columns of --dev_file, if they are others: pairs, and perhaps hard "
        "negatives.",
        needs="dev_file",
    )
    dev_score_column: str | None = option(
        None,
        "Column of --dev_file with the similarity of each pair; the model is "
        "then chosen by Spearman's correlation. Default: --score_column, "
        "unless --dev_text_column is given.",
        needs="dev_file",
    )
    dev_share: float = option(
        0.1,
        "Fraction of the training rows to hold out as dev if there is no dev "
        "file; 0 for none. Sentences alone have no dev.",
        at_least=0.0,
        at_most=0.9,
    )

    def __post_init__(self):
        super().__post_init__()
        self.bounds()
        for name, columns, score in (
            ("text_column", self.text_column, self.score_column),
            ("dev_text_column", *self._dev_columns()),
        ):
            if not columns or len(set(columns)) < len(columns):
                raise ValueError(
                    f"--{name}={','.join(columns)} should be one or more "
                    "different columns."
                )
            if score and len(columns) != 2:
                raise ValueError(
                    f"--{name}={','.join(columns)}: a score is that of two "
                    "texts. Name two columns, or omit the score's."
                )
        if self.dev_file and len(self._dev_columns()[0]) == 1:
            raise ValueError(
                f"--dev_file={self.dev_file}: rows of one text cannot be "
                "evaluated. Name the two columns of pairs with "
                "--dev_text_column, and perhaps --dev_score_column."
            )

    def _dev_columns(self) -> tuple[tuple[str, ...], str | None]:
        """Returns the columns of texts, and that of scores, of dev."""
        if self.dev_text_column:
            return self.dev_text_column, self.dev_score_column
        return self.text_column, self.dev_score_column or self.score_column

    def bounds(self) -> tuple[float, float]:
        """Returns the lowest and the highest score.

        Raises:
          ValueError: unless they are two numbers in ascending order.
        """
        numbers = [*map(to_number, self.score_range)]
        low, high = numbers if len(numbers) == 2 else (0.0, 0.0)
        if not 0 < high - low < math.inf:
            raise ValueError(
                f"--score_range={','.join(self.score_range)} should be two "
                "numbers, the lower one first, such as 0,5."
            )
        return low, high

    def tables(self) -> dict[str, "Table"]:
        """Returns split -> table; without the dev that train may hold out.

        Raises:
          ValueError: if a file is missing.
        """
        found = {}
        for split, path, columns, score in (
            ("train", self.train_file, self.text_column, self.score_column),
            ("dev", self.dev_file, *self._dev_columns()),
        ):
            if path is None:
                continue
            data_files.check(split, path, "a table")
            found[split] = Table(
                path, self.input_format, tuple(columns), score, self.bounds()
            )
        return found


class Row(NamedTuple):
    """Texts that belong together, and their similarity."""

    texts: tuple[str, ...]
    score: float | None  # In [0, 1]; None if the table has none.
    source: str  # "file:line".


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of texts.

    A cell with a list of texts is a row for each of them; the rows of several
    lists are all combinations, in their order:

      {"query": "a", "pos": ["b"], "neg": ["c", "d"]}     a b c, a b d
      {"query": "a", "docs": ["b", "c"], "labels": [1, 0]}   a b 1, a c 0

    In a CSV, which has no lists, they are JSON. Other texts may begin with [.

    Attributes:
      path: the file.
      input_format: one of `table_files.FORMATS`.
      text_columns: names of T columns.
      score_column: name of that of the scores, if it has them.
      bounds: scores for cosines of 0 and 1.
    """

    path: str
    input_format: str
    text_columns: tuple[str, ...]
    score_column: str | None
    bounds: tuple[float, float]

    def rows(
        self, statistics: table_files.ReadStatistics | None = None
    ) -> Iterator[Row]:
        """Yields the rows.

        Args:
          statistics: counts are added to it.

        Raises:
          ValueError: naming file and line, if the table has no rows, a column
            is missing, a cell is no text or no score in the range, or all
            scores are the same.
        """
        statistics = statistics or table_files.ReadStatistics()
        wanted = [*self.text_columns]
        if self.score_column:
            wanted.append(self.score_column)
        scores = set()
        for where, cells in table_files.read_columns(
            self.path, self.input_format, wanted, _FIX, statistics=statistics
        ):
            for row in self._rows(cells, where):
                if len(scores) < 2:
                    scores.add(row.score)
                statistics.rows += 1
                yield row
        if not statistics.rows:
            raise ValueError(f"{self.path} has no rows; create it again.")
        if self.score_column and len(scores) == 1:
            raise ValueError(
                f"{self.path}: all rows have the same {self.score_column!r}, "
                "from which nothing can be learned. Name another column with "
                "--score_column; or omit it if the texts of each row belong "
                "together."
            )

    def _rows(self, cells, where: str) -> Iterator[Row]:
        """Yields the rows of the cells of a line, one without lists."""
        texts = [
            _texts(cell, f"{where}: {name!r}")
            for name, cell in zip(self.text_columns, cells, strict=False)
        ]
        rows = list(itertools.product(*texts))
        if not self.score_column:
            yield from (Row(row, None, where) for row in rows)
            return
        scores = _unprinted(cells[-1], int | float)
        scores = scores if isinstance(scores, list) else [scores]
        if len(scores) != len(rows):
            raise ValueError(
                f"{where}: {self.score_column!r} is {quoted(cells[-1])}, "
                f"{len(scores)} scores for {len(rows)} texts. Give a list with "
                "one for each text of the list."
            )
        for row, score in zip(rows, scores, strict=True):
            yield Row(row, self._score(score, where), where)

    def _score(self, cell, where: str) -> float:
        """Returns a score, moved to [0, 1]."""
        low, high = self.bounds
        score = to_number(cell)
        if not low <= score <= high:
            raise ValueError(
                f"{where}: {self.score_column!r} is {quoted(cell)}; a score "
                f"should be a number from {low:g} to {high:g}. Correct the "
                "line, or give another --score_range."
            )
        return (score - low) / (high - low)


def _unprinted(cell, kind):
    """Returns the list of items of a kind that a text is in JSON, or a cell."""
    if isinstance(cell, str) and cell.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(cell)
            return found if all(isinstance(x, kind) for x in found) else cell
    return cell


def _texts(cell, where: str) -> list[str]:
    """Returns the texts of a cell."""
    cell = table_files.to_cell(_unprinted(cell, str), where)
    texts = cell if isinstance(cell, list) else [cell]
    if not texts:
        raise ValueError(
            f"{where} is an empty list, so that the line makes no row. Give a "
            "text, or leave the column out of --text_column."
        )
    if not all(
        isinstance(text, str) and text_files.has_token(text) for text in texts
    ):
        raise ValueError(
            f"{where} is {quoted(cell)}; it should be a text, or a list of "
            "texts. Correct or remove the row."
        )
    return texts
