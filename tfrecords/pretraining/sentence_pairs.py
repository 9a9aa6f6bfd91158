"""Documents -> labelled pairs of segments or single ones, as token ranges.

A segment is a run of sentences of one document, truncated if needed. So it is a
range of the tokens of all documents, and this module never reads the tokens.

`pair` makes the next-sentence pairs of BERT, `sentence_order_pairs` those of
ALBERT, and `full_sentences` the single segments of RoBERTa.
"""

import itertools
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers

# create_pretraining_data.py: attempts to draw another document.
_RANDOM_DOCUMENT_TRIES = 10
_DRAWS = 64  # Uniform numbers drawn at a time; one by one is slow.
_LARGEST_SEED = (1 << 53) - 1
# Counters of a pair's random bits: from these for the truncation of A and of B,
# lower ones for masking.
_A_COINS, _B_COINS = 1 << 32, 1 << 33


# A pair before truncation: a_begin, a_end, b_begin, b_end, label. Plain tuples
# convert to an array thirty times faster than NamedTuples. A single segment has
# an empty B.
Segments = tuple[int, int, int, int, int]


class Draws:
    """`random` and `randint` of `random.Random`, drawn by NumPy in blocks."""

    def __init__(self, rng: np.random.Generator):
        blocks = iter(lambda: rng.random(_DRAWS).tolist(), None)
        self.random = itertools.chain.from_iterable(blocks).__next__

    def randint(self, low: int, high: int) -> int:
        """Returns an integer from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))


class Pairs(NamedTuple):
    """N pairs of segments as token ranges; columns are [N] int64."""

    a_begin: np.ndarray
    a_end: np.ndarray
    b_begin: np.ndarray
    b_end: np.ndarray
    is_random_next: np.ndarray  # 1 if B is random, or A and B are swapped.
    seeds: np.ndarray  # uint64, for truncation and masking.

    def of(self, rows: np.ndarray | slice) -> "Pairs":
        """Returns the selected pairs."""
        return Pairs(*(column[rows] for column in self))


def rows(
    cut: Callable[..., Iterator[Segments]], *arguments, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Returns the segments of a document, with a seed for each pair.

    `cut` is one of the functions below, `arguments` are its arguments without
    `rng`.
    """
    draws = Draws(rng)
    return [
        (*segments, draws.randint(0, _LARGEST_SEED))
        for segments in cut(*arguments, draws)
    ]


def pair(
    bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into pairs of segments.

    create_pretraining_data.py: create_instances_from_document, with the same
    order of random numbers. Devlin et al. 2018, section 3.1 and appendix A.2.

    Args:
      bounds: index of the first token of each sentence, over all
        documents, and the number of tokens. A list is faster than an array.
      document_bounds: index of the first sentence of each document, and the
        number of sentences.
      number: index of the document to cut.
      max_num_tokens: tokens of A and B together, without special tokens.
      short_seq_prob: probability that the document is cut into shorter pairs.
      rng: source of all random numbers.

    Yields:
      Each pair, before random numbers are drawn for the next one.
    """
    target = _target(max_num_tokens, short_seq_prob, rng)
    start, last = document_bounds[number], document_bounds[number + 1]
    while start < last:
        # The chunk: sentences until the target or the document's end.
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
            end = a_end  # Unused sentences are put back.
        yield bounds[start], bounds[a_end], b_begin, b_end, int(is_random_next)
        start = end


def _target(max_num_tokens, short_seq_prob, rng) -> int:
    """Returns the target length in tokens of a document's examples."""
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
    # One sentence, and more until `wanted` tokens or the document's end.
    end = bisect_left(bounds, bounds[start] + wanted, start + 1, last)
    return bounds[start], bounds[end]


def sentence_order_pairs(
    bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into pairs of adjacent segments, half of them swapped.

    Lan et al. 2020 (ALBERT), section 3.1. A chunk of one sentence, such as the
    last one of a document, is cut in two at a random token; if it has only one
    token, it is dropped. So every pair has an order to predict.

    Arguments are those of `pair`. The label is 1 if the two are swapped.
    """
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
    bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: Draws | random.Random,
) -> Iterator[Segments]:
    """Cuts one document into single segments, filled to the target length.

    Liu et al. 2019 (RoBERTa), section 4.2, DOC-SENTENCES: as many complete
    sentences as fit, without crossing the end of the document. A sentence
    longer than a segment is cut and continues in the next segment.

    Arguments are those of `pair`. B is empty and the label is 0.
    """
    target = _target(max_num_tokens, short_seq_prob, rng)
    first, last = document_bounds[number], document_bounds[number + 1]
    begin = bounds[first]
    while begin < bounds[last]:
        # The last end of a sentence that fits.
        full = begin + target
        end = bounds[bisect_right(bounds, full, first, last + 1) - 1]
        end = end if end > begin else full
        yield begin, end, end, end, 0
        begin = end


def truncate(rows: np.ndarray, max_num_tokens: int) -> Pairs:
    """Truncates pairs to `max_num_tokens`, the longer segment first.

    create_pretraining_data.py: truncate_seq_pair removes one token at a time
    from the longer segment (B if they are equal), from its front or back with
    equal probability. The final lengths are computed directly, and the number
    of tokens removed from the front is drawn from a binomial distribution.

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
    )
