"""Documents -> segments, in pairs with a label or alone, as token ranges.

A segment is a run of whole sentences of one document, cut to fit; so it is a
range of the tokens of all documents, and no token is touched here.

`pair` makes next-sentence pairs, as BERT; `sentence_order_pairs` those of
ALBERT; `full_sentences` single segments, as RoBERTa.
"""

import itertools
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers

# create_pretraining_data.py: tries to draw another document.
_RANDOM_DOCUMENT_TRIES = 10
_DRAWS = 64  # Uniform numbers drawn at a time; one by one is slow.
_LARGEST_SEED = (1 << 53) - 1
# Counters of the coins of A and of B among the random bits of a pair; those
# below are for masking.
_A_COINS, _B_COINS = 1 << 32, 1 << 33


# A pair before it is cut to fit: a_begin, a_end, b_begin, b_end, and the label.
# A plain tuple becomes an array thirty times as quickly as a NamedTuple. B of a
# single segment is empty.
Segments = tuple[int, int, int, int, int]


class Draws:
    """Two methods of `random.Random`, by NumPy and in blocks."""

    def __init__(self, rng: np.random.Generator):
        blocks = iter(lambda: rng.random(_DRAWS).tolist(), None)
        self.random = itertools.chain.from_iterable(blocks).__next__

    def randint(self, low: int, high: int) -> int:
        """Returns a number from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))


class Pairs(NamedTuple):
    """N pairs of segments as ranges of all tokens; each column [N] int64."""

    a_begin: np.ndarray
    a_end: np.ndarray
    b_begin: np.ndarray
    b_end: np.ndarray
    is_random_next: np.ndarray  # 1 if B comes from elsewhere, or before A.
    seeds: np.ndarray  # uint64, of everything random in a pair after this.
    num_truncated: np.ndarray  # Tokens cut to fit.

    def of(self, rows: np.ndarray | slice) -> "Pairs":
        """Returns some of the pairs."""
        return Pairs(*(column[rows] for column in self))


def rows(
    cut: Callable[..., Iterator[Segments]],
    *arguments,
    rng: np.random.Generator,
) -> list[tuple[int, ...]]:
    """Returns the segments of a document, each with a seed drawn after it.

    `cut` is one of the functions below, `arguments` all but its last.
    """
    draws = Draws(rng)
    return [
        (*segments, draws.randint(0, _LARGEST_SEED))
        for segments in cut(*arguments, draws)
    ]


def pair(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into pairs of segments.

    create_pretraining_data.py: create_instances_from_document, draw by draw.
    Devlin et al. 2019, section 3.1 and appendix A.2.

    Args:
      sentence_bounds: begin of each sentence of all documents in their
        tokens, and the end of the last one. A list is quicker than an array.
      document_bounds: the same of documents in sentences.
      number: which document to cut, counted from 0.
      max_num_tokens: tokens of A and B together, special ones not counted.
      short_seq_prob: chance that the document is cut for shorter pairs.
      rng: of everything random here.

    Yields:
      Each pair, before anything is drawn for the next.
    """
    bounds = sentence_bounds
    target = _target(max_num_tokens, short_seq_prob, rng)
    start, last = document_bounds[number], document_bounds[number + 1]
    while start < last:
        # The chunk: sentences up to the target, or to the document's end.
        end = bisect_left(bounds, bounds[start] + target, start + 1, last)
        a_end = start + 1
        if end - start > 1:
            a_end = start + rng.randint(1, end - start - 1)
        is_random_next = end - start == 1 or rng.random() < 0.5
        b_begin, b_end = bounds[a_end], bounds[end]
        if is_random_next:
            wanted = target - (bounds[a_end] - bounds[start])
            b_begin, b_end = _random_segment(
                bounds, document_bounds, number, wanted, rng
            )
            end = a_end  # Sentences that were not used are put back.
        yield bounds[start], bounds[a_end], b_begin, b_end, int(is_random_next)
        start = end


