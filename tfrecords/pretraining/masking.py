"""Token ids -> masked ids, positions of masked tokens, original ids.

S positions in a row, P masked slots. A vectorized form of the original's loop:
each position of each row has its own random number, a hash of the row's seed
and the position.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers
from tfrecords.options import to_number

_POSITION_BITS = np.uint64(16)
_GEOMETRIC_P = 0.2  # Of span lengths; SpanBERT, section 3.1.

# Copy of the vocabulary in the folder of unmasked shards: dynamic masking must
# recognize special tokens and ## pieces.
VOCABULARY_NAME = "vocab.txt"

# Units of masking: single word pieces, whole words, or runs of words.
UNITS = ("tokens", "words", "spans")


@dataclasses.dataclass(frozen=True)
class Mix:
    """Shares of the replacements of masked tokens.

    The default is that of Devlin et al. 2018, section 3.1; their appendix C.2
    and table 8 compare it with five others.

    Raises:
      ValueError: if a share is negative, or the shares do not sum to 1.
    """

    mask: float = 0.8  # [MASK].
    random: float = 0.1  # A token drawn from the whole vocabulary.
    same: float = 0.1  # The token itself (SAME in table 8).

    def __post_init__(self):
        shares = dataclasses.astuple(self)
        # Both comparisons are False for NaN.
        if not (min(shares) >= 0 and abs(sum(shares) - 1) <= 1e-6):
            raise ValueError(
                f"mask_mix=mask:{self.mask:g},random:{self.random:g},"
                f"same:{self.same:g} sums to {sum(shares):g}; shares should "
                "be at least 0 and sum to 1."
            )

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Mix":
        """Returns the mix given as words such as `mask:0.8`.

        Raises:
          ValueError: if a word is malformed or a name is unknown or repeated.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        pairs = [word.partition(":") for word in words]
        shares = {name.strip(): to_number(share) for name, _, share in pairs}
        is_known = shares and not set(shares) - set(names)
        is_once = is_known and len(shares) == len(words)
        if not is_once or math.isnan(sum(shares.values())):
            raise ValueError(
                f"--mask_mix={','.join(words)} should look like "
                f"mask:0.8,random:0.1,same:0.1: shares of {', '.join(names)}, "
                "each at most once."
            )
        return cls(**(dict.fromkeys(names, 0.0) | shares))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Number of tokens to mask, unit of masking, and replacements."""

    max_predictions_per_seq: int  # P, maximum masked tokens per row.
    masked_lm_prob: float  # Share of a row's tokens; at least one token.
    unit: str = "tokens"  # One of UNITS. Spans are whole words of one segment.
    max_ngram: int = 10  # Maximum number of words in a span.
    mix: Mix = Mix()  # All tokens of a span get the same replacement.


def too_few_slots(
    max_seq_length: int, masked_lm_prob: float, max_predictions_per_seq: int
) -> str | None:
    """Returns advice if full rows lack slots for masked tokens."""
    wanted = round(max_seq_length * masked_lm_prob)
    if wanted <= max_predictions_per_seq:
        return None
    return (
        f"masked_lm_prob={masked_lm_prob:g} of {max_seq_length} tokens are "
        f"{wanted}, but max_predictions_per_seq={max_predictions_per_seq} "
        f"limits them. Use max_predictions_per_seq={wanted}, or a lower "
        "masked_lm_prob."
    )


class Vocabulary(NamedTuple):
    """Properties of a vocabulary that masking and packing need.

    Ids from `size` to 2 `size` are those of tokens that continue a word of text
    that is split into words; `mask` subtracts `size` from them.
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    # [2 size] bool: the entry begins with ##, or the id is `size` or more.
    is_continuation: np.ndarray
    unk_id: int = -1

    @classmethod
    def of(cls, entries: list[str]) -> "Vocabulary":
        """Returns the properties of a vocabulary, given its entries."""
        ids = {entry: i for i, entry in enumerate(entries)}
        return cls(
            size=len(entries),
            cls_id=ids["[CLS]"],
            sep_id=ids["[SEP]"],
            mask_id=ids["[MASK]"],
            is_continuation=np.array(
                [e.startswith("##") for e in entries] + [True] * len(entries)
            ),
            unk_id=ids.get("[UNK]", -1),
        )


class Masked(NamedTuple):
    """N rows with some tokens masked; unused slots are 0."""

    input_word_ids: np.ndarray  # [N, S] int32, as the model reads them.
    positions: np.ndarray  # [N, P] int32, ascending.
    ids: np.ndarray  # [N, P] int32, before masking.
    weights: np.ndarray  # [N, P] float32, 1 for a masked token.

    def features(self) -> dict[str, np.ndarray]:
        """Returns the features of `schema.PRETRAINING` that masking sets."""
        return {
            "input_word_ids": self.input_word_ids,
            "masked_lm_positions": self.positions,
            "masked_lm_ids": self.ids,
            "masked_lm_weights": self.weights,
        }


