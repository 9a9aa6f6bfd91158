"""Lengths of examples -> which of them share a row, with little padding.

Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination":
what matters for packing is only how many examples there are of each length,
and there are few lengths. So rows that hold the same lengths are worked on as
one, however many they are.

N examples, R rows, S places in a row, E examples in a row at most.
"""

from typing import NamedTuple

import numpy as np

# [CLS], one token, [SEP]: shorter examples do not exist.
_FEWEST_TOKENS = 3


class Rows(NamedTuple):
    """Which examples share a row."""

    order: np.ndarray  # [N] int64, all examples; those of a row side by side.
    counts: np.ndarray  # [R] int64, examples of each row; their sum is N.


class _Kind(NamedTuple):
    """Rows that hold the same lengths."""

    num_rows: int
    free: int  # Places left in each of them.
    lengths: tuple[int, ...]  # Of their examples, descending.

    def with_more(self, num_rows: int, length: int, count: int) -> "_Kind":
        """Returns so many of the rows, with some more examples in each."""
        return _Kind(
            num_rows,
            self.free - count * length,
            self.lengths + (length,) * count,
        )


def assign(
    lengths: np.ndarray, max_seq_length: int, max_examples_per_row: int
) -> Rows:
    """Deals examples to rows: the longest first, each to the first that fits.

      lengths 5 3 8 2 2, rows of 8, three examples at most
      order   0 1  2  3 4
      counts  2    1  2

    First-fit-decreasing takes at most 11 / 9 of the fewest rows, and one more
    (Dosa 2007), as long as E does not bind. The same lengths give the same
    rows. Rows are in the order of their longest examples, so that rows of
    shuffled examples are shuffled.

    Args:
      lengths: [N] integer, tokens of each example; from 1 to S.
      max_seq_length: S.
      max_examples_per_row: E.

    Raises:
      ValueError: if a length is out of range.
    """
    lengths = np.asarray(lengths, np.int64)
    wrong = lengths[(lengths < 1) | (lengths > max_seq_length)]
    if wrong.size:
        raise ValueError(
            f"An example of {wrong[0]} tokens does not fit into a row of "
            f"max_seq_length={max_seq_length}; 1 to that many do."
        )
    histogram = np.bincount(lengths, minlength=max_seq_length + 1)
    kinds = _first_fit_decreasing(histogram.tolist(), max_examples_per_row)
    counts = np.array([len(kind.lengths) for kind in kinds], np.int64)
    repeats = np.array([kind.num_rows for kind in kinds], np.int64)
    wanted = [np.tile(kind.lengths, kind.num_rows) for kind in kinds]
    wanted = np.concatenate([np.zeros(0, np.int64), *wanted])  # [N] lengths.
    counts = np.repeat(counts, repeats)
    # Examples of one length are alike: the first place that wants it takes
    # the first of them, and so on.
    order = np.empty(len(lengths), np.int64)
    order[np.argsort(wanted, kind="stable")] = np.argsort(
        lengths, kind="stable"
    )
    longest = order[np.cumsum(counts) - counts]  # [R]
    rows = np.argsort(longest)
    rank = np.empty(len(rows), np.int64)
    rank[rows] = np.arange(len(rows))
    by_row = np.argsort(np.repeat(rank, counts), kind="stable")
    return Rows(order[by_row], counts[rows])


def _first_fit_decreasing(
    histogram: list[int], max_examples_per_row: int
) -> list[_Kind]:
    """Returns rows by kind, in the order in which they were begun.

    Args:
      histogram: [S + 1] examples of each length.
      max_examples_per_row: E.
    """
    max_seq_length = len(histogram) - 1
    present = [length for length, count in enumerate(histogram) if count]
    shortest = present[0] if present else 0
    full, open_kinds = [], []
    for length in reversed(present):
        left, kinds = histogram[length], []
        # As many empty rows as can be needed are the last to be tried.
        for kind in [*open_kinds, _Kind(left, max_seq_length, ())]:
            room = max_examples_per_row - len(kind.lengths)
            each = min(kind.free // length, room)
            if not each or not left:
                kinds.append(kind)
                continue
            # Some take as many as fit, one the rest, and others none.
            filled = min(left // each, kind.num_rows)
            left -= filled * each
            rows = kind.num_rows - filled
            kinds.append(kind.with_more(filled, length, each))
            if rows and left:
                kinds.append(kind.with_more(1, length, left))
                rows, left = rows - 1, 0
            kinds.append(kind._replace(num_rows=rows))
        open_kinds = []
        for kind in kinds:
            if not kind.num_rows or not kind.lengths:
                continue
            has_room = len(kind.lengths) < max_examples_per_row
            is_open = has_room and kind.free >= shortest
            (open_kinds if is_open else full).append(kind)
    return full + open_kinds


def max_predictions_per_row(
    max_seq_length: int,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    max_examples_per_row: int,
) -> int:
    """Returns the masked slots P that no row of examples can exceed.

    An example of n tokens has max(1, round(n * masked_lm_prob)) masked tokens
    at most. That is n * masked_lm_prob and at most 1/2 more by rounding, or
    what the shortest example has above its share. In a row the shares sum up
    to S * masked_lm_prob, and there are E times the rest: for 512 places and
    six examples 80 slots, no more than one example of 512 has, where
    E * max_predictions_per_seq would be 480, nearly all empty and yet computed.

    Args:
      max_seq_length: S.
      max_predictions_per_seq: of one example.
      masked_lm_prob: share of the tokens to mask.
      max_examples_per_row: E.
    """
    more = max(0.5, 1.0 - _FEWEST_TOKENS * masked_lm_prob)
    # Not below a whole number that only rounding keeps it from.
    most = max_seq_length * masked_lm_prob + max_examples_per_row * more + 1e-6
    return min(
        int(most),
        max_seq_length,
        max_examples_per_row * max_predictions_per_seq,
    )