def _target(max_num_tokens, short_seq_prob, rng) -> int:
    """Returns the tokens that a document's examples should have."""
    if rng.random() < short_seq_prob:
        return rng.randint(2, max_num_tokens)
    return max_num_tokens


def _random_segment(bounds, document_bounds, number, wanted, rng):
    """Returns a range of tokens from a random start in another document."""
    for _ in range(_RANDOM_DOCUMENT_TRIES):
        other = rng.randint(0, len(document_bounds) - 2)
        if other != number:
            break
    first, last = document_bounds[other], document_bounds[other + 1]
    start = first + rng.randint(0, last - first - 1)
    # At least one sentence, then as many as it takes, to the document's end.
    end = bisect_left(bounds, bounds[start] + wanted, start + 1, last)
    return bounds[start], bounds[end]


def sentence_order_pairs(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into neighbouring segments, half of them swapped.

    Lan et al. 2020 (ALBERT), section 3.1. A sentence that would be alone, as
    the last of a document may be, is cut in two at a random token, so that
    there is always an order to tell; of one token it makes no pair.

    Arguments as those of `pair`. The label is 1 if the two are swapped.
    """
    bounds = sentence_bounds
    target = _target(max_num_tokens, short_seq_prob, rng)
    start, last = document_bounds[number], document_bounds[number + 1]
    while start < last:
        end = bisect_left(bounds, bounds[start] + target, start + 1, last)
        a_begin, b_end = bounds[start], bounds[end]
        if end - start > 1:
            middle = bounds[start + rng.randint(1, end - start - 1)]
        else:
            middle = a_begin + rng.randint(1, b_end - a_begin - 1)
        start = end
        if middle == b_end:
            continue
        if rng.random() < 0.5:
            yield middle, b_end, a_begin, middle, 1
        else:
            yield a_begin, middle, middle, b_end, 0


def full_sentences(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into single segments, filled to length.

    Liu et al. 2019 (RoBERTa), section 4.2, DOC-SENTENCES: whole sentences as
    long as they fit, and not across the end of the document. A sentence longer
    than a segment is cut where it is full, and continues in the next one.

    Arguments as those of `pair`. B is empty and the label 0.
    """
    bounds = sentence_bounds
    target = _target(max_num_tokens, short_seq_prob, rng)
    first, last = document_bounds[number], document_bounds[number + 1]
    begin = bounds[first]
    while begin < bounds[last]:
        # The last bound that is not too far.
        full = begin + target
        end = bounds[bisect_right(bounds, full, first, last + 1) - 1]
        end = end if end > begin else full
        yield begin, end, end, end, 0
        begin = end


def truncate(rows: np.ndarray, max_num_tokens: int) -> Pairs:
    """Cuts pairs to `max_num_tokens`, the longer segment first.

    create_pretraining_data.py: truncate_seq_pair takes one token at a time
    from the longer segment (from B if they are equal), from its front or back
    with equal chance. The lengths that this ends with are known at once; the
    front loses as many tokens as that many coins show heads.

    Args:
      rows: [N, 6] int64, from the function `rows`.
      max_num_tokens: tokens of A and B together.
    """
    a_begin, a_end, b_begin, b_end, is_random_next, seeds = rows.T
    seeds = seeds.astype(np.uint64)
    a_length, b_length = a_end - a_begin, b_end - b_begin
    fits = a_length + b_length <= max_num_tokens
    half = (max_num_tokens + 1) // 2
    a_kept = np.minimum(a_length, np.maximum(max_num_tokens - b_length, half))
    a_cut = np.where(fits, 0, a_length - a_kept)
    b_cut = np.where(fits, 0, b_length - (max_num_tokens - a_kept))
    a_front = random_numbers.binomial(seeds, _A_COINS, a_cut)
    b_front = random_numbers.binomial(seeds, _B_COINS, b_cut)
    return Pairs(
        a_begin=a_begin + a_front,
        a_end=a_end - (a_cut - a_front),
        b_begin=b_begin + b_front,
        b_end=b_end - (b_cut - b_front),
        is_random_next=is_random_next,
        seeds=seeds,
        num_truncated=a_cut + b_cut,
    )