def mask(
    input_word_ids: np.ndarray,
    num_tokens: np.ndarray,
    seeds: np.ndarray,
    vocabulary: Vocabulary,
    rules: Rules,
) -> Masked:
    """Returns rows with some of their tokens masked.

    create_pretraining_data.py: create_masked_lm_predictions.

      input_word_ids  CLS 21 22 SEP 31 32 33 SEP  0
      masked          CLS 21  M SEP 31 32 57 SEP  0
      positions         2  6  0
      ids              22 33  0
      weights         1.0 1.0 0.0

    Args:
      input_word_ids: [N, S] integer, with [CLS], [SEP] and padding; tokens
        that continue a word may have ids of `size` or more.
      num_tokens: [N] integer, including [CLS] and [SEP], without padding.
      seeds: [N] uint64, seed of all random numbers of a row.
      vocabulary: defines special tokens and ## pieces.
      rules: how many tokens to mask, and how.

    Raises:
      ValueError: if `max_predictions_per_seq` exceeds S.
    """
    num_rows, num_positions = input_word_ids.shape
    num_slots = rules.max_predictions_per_seq
    if num_slots > num_positions:
        raise ValueError(
            f"max_predictions_per_seq={num_slots} exceeds the row length, "
            f"{num_positions}: a row cannot have that many masked tokens. "
            "Lower it."
        )
    # create_pretraining_data.py: num_to_predict. rint, like Python's round,
    # rounds halves to even.
    num_to_predict = np.rint(num_tokens * rules.masked_lm_prob)
    num_to_predict = num_to_predict.astype(np.int64).clip(1, num_slots)
    is_candidate = np.arange(num_positions) < num_tokens[:, None]
    is_candidate &= input_word_ids != vocabulary.cls_id
    is_candidate &= input_word_ids != vocabulary.sep_id

    num_bits = num_positions + 2 * num_slots
    bits = random_numbers.bits(seeds, np.arange(num_bits, dtype=np.uint64))
    keys = bits[:, :num_positions]
    choices, draws = np.split(bits[:, num_positions:], 2, axis=1)  # [N, P] each
    if rules.unit == "tokens":
        positions = _choose(keys, is_candidate, num_to_predict, num_slots)
    else:
        continues = vocabulary.is_continuation[input_word_ids]
        if rules.unit == "words":
            # As in the original, a ## piece joins the word before it even
            # across a [SEP]. A truncated row may begin with one.
            continues &= np.cumsum(is_candidate, axis=1) > 1
            lengths = np.ones_like(keys, np.int64)
        else:
            continues &= _follows(is_candidate)
            more = np.arange(num_bits, num_bits + num_positions).astype(
                np.uint64
            )
            more = random_numbers.bits(seeds, more)
            lengths = span_lengths(more, rules.max_ngram)
        positions, first_slots = choose_spans(
            keys, lengths, is_candidate, continues, num_to_predict
        )
        positions = positions[:, :num_slots]
        if rules.unit == "spans":
            # SpanBERT, section 3.1: one choice for all tokens of a span.
            choices = np.take_along_axis(choices, first_slots[:, :num_slots], 1)
    is_used = positions < num_positions
    positions = np.where(is_used, positions, 0)
    rows = np.arange(num_rows)[:, None]
    ids = input_word_ids[rows, positions] % vocabulary.size

    replacement = _replace(ids, choices, draws, vocabulary, rules.mix)
    masked = np.array(input_word_ids, np.int32)
    masked[masked >= vocabulary.size] -= vocabulary.size
    masked[np.where(is_used)[0], positions[is_used]] = replacement[is_used]
    return Masked(
        input_word_ids=masked,
        positions=positions.astype(np.int32),
        ids=np.where(is_used, ids, 0).astype(np.int32),
        weights=is_used.astype(np.float32),
    )


def _replace(ids, choices, draws, vocabulary, mix):
    """Returns the replacements of `ids`: [N, P], of the same dtype."""
    uniform = (choices >> np.uint64(11)) * 2.0**-53
    # From the entire vocabulary, as in the original: its size times the top 32
    # bits, as a fraction.
    half = np.uint64(32)
    draws = (draws >> half) * np.uint64(vocabulary.size) >> half
    shown = np.where(uniform < mix.mask, vocabulary.mask_id, ids)
    return np.where(uniform >= 1 - mix.random, draws.astype(ids.dtype), shown)


