"""Documents -> segments, in pairs with a label or alone, as token ranges.

A segment is a run of whole sentences of one document, cut to fit; so it is a
range of the tokens of all documents, and no token is touched here.

`pair` makes next-sentence pairs, as BERT; `sentence_order_pairs` those of
ALBERT; `full_sentences` single segments, as RoBERTa.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers

# create_pretraining_data.py: tries to draw another document.
_RANDOM_DOCUMENT_TRIES = 10
_DRAWS = 64  # Uniform numbers drawn at a time; one by one is slow.
# Counters of the coins of A and of B among the random bits of a pair; those
# below are for masking.
_A_COINS, _B_COINS = 1 << 32, 1 << 33


# One pair before it is cut to fit: a_begin, a_end, b_begin, b_end,
# is_random_next, seed. A plain tuple becomes an array thirty times as quickly
# as a NamedTuple. B of a single segment is empty.
Row = tuple[int, int, int, int, int, int]


class Pairs(NamedTuple):
    """N pairs of segments as ranges of all tokens; each column [N] int64."""

    a_begin: np.ndarray
    a_end: np.ndarray
    b_begin: np.ndarray
    b_end: np.ndarray
    is_random_next: np.ndarray  # 1 if B comes from elsewhere, or before A.
    seeds: np.ndarray  # uint64, of everything random in a pair after this.
    num_truncated: np.ndarray  # Tokens cut to fit.


def pair(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> list[Row]:
    """Cuts one document into pairs of segments.

    create_pretraining_data.py: create_instances_from_document. Devlin et al.
    2019, section 3.1 and appendix A.2.

    Args:
      sentence_bounds: begin of each sentence of all documents in their
        tokens, and the end of the last one. A list is quicker than an array.
      document_bounds: the same of documents in sentences.
      number: which document to cut, counted from 0.
      max_num_tokens: tokens of A and B together, special ones not counted.
      short_seq_prob: chance that the document is cut for shorter pairs.
      rng: of everything random here.
    """
    bounds = sentence_bounds
    uniform = _uniform(rng).__next__
    target = _target(max_num_tokens, short_seq_prob, uniform)
    start, last = document_bounds[number], document_bounds[number + 1]
    rows = []
    while start < last:
        # The chunk: sentences up to the target, or to the document's end.
        end = bisect_left(bounds, bounds[start] + target, start + 1, last)
        a_end = start + 1
        if end - start > 1:
            a_end += int(uniform() * (end - start - 1))
        is_random_next = end - start == 1 or uniform() < 0.5
        b_begin, b_end = bounds[a_end], bounds[end]
        if is_random_next:
            wanted = target - (bounds[a_end] - bounds[start])
            b_begin, b_end = _random_segment(
                bounds, document_bounds, number, wanted, uniform
            )
            end = a_end  # Sentences that were not used are put back.
        rows.append(
            (
                bounds[start],
                bounds[a_end],
                b_begin,
                b_end,
                int(is_random_next),
                int(uniform() * (1 << 53)),
            )
        )
        start = end
    return rows


def _target(max_num_tokens, short_seq_prob, uniform) -> int:
    """Returns the tokens that a document's examples should have."""
    if uniform() < short_seq_prob:
        return 2 + int(uniform() * (max_num_tokens - 1))  # 2 to the maximum.
    return max_num_tokens


def _uniform(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_DRAWS).tolist()


def _random_segment(
    bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    wanted: int,
    uniform: Callable[[], float],
) -> tuple[int, int]:
    """Returns a range of tokens from a random start in another document."""
    num_documents = len(document_bounds) - 1
    for _ in range(_RANDOM_DOCUMENT_TRIES):
        other = int(uniform() * num_documents)
        if other != number:
            break
    first, last = document_bounds[other], document_bounds[other + 1]
    start = first + int(uniform() * (last - first))
    # At least one sentence, then as many as it takes, to the document's end.
    end = bisect_left(bounds, bounds[start] + wanted, start + 1, last)
    return bounds[start], bounds[end]


def sentence_order_pairs(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> list[Row]:
    """Cuts one document into neighbouring segments, half of them swapped.

    Lan et al. 2020 (ALBERT), section 3.1. A sentence that would be alone, as
    the last of a document may be, is cut in two at a random token, so that
    there is always an order to tell; of one token it makes no pair.

    Arguments as those of `pair`. The label is 1 if the two are swapped.
    """
    bounds = sentence_bounds
    uniform = _uniform(rng).__next__
    target = _target(max_num_tokens, short_seq_prob, uniform)
    start, last = document_bounds[number], document_bounds[number + 1]
    rows = []
    while start < last:
        end = bisect_left(bounds, bounds[start] + target, start + 1, last)
        a_begin, b_end = bounds[start], bounds[end]
        if end - start > 1:
            middle = bounds[start + 1 + int(uniform() * (end - start - 1))]
        else:
            middle = a_begin + 1 + int(uniform() * (b_end - a_begin - 1))
        start = end
        if middle == b_end:
            continue
        segments = (a_begin, middle, middle, b_end)
        is_swapped = uniform() < 0.5
        if is_swapped:
            segments = (middle, b_end, a_begin, middle)
        rows.append((*segments, int(is_swapped), int(uniform() * (1 << 53))))
    return rows


def full_sentences(
    sentence_bounds: Sequence[int],
    document_bounds: Sequence[int],
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> list[Row]:
    """Cuts one document into single segments, filled to length.

    Liu et al. 2019 (RoBERTa), section 4.2, DOC-SENTENCES: whole sentences as
    long as they fit, and not across the end of the document. A sentence longer
    than a segment is cut where it is full, and continues in the next one.

    Arguments as those of `pair`. B is empty and the label 0.
    """
    bounds = sentence_bounds
    uniform = _uniform(rng).__next__
    target = _target(max_num_tokens, short_seq_prob, uniform)
    first, last = document_bounds[number], document_bounds[number + 1]
    begin = bounds[first]
    rows = []
    while begin < bounds[last]:
        # The last bound that is not too far.
        full = begin + target
        end = bounds[bisect_right(bounds, full, first, last + 1) - 1]
        end = end if end > begin else full
        rows.append((begin, end, end, end, 0, int(uniform() * (1 << 53))))
        begin = end
    return rows


def truncate(rows: np.ndarray, max_num_tokens: int) -> Pairs:
    """Cuts pairs to `max_num_tokens`, the longer segment first.

    create_pretraining_data.py: truncate_seq_pair takes one token at a time
    from the longer segment (from B if they are equal), from its front or back
    with equal chance. The lengths that this ends with are known at once; the
    front loses as many tokens as that many coins show heads.

    Args:
      rows: [N, 6] int64, the rows of `pair`.
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
