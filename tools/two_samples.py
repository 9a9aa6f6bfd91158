"""Two samples -> p-value of a test that both come from one distribution."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

_LEAST_EXPECTED = 5  # Per cell, for a valid chi-squared test.


def holm(ps: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for multiple testing, in their order.

    Holm 1979: the probability that any of the adjusted p-values falls below a
    bound by chance is at most that bound, for tests that depend on each other
    in any way.

    Args:
      ps: p-values of all tests.
    """
    order = np.argsort(ps, kind="stable")
    factors = len(ps) - np.arange(len(ps))
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(np.array(ps)[order] * factors)
    return adjusted.clip(max=1.0).tolist()


def t_test(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Student's t test of equal means, with pooled variance.

    The variance is pooled, so one of the samples may hold a single value.

    Args:
      first: [N] float.
      second: [M] float, N + M > 2.

    Returns:
      The two-sided p-value, and the standard error of the difference of means.
    """
    freedom = len(first) + len(second) - 2
    squares = sum(((part - part.mean()) ** 2).sum() for part in (first, second))
    scale = 1 / len(first) + 1 / len(second)
    error = math.sqrt(squares / freedom * scale)
    difference = abs(first.mean() - second.mean())
    # No variance except rounding: each sample repeats one value. If the values
    # differ, the p-value is that of a permutation test.
    smallest = 1e-12 * max(abs(first).max(), abs(second).max())
    if error <= smallest:
        permutations = math.comb(freedom + 2, len(first))
        is_equal = difference <= 1e3 * smallest
        return (1.0 if is_equal else 2 / permutations), 0.0
    return float(2 * stats.t.sf(difference / error, freedom)), error


def chi_squared(table: np.ndarray) -> float:
    """Returns the p-value of a chi-squared test of homogeneity.

    Neighbouring bins are merged until the expected counts suffice for the
    test; p is 1 if that leaves one bin.

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
    """Returns the p-value that two Poisson counts have the same mean."""
    return float(stats.chisquare([first, second]).pvalue)


def without_small(bins: np.ndarray) -> np.ndarray:
    """Merges all bins whose counts are too small to estimate a variance.

    Args:
      bins: [samples, bins] counts.

    Returns:
      [samples, fewer bins] counts; the last bin holds the merged ones.
    """
    is_small = bins.sum(axis=0) < _LEAST_EXPECTED * len(bins)
    if not is_small.any():
        return bins
    rest = bins[:, is_small].sum(axis=1)
    return np.column_stack([bins[:, ~is_small], rest])


def limit_of_means(
    significance: float, variance: float, first: int, second: int
) -> float | None:
    """Returns the largest insignificant difference of means.

    Args:
      significance: probability of a larger difference by chance.
      variance: variance of one draw.
      first: number of draws on one side.
      second: number of draws on the other side.

    Returns:
      The difference; None if a side has no draws.
    """
    if not (first and second):
        return None
    error = math.sqrt(variance * (1 / first + 1 / second))
    return float(stats.norm.isf(significance / 2)) * error
