"""Token ids -> masked ids, positions of masked tokens, original ids.

S places in a row, P masked slots. Whole rows at a time: every place of every
row has its own random number, a hash of the row's seed and the place.
"""

from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers

# Devlin et al. 2019, section 3.1: 80 % [MASK], 10 % random, 10 % unchanged.
_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1
_POSITION_BITS = np.uint64(16)


class Vocabulary(NamedTuple):
    """What masking and packing need to know of a vocabulary."""

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    is_continuation: np.ndarray  # [size] bool: the entry begins with ##.

    @classmethod
    def of(cls, entries: list[str]) -> "Vocabulary":
        """Returns that of a list of entries."""
        ids = {entry: i for i, entry in enumerate(entries)}
        return cls(
            size=len(entries),
            cls_id=ids["[CLS]"],
            sep_id=ids["[SEP]"],
            mask_id=ids["[MASK]"],
            is_continuation=np.array([e.startswith("##") for e in entries]),
        )


class Masked(NamedTuple):
    """N rows with some tokens hidden; slots that are not used are 0."""

    input_word_ids: np.ndarray  # [N, S] int32, what the model reads.
    positions: np.ndarray  # [N, P] int32, ascending.
    ids: np.ndarray  # [N, P] int32, what stood there.
    weights: np.ndarray  # [N, P] float32, 1 for a masked token.


def mask(
    input_word_ids: np.ndarray,
    num_tokens: np.ndarray,
    seeds: np.ndarray,
    vocabulary: Vocabulary,
    *,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
    do_whole_word_mask: bool = False,
) -> Masked:
    """Hides tokens, and says which.

    create_pretraining_data.py: create_masked_lm_predictions.

      input_word_ids  CLS 21 22 SEP 31 32 33 SEP  0
      masked          CLS 21  M SEP 31 32 57 SEP  0
      positions         2  6  0
      ids              22 33  0
      weights         1.0 1.0 0.0

    Args:
      input_word_ids: [N, S] integer, with [CLS], [SEP] and padding.
      num_tokens: [N], [CLS] and [SEP] included, padding not.
      seeds: [N] uint64, all that is random.
      vocabulary: which ids are special.
      max_predictions_per_seq: P.
      masked_lm_prob: share of `num_tokens` to hide; one token at least.
      do_whole_word_mask: whether all pieces of a word are hidden or none.
    """
    num_rows, num_places = input_word_ids.shape
    # create_pretraining_data.py: num_to_predict. rint rounds as Python does.
    num_to_predict = np.rint(num_tokens * masked_lm_prob).astype(np.int64)
    num_to_predict = num_to_predict.clip(1, max_predictions_per_seq)
    is_candidate = np.arange(num_places) < num_tokens[:, None]
    is_candidate &= input_word_ids != vocabulary.cls_id
    is_candidate &= input_word_ids != vocabulary.sep_id

    num_bits = num_places + 2 * max_predictions_per_seq
    bits = random_numbers.bits(seeds, np.arange(num_bits, dtype=np.uint64))
    keys = bits[:, :num_places]
    if do_whole_word_mask:
        continues = is_candidate & vocabulary.is_continuation[input_word_ids]
        positions = _choose_words(keys, is_candidate, continues, num_to_predict)
        positions = positions[:, :max_predictions_per_seq]
    else:
        positions = _choose(
            keys, is_candidate, num_to_predict, max_predictions_per_seq
        )
    is_used = positions < num_places
    positions = np.where(is_used, positions, 0)
    rows = np.arange(num_rows)[:, None]
    ids = input_word_ids[rows, positions]

    kinds, draws = np.split(bits[:, num_places:], 2, axis=1)
    kinds = (kinds >> np.uint64(11)) * 2.0**-53
    # The top 32 bits, scaled to the whole vocabulary as in the original.
    draws = (draws >> np.uint64(32)) * np.uint64(vocabulary.size)
    replacement = np.where(kinds < _MASK_SHARE, vocabulary.mask_id, ids)
    replacement = np.where(
        kinds >= 1 - _RANDOM_SHARE, draws >> np.uint64(32), replacement
    )
    masked = np.array(input_word_ids, np.int32)
    masked[np.where(is_used)[0], positions[is_used]] = replacement[is_used]
    return Masked(
        input_word_ids=masked,
        positions=positions.astype(np.int32),
        ids=np.where(is_used, ids, 0).astype(np.int32),
        weights=is_used.astype(np.float32),
    )


def _choose(keys, is_candidate, num_to_predict, num_slots):
    """Returns [N, P] positions, uniform and ascending; S where unused."""
    num_rows, num_places = keys.shape
    places = np.arange(num_places, dtype=np.uint64)
    # The place in the low bits of its key: sorted keys say where they stood.
    mixed = keys >> _POSITION_BITS << _POSITION_BITS | places
    mixed[~is_candidate] = np.iinfo(np.uint64).max
    num_slots = min(num_slots, num_places)
    smallest = np.sort(mixed, axis=1)[:, :num_slots]
    low = (np.uint64(1) << _POSITION_BITS) - np.uint64(1)
    positions = (smallest & low).astype(np.int64)
    num_chosen = np.minimum(num_to_predict, is_candidate.sum(axis=1))
    positions[np.arange(num_slots) >= num_chosen[:, None]] = num_places
    return np.sort(positions, axis=1)


def _choose_words(keys, is_candidate, continues, num_to_predict):
    """Returns [N, S] positions of whole words, ascending; S where unused.

    The original goes through the words in random order and takes each one
    that still fits.
    """
    num_rows, num_places = keys.shape
    rows = np.arange(num_rows)[:, None]
    begins = is_candidate & ~continues
    # A ## piece at the very start, after truncation, begins a word.
    begins |= is_candidate & (np.cumsum(is_candidate, axis=1) == 1)
    # Number of each token's word; a ## piece joins the word before it, even
    # across a [SEP], as in the original. Column 0 collects what is no word.
    words = np.cumsum(begins, axis=1) * is_candidate  # [N, S]
    lengths = np.zeros((num_rows, num_places + 1), np.int64)
    np.add.at(lengths, (rows, words), 1)
    order = np.argsort(keys, axis=1, kind="stable") + 1  # Of words, [N, S].
    is_taken = np.zeros((num_rows, num_places + 1), bool)
    num_taken = np.zeros(num_rows, np.int64)
    for word in order.T:
        length = lengths[rows[:, 0], word]
        fits = (length > 0) & (num_taken + length <= num_to_predict)
        is_taken[rows[:, 0], word] = fits
        num_taken += np.where(fits, length, 0)
    is_masked = is_taken[rows, words] & is_candidate
    positions = np.where(is_masked, np.arange(num_places), num_places)
    return np.sort(positions, axis=1)
