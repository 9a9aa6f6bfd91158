"""Candidates and random numbers -> spans of whole words to mask (SpanBERT).

Joshi et al. 2020, section 3.1. N rows, S places in one, K words in a span at
most, R rows that are worked on.
"""

import numpy as np

_GEOMETRIC_P = 0.2


def lengths(bits: np.ndarray, max_ngram: int) -> np.ndarray:
    """Returns lengths in words, geometric up to `max_ngram`, of random bits.

    Length k has a chance in proportion to (1 - p)^(k - 1) with p = 0.2, which
    is a mean of 3.8 for the 10 of the paper.

    Args:
      bits: [N, S] uint64.
      max_ngram: the largest length.
    """
    chances = (1 - _GEOMETRIC_P) ** np.arange(max_ngram)
    ends = np.cumsum(chances) / chances.sum()
    uniform = (bits >> np.uint64(11)) * 2.0**-53
    return 1 + np.searchsorted(ends[:-1], uniform, side="right")


def choose(
    keys: np.ndarray,
    span_lengths: np.ndarray,
    is_candidate: np.ndarray,
    continues: np.ndarray,
    num_to_predict: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses runs of whole words, whose first words are in random order.

    A span ends after its length, at a special token, before a word that is
    taken, or where the next word would be too many tokens; so all words of one
    token use up what is to be masked.

    Args:
      keys: [N, S] uint64, the order of first words.
      span_lengths: [N, S] of the spans in that order, in words.
      is_candidate: [N, S] bool, no special token and no padding.
      continues: [N, S] bool, candidates that begin with ##.
      num_to_predict: [N] tokens to mask, at most.

    Returns:
      [N, S] positions, ascending, S where unused; and [N, S] the slot of the
      first token of the same span.
    """
    num_rows, num_places = keys.shape
    rows = np.arange(num_rows)[:, None]
    follows = np.pad(is_candidate[:, :-1], ((0, 0), (1, 0)))
    begins = is_candidate & ~(continues & follows)
    # Number of each token's word, from 1; 0 is what is no word. [N, S]
    words = np.cumsum(begins, axis=1) * is_candidate
    num_words = words.max(axis=1)
    offsets = np.arange(min(span_lengths.max(), num_places))
    num_columns = num_places + 1 + len(offsets)  # A span may reach beyond all.
    sizes = np.bincount(
        (rows * num_columns + words).ravel(), minlength=num_rows * num_columns
    ).reshape(num_rows, num_columns)
    sizes[:, 0] = 0
    # Words that stand right behind the one before: no special token between.
    adjoins = np.zeros((num_rows, num_columns), bool)
    of_row, place = np.nonzero(begins & follows)
    adjoins[of_row, words[of_row, place]] = True
    is_word = np.arange(1, num_places + 1) <= num_words[:, None]
    order = np.where(is_word, keys, np.iinfo(np.uint64).max)
    order = np.argsort(order, axis=1, kind="stable") + 1  # Words, [N, S].

    span_of = np.zeros((num_rows, num_columns), np.int64)  # 0 is not taken.
    left = num_to_predict.astype(np.int64)
    open_rows = np.arange(num_rows)
    for turn in range(num_places):
        is_open = (left[open_rows] > 0) & (turn < num_words[open_rows])
        open_rows = open_rows[is_open]  # [R]
        if not len(open_rows):
            break
        row, first = open_rows[:, None], order[open_rows, turn, None]
        run = first + offsets  # [R, K] words
        fits = offsets < span_lengths[row, turn]
        fits &= (span_of[row, run] == 0) & (sizes[row, run] > 0)
        fits[:, 1:] &= adjoins[row, run[:, 1:]]
        fits &= np.cumsum(sizes[row, run], axis=1) <= left[row]
        fits = np.logical_and.accumulate(fits, axis=1)
        span_of[row, run] = np.where(fits, first, span_of[row, run])
        left[open_rows] -= (sizes[row, run] * fits).sum(axis=1)

    spans = span_of[rows, words]  # [N, S], 0 where no token is masked.
    positions = np.where(spans > 0, np.arange(num_places), num_places)
    positions = np.sort(positions, axis=1)
    spans = np.pad(spans, ((0, 0), (0, 1)))[rows, positions]
    is_first = np.diff(spans, axis=1, prepend=-1) != 0
    slots = np.where(is_first, np.arange(num_places), 0)
    return positions, np.maximum.accumulate(slots, axis=1)
