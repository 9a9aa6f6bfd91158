"""Two samples -> the chance that one distribution gives as different ones."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

_LEAST_EXPECTED = 5  # In a cell, for a chi-squared test to hold.


def holm(ps: Sequence[float]) -> list[float]:
    """Returns p values adjusted for their number, in their order.

    Holm 1979: below a bound, they give a false alarm in any of the tests with
    that probability at most, however the tests depend on each other.
    """
    order = np.argsort(ps, kind="stable")
    factors = len(ps) - np.arange(len(ps))
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(np.array(ps)[order] * factors)
    return adjusted.clip(max=1.0).tolist()


def t_test(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Returns p of two means, and the standard error of their difference.

    The variance is that of both samples together, so one may be of one value.

    Args:
      first: [N] float.
      second: [M] float, N + M > 2.
    """
    freedom = len(first) + len(second) - 2
    squares = sum(((part - part.mean()) ** 2).sum() for part in (first, second))
    scale = 1 / len(first) + 1 / len(second)
    error = math.sqrt(squares / freedom * scale)
    difference = abs(first.mean() - second.mean())
    # What rounding leaves of no variance. Two values, each always on its side:
    # then p is that of permutations.
    smallest = 1e-12 * max(abs(first).max(), abs(second).max())
    if error <= smallest:
        deals = math.comb(freedom + 2, len(first))
        return (1.0 if difference <= 1e3 * smallest else 2 / deals), 0.0
    return float(2 * stats.t.sf(difference / error, freedom)), error


def chi_squared(table: np.ndarray) -> float:
    """Returns p of two rows of counts being of one distribution.

    Neighbours are put together where there are too few for the test; p is 1 if
    that leaves one column.

    Args:
      table: [2, bins] counts.
    """
    share = table.sum(axis=1).min() / max(1, table.sum())
    merged, column = [], np.zeros(2)
    for counts in table.T:
        column = column + counts
        if column.sum() * share >= _LEAST_EXPECTED:
            merged.append(column)
            column = np.zeros(2)
    if merged:
        merged[-1] = merged[-1] + column
    if len(merged) < 2:
        return 1.0
    return float(stats.chi2_contingency(np.array(merged).T, False).pvalue)


def equal_counts(first: int, second: int) -> float:
    """Returns p of two counts having one mean (Poisson)."""
    return float(stats.chisquare([first, second]).pvalue)


def without_small(bins: np.ndarray) -> np.ndarray:
    """Puts all bins together that hold too little for their variance to show.

    Args:
      bins: [samples, bins] counts.
    """
    is_small = bins.sum(axis=0) < _LEAST_EXPECTED * len(bins)
    if not is_small.any():
        return bins
    rest = bins[:, is_small].sum(axis=1)
    return np.column_stack([bins[:, ~is_small], rest])


def limit_of_means(
    significance: float, variance: float, first: int, second: int
) -> float | None:
    """Returns how far means of so many draws may be apart by chance.

    None if there is no draw.
    """
    if not (first and second):
        return None
    error = math.sqrt(variance * (1 / first + 1 / second))
    return float(stats.norm.isf(significance / 2)) * error