def _choose(keys, is_candidate, num_to_predict, num_slots):
    """Returns [N, P] random positions, ascending; S where unused."""
    num_rows, num_positions = keys.shape
    # The low bits of each key are its position: sorted keys give positions.
    numbers = np.arange(num_positions, dtype=np.uint64)
    mixed = keys >> _POSITION_BITS << _POSITION_BITS | numbers
    mixed[~is_candidate] = np.iinfo(np.uint64).max
    smallest = np.sort(mixed, axis=1)[:, :num_slots]
    low = (np.uint64(1) << _POSITION_BITS) - np.uint64(1)
    positions = (smallest & low).astype(np.int64)
    num_chosen = np.minimum(num_to_predict, is_candidate.sum(axis=1))
    positions[np.arange(num_slots) >= num_chosen[:, None]] = num_positions
    return np.sort(positions, axis=1)


def _follows(is_candidate: np.ndarray) -> np.ndarray:
    """Returns [N, S] bool: positions after a candidate."""
    return np.pad(is_candidate[:, :-1], ((0, 0), (1, 0)))


def span_lengths(bits: np.ndarray, max_ngram: int) -> np.ndarray:
    """Returns random span lengths in words, [N, S] integer from 1.

    The probability of a length k up to `max_ngram` is proportional to
    (1 - p)^(k - 1) with p = 0.2; the mean is 3.8 for the paper's maximum of 10.
    `bits` are [N, S] uint64 random numbers.
    """
    chances = (1 - _GEOMETRIC_P) ** np.arange(max_ngram)
    ends = np.cumsum(chances) / chances.sum()
    uniform = (bits >> np.uint64(11)) * 2.0**-53
    return 1 + np.searchsorted(ends[:-1], uniform, side="right")


def choose_spans(
    keys: np.ndarray,
    lengths: np.ndarray,
    is_candidate: np.ndarray,
    continues: np.ndarray,
    num_to_predict: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses spans of whole words, which begin at words in random order.

    A span ends after its length, at a special token, before a word that is
    already chosen, or before a word that would exceed `num_to_predict`. If all
    words have one token, this number is reached unless there are fewer words.
    With lengths of 1, each word that still fits is chosen, as in the original.

    Args:
      keys: [N, S] uint64, random numbers that order the first words.
      lengths: [N, S] integer, words in each span, in that order.
      is_candidate: [N, S] bool, False at special tokens and padding.
      continues: [N, S] bool, whether a candidate belongs to the word of the
        one before it.
      num_to_predict: [N] integer, maximum number of tokens to choose.

    Returns:
      [N, S] chosen positions, ascending, S where unused; and for each of these
      slots, [N, S], the slot of the first token of its span.
    """
    num_rows, num_positions = keys.shape
    rows = np.arange(num_rows)[:, None]
    begins = is_candidate & ~continues
    # Word number of each token, from 1; 0 for special tokens. [N, S]
    words = np.cumsum(begins, axis=1) * is_candidate
    num_words = words.max(axis=1)
    offsets = np.arange(min(lengths.max(), num_positions))
    # A span may extend beyond the last word.
    num_columns = num_positions + 1 + len(offsets)
    sizes = np.bincount(
        (rows * num_columns + words).ravel(), minlength=num_rows * num_columns
    ).reshape(num_rows, num_columns)
    sizes[:, 0] = 0
    # Words that follow another word with no special token between.
    adjoins = np.zeros((num_rows, num_columns), bool)
    of_row, position = np.nonzero(begins & _follows(is_candidate))
    adjoins[of_row, words[of_row, position]] = True
    is_word = np.arange(1, num_positions + 1) <= num_words[:, None]
    order = np.where(is_word, keys, np.iinfo(np.uint64).max)
    order = np.argsort(order, axis=1, kind="stable") + 1  # [N, S] words.

    span_of = np.zeros((num_rows, num_columns), np.int64)  # 0: not chosen.
    left = num_to_predict.astype(np.int64)
    open_rows = np.arange(num_rows)
    for index in range(num_positions):
        is_open = (left[open_rows] > 0) & (index < num_words[open_rows])
        open_rows = open_rows[is_open]  # [R]
        if not len(open_rows):
            break
        row, first = open_rows[:, None], order[open_rows, index, None]
        run = first + offsets  # [R, K] words
        fits = offsets < lengths[row, index]
        fits &= (span_of[row, run] == 0) & (sizes[row, run] > 0)
        fits[:, 1:] &= adjoins[row, run[:, 1:]]
        fits &= np.cumsum(sizes[row, run], axis=1) <= left[row]
        fits = np.logical_and.accumulate(fits, axis=1)
        span_of[row, run] = np.where(fits, first, span_of[row, run])
        left[open_rows] -= (sizes[row, run] * fits).sum(axis=1)

    spans = span_of[rows, words]  # [N, S], 0 where no token is masked.
    positions = np.where(spans > 0, np.arange(num_positions), num_positions)
    positions = np.sort(positions, axis=1)
    spans = np.pad(spans, ((0, 0), (0, 1)))[rows, positions]
    is_first = np.diff(spans, axis=1, prepend=-1) != 0
    slots = np.where(is_first, np.arange(num_positions), 0)
    return positions, np.maximum.accumulate(slots, axis=1)
