"""Counts of two sides' record sets -> measures with p-values and verdicts.

A side is one or more sets of records, each made from the same text with a
different seed. Two kinds of measures need different tests:

  by example  Properties drawn independently for each masked token or example:
              position, replacement, the number of masked tokens at a given
              length. Counts of all sets of a side are summed; chi-squared
              tests of the counts.
  by set      Properties that examples of the same document have in common:
              `short_seq_prob` is applied once per document, so a document
              gives a few long examples or many short ones, and a test that
              assumed independent examples would report chance differences.
              Sets with different seeds are independent, and as their text is
              the same they differ only by random draws: t tests of the sets'
              values, with pooled variance. For a distribution, the mean and
              the shares of about ten bins are tested; the p-value of the
              measure is the smallest one times their number (Bonferroni).

One set per side is not enough for t tests; if only one side has several, their
result depends on the assumption of a normal distribution. With one set on each
side, examples are assumed independent; then the verdict "same" still holds, but
a difference is "unclear". All p-values are adjusted for multiple testing (Holm
1979).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from tools import record_statistics, two_samples
from tools.record_statistics import Counts

SAME, DIFFERS, UNCLEAR = "same", "differs", "unclear"

_BINS = 10
_COMMON_TOKENS = 50


class Measure(NamedTuple):
    """One row of the comparison.

    Attributes:
      name: what is measured.
      first, second: its values on the two sides.
      chance: bound of the difference at this significance in a single test,
        not adjusted for the number of measures; None if not known.
      p: adjusted p-value of the difference.
      verdict: SAME, DIFFERS or UNCLEAR.
    """

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    chance: float | None
    p: float
    verdict: str


def compare(
    first: Sequence[Counts], second: Sequence[Counts], significance: float
) -> list[Measure]:
    """Compares two sides.

    Args:
      first: counts of the sets of one side.
      second: counts of the sets of the other side, with equal sizes.
      significance: probability of a false alarm in any of the measures.

    Raises:
      ValueError: if two sets of a side are equal.
    """
    for side in (first, second):
        _check_all_differ(side)
    sets = [*first, *second]
    is_first = np.arange(len(sets)) < len(first)
    results = {
        name: _by_set(function(sets), is_first, significance)
        for name, function in BY_SET.items()
    }
    one, other = map(record_statistics.add, (first, second))
    for name, function in BY_EXAMPLE.items():
        results[name] = function(one, other, significance)
    adjusted = two_samples.holm([result.p for result in results.values()])
    measures = []
    for (name, result), p in zip(results.items(), adjusted, strict=True):
        verdict = SAME
        if p <= significance:
            verdict = DIFFERS if result.is_clear else UNCLEAR
        measures.append(Measure(name, *result[:3], p, verdict))
    return measures


def _check_all_differ(side):
    for index, counts in enumerate(side):
        for before in side[:index]:
            # Relative positions have a random part, drawn in counting.
            both = (c._replace(positions=0) for c in (before, counts))
            if all(map(np.array_equal, *both)):
                raise ValueError(
                    "Two sets of one side hold the same records; make each "
                    "set of a side with a different --random_seed."
                )


class _Result(NamedTuple):
    """A measure of two sides before p is adjusted; fields as in `Measure`."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    chance: float | None
    p: float
    is_clear: bool  # Whether a small p-value is reliable.


class _Shares(NamedTuple):
    """A measure of several sets: a value for each, and counts to compare."""

    values: np.ndarray  # [sets]
    bins: np.ndarray | None = None  # [sets, bins] counts.


def _number(sets):
    return _Shares(np.array([float(counts.num_examples) for counts in sets]))


def _histogram(name) -> Callable[[Sequence[Counts]], _Shares]:
    """Returns a function: sets -> means and bins of the named histogram."""

    def measure(sets):
        table = np.array([getattr(counts, name) for counts in sets])
        if table.ndim == 3:
            table = table.sum(axis=1)
        means = table @ np.arange(table.shape[1])
        means = means / table.sum(axis=1).clip(min=1)
        return _Shares(means, _binned(table))

    return measure


def _binned(table):
    """Returns [sets, bins] counts, in bins of about equal total counts."""
    total = table.sum(axis=0)
    # Cumulative share at each value's middle; frequent values get own bins.
    middle = (np.cumsum(total) - total / 2) / max(1, total.sum())
    bins = np.floor(middle * _BINS).clip(max=_BINS - 1)
    begins = np.flatnonzero(np.diff(bins, prepend=-1))
    return np.add.reduceat(table, begins, axis=1)


