"""Groups and grades of a table's rows -> lists of rows to learn a ranking from.

A list has a relevant row, and others of its group with lower grades, from which
it is to be told: passages of one query, in a cross-encoder's listwise loss (Gao
et al. 2021, arXiv 2101.08751). Rows of equal grades are in no list together,
unless both are lower ones.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np


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
