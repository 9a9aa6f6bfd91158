"""Rows, their groups and grades -> lists of rows to learn a ranking from.

A list has a relevant row, and others of its group with lower grades, from which
it is to be told: passages of one query, in a cross-encoder's listwise loss (Gao
et al. 2021, arXiv 2101.08751). Rows of equal grades are in no list together,
unless both are lower ones.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from tfrecords import schema


def choose(
    groups: Sequence[Hashable], grades: Sequence[float], *, size: int, seed: int
) -> Iterator[list[int]]:
    """Yields a list of row numbers for each relevant row, which is its first.

      groups  a    a    a    b        size 2
      grades  2    0    1    1
      lists   0 1, 2 1                or 0 2

    A relevant row without a lower one in its group has no list.

    Args:
      groups: [N] group of each row.
      grades: [N] its grade, relevant above 0.
      size: maximum number of rows in a list; others are drawn.
      seed: random seed; a draw depends on it and the number of the row.
    """
    grades = np.asarray(grades, np.float64)
    members: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    for rows in map(np.array, members.values()):
        for row in rows[grades[rows] > 0]:
            lower = rows[grades[rows] < grades[row]]
            if len(lower) >= size:
                rng = np.random.default_rng([seed, int(row)])
                lower = np.sort(rng.choice(lower, size - 1, replace=False))
            if len(lower):
                yield [int(row), *lower.tolist()]


def examples(
    rows: Sequence,
    encode: Callable[[Iterator], Iterator[dict[str, np.ndarray]]],
    counts: dict,
    *,
    size: int,
    seed: int,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields an example for each list of passages of a query.

    A missing passage is a copy of the first, with weight 0.

    Args:
      rows: of `glue_rows.Row`, all of a table.
      encode: rows -> an example for each.
      counts: the number of lists is added to it.
      size: maximum number of rows in a list.
      seed: of `choose`.
    """
    groups, grades = [x.group for x in rows], [x.label for x in rows]
    lists = list(choose(groups, grades, size=size, seed=seed))
    counts["lists"] = len(lists)
    filled = (x + x[:1] * (size - len(x)) for x in lists)
    passages = encode(rows[i] for numbers in filled for i in numbers)
    for numbers in lists:
        found = list(itertools.islice(passages, size))
        columns = {
            name: np.stack([x[name] for x in found]) for name in found[0]
        }
        weights = (np.arange(size) < len(numbers)).astype(np.float32)
        yield {name: columns[name] for name in schema.ENCODER_INPUTS} | {
            "passage_grades": columns["label_scores"] * weights,
            "passage_weights": weights,
        }