def _originals(sets):
    table = np.array([counts.originals for counts in sets])
    common = np.argsort(-table.sum(axis=0), kind="stable")[:_COMMON_TOKENS]
    counts = table[:, common]
    total = table.sum(axis=1)
    rest = total - counts.sum(axis=1)
    values = counts.sum(axis=1) / total.clip(min=1)
    return _Shares(values, np.column_stack([counts, rest]))


BY_SET = {
    "examples in a set": _number,
    "tokens of an example": _histogram("tokens"),
    "tokens of segment A": _histogram("a_tokens"),
    "tokens of segment B": _histogram("b_tokens"),
    "share of random next sentences": _histogram("labels"),
    "masked tokens of an example": _histogram("masked"),
    "share of masked ## pieces after a masked one": _histogram("joined"),
    f"share of the {_COMMON_TOKENS} most common masked tokens": _originals,
}


def _by_set(shares, is_first, significance):
    values, bins = shares
    means = ((values[is_first].mean(),), (values[~is_first].mean(),))
    if len(values) == 2:  # Assumes independent examples.
        if bins is None:
            p = two_samples.equal_counts(*values)
        else:
            p = two_samples.chi_squared(bins)
        return _Result(*means, None, p, False)
    parts = [values]
    if (
        bins is not None and bins.shape[1] > 2
    ):  # For two bins the mean suffices.
        total = bins.sum(axis=1, keepdims=True).clip(min=1)
        parts += [*(two_samples.without_small(bins) / total).T]
    tests = [
        two_samples.t_test(part[is_first], part[~is_first]) for part in parts
    ]
    p = min(1.0, len(tests) * min(p for p, _ in tests))
    _, error = tests[0]
    chance = stats.t.isf(significance / 2, len(values) - 2) * error
    return _Result(*means, chance, p, 1 < is_first.sum() < len(values) - 1)


def _masked_given_length(one, other, significance):
    """Masked tokens among examples of the same length (Mantel 1963).

    Under the null hypothesis examples are assigned to the sides at random at
    each length, so the sum of one side has a known mean and variance; these are
    added over all lengths.
    """
    slots = np.arange(one.masked.shape[1])
    both = one.masked + other.masked  # [S + 1, P + 1]
    here, all_ = one.masked.sum(axis=1), both.sum(axis=1)  # [S + 1]
    there = all_ - here
    means = both @ slots / all_.clip(min=1)
    squares = (both * (slots - means[:, None]) ** 2).sum(axis=1)
    variance = here * there * squares / (all_ * (all_ - 1)).clip(min=1)
    difference = (one.masked @ slots - here * means).sum()
    # Converts the sum of one side to a difference of means, given lengths.
    pairs = (here * there / all_.clip(min=1)).sum()
    p, chance = 1.0, None
    if variance.sum() > 0:
        error = np.sqrt(variance.sum())
        p = 2 * stats.norm.sf(abs(difference) / error)
        chance = stats.norm.isf(significance / 2) * error / pairs
    mean = float(slots @ both.sum(axis=0) / both.sum())
    apart = difference / pairs if pairs else 0.0
    sides = (mean + apart / 2,), (mean - apart / 2,)
    return _Result(*sides, chance, float(p), True)


def _shown(one, other, significance):
    shares = [
        counts.shown / max(1, counts.shown.sum()) for counts in (one, other)
    ]
    share = shares[0][0]
    chance = two_samples.limit_of_means(
        significance, share * (1 - share), one.shown.sum(), other.shown.sum()
    )
    p = two_samples.chi_squared(np.array([one.shown, other.shown]))
    return _Result(*(tuple(row.tolist()) for row in shares), chance, p, True)


def _uniform(name):
    """Returns a function that tests the named histogram over [0, 1)."""

    def measure(one, other, significance):
        table = np.array([getattr(counts, name) for counts in (one, other)])
        middles = (np.arange(table.shape[1]) + 0.5) / table.shape[1]
        numbers = table.sum(axis=1)
        means = table @ middles / numbers.clip(min=1)
        variance = 1 / 12  # The uniform distribution has it.
        chance = two_samples.limit_of_means(significance, variance, *numbers)
        p = two_samples.chi_squared(table)
        return _Result(*((mean,) for mean in means), chance, p, True)

    return measure


BY_EXAMPLE = {
    "masked tokens, given the length": _masked_given_length,
    "share of [MASK], random, kept": _shown,
    "position of a masked token, 0 to 1": _uniform("positions"),
    "id of a random word, 0 to 1": _uniform("random_words"),
}
