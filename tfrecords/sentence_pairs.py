"""Documents -> (segment A, segment B, whether B is random) as token ranges.

A segment is a run of whole sentences of one document, cut to fit; so it is a
range of the tokens of all documents, and no token is touched here.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tfrecords import token_store

# create_pretraining_data.py: tries to draw another document.
_RANDOM_DOCUMENT_TRIES = 10
_DRAWS = 64  # Uniform numbers drawn at a time; one by one is slow.


class Pairs(NamedTuple):
    """N pairs of segments as ranges of `Documents.tokens`."""

    a_begin: np.ndarray  # [N] int64
    a_end: np.ndarray  # [N] int64
    b_begin: np.ndarray  # [N] int64
    b_end: np.ndarray  # [N] int64
    is_random_next: np.ndarray  # [N] int64, 1 if B comes from elsewhere.
    num_truncated: np.ndarray  # [N] int64, tokens cut to fit.


def pair(
    documents: token_store.Documents,
    number: int,
    max_num_tokens: int,
    short_seq_prob: float,
    rng: np.random.Generator,
) -> Pairs:
    """Cuts one document into pairs of segments.

    create_pretraining_data.py: create_instances_from_document. Devlin et al.
    2019, section 3.1 and appendix A.2.

    Args:
      documents: all documents that random segments may come from.
      number: which of them to cut, counted from 0.
      max_num_tokens: tokens of A and B together, special ones not counted.
      short_seq_prob: chance that the document is cut for shorter pairs.
      rng: of all that is random here.
    """
    uniform = _uniform(rng).__next__
    target = max_num_tokens
    if uniform() < short_seq_prob:
        target = 2 + int(uniform() * (max_num_tokens - 1))  # 2 to the maximum.
    bounds = documents.sentence_bounds
    first, last = documents.document_bounds[number : number + 2].tolist()
    # Where each sentence of this document begins; a list is quicker to read.
    begins = bounds[first : last + 1].tolist()

    rows = []
    start = 0
    while start < last - first:
        # The chunk: sentences up to the target, or to the document's end.
        end = bisect_left(begins, begins[start] + target, start + 1)
        end = min(end, last - first)
        a_end = start + 1
        if end - start > 1:
            a_end += int(uniform() * (end - start - 1))
        if end - start == 1 or uniform() < 0.5:
            wanted = target - (begins[a_end] - begins[start])
            b_begin, b_end = _random_segment(documents, number, wanted, uniform)
            rows.append((begins[start], begins[a_end], b_begin, b_end, 1))
            start = a_end  # Sentences that were not used are put back.
        else:
            rows.append(
                (begins[start], begins[a_end], begins[a_end], begins[end], 0)
            )
            start = end
    return truncate(*np.array(rows, np.int64).T, max_num_tokens, rng)


def _uniform(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_DRAWS).tolist()


def _random_segment(documents, number, wanted, uniform):
    """Returns a range of tokens from a random start in another document."""
    num_documents = len(documents.numbers)
    for _ in range(_RANDOM_DOCUMENT_TRIES):
        other = int(uniform() * num_documents)
        if other != number:
            break
    bounds = documents.sentence_bounds
    first, last = documents.document_bounds[other : other + 2].tolist()
    start = first + int(uniform() * (last - first))
    begin = int(bounds[start])
    # At least one sentence, then as many as it takes, to the document's end.
    stops = bounds[start + 1 : last + 1]
    end = min(int(np.searchsorted(stops, begin + wanted)), len(stops) - 1)
    return begin, int(stops[end])


def truncate(
    a_begin: np.ndarray,
    a_end: np.ndarray,
    b_begin: np.ndarray,
    b_end: np.ndarray,
    is_random_next: np.ndarray,
    max_num_tokens: int,
    rng: np.random.Generator,
) -> Pairs:
    """Cuts pairs to `max_num_tokens`, the longer segment first.

    create_pretraining_data.py: truncate_seq_pair takes one token at a time
    from the longer segment (from B if they are equal), from its front or back
    with equal chance. The lengths that this ends with are known at once, and
    so is the distribution of how many tokens the front loses.
    """
    a_length, b_length = a_end - a_begin, b_end - b_begin
    fits = a_length + b_length <= max_num_tokens
    half = (max_num_tokens + 1) // 2
    a_kept = np.minimum(a_length, np.maximum(max_num_tokens - b_length, half))
    a_cut = np.where(fits, 0, a_length - a_kept)
    b_cut = np.where(fits, 0, b_length - (max_num_tokens - a_kept))
    a_front, b_front = a_cut * 0, b_cut * 0
    if not fits.all():
        a_front, b_front = rng.binomial(a_cut, 0.5), rng.binomial(b_cut, 0.5)
    return Pairs(
        a_begin=a_begin + a_front,
        a_end=a_end - (a_cut - a_front),
        b_begin=b_begin + b_front,
        b_end=b_end - (b_cut - b_front),
        is_random_next=is_random_next,
        num_truncated=a_cut + b_cut,
    )
