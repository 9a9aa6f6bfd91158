"""Pre-training examples -> counts of lengths, pairs, masks, replacements.

Works for our records and those of google-research/bert. B examples, S positions
in an example, P masked slots, V entries in the vocabulary.
"""

from typing import NamedTuple

import numpy as np

from tfrecords.pretraining import masking

_BINS = 20

# Replacements of masked tokens.
MASK, RANDOM, KEPT = range(3)


class Counts(NamedTuple):
    """Counts of one set of records; counts of its parts can be added.

    A random word equal to the masked one counts as kept, as the two cannot be
    distinguished.
    """

    tokens: np.ndarray  # [S + 1] examples by length, special tokens included.
    a_tokens: np.ndarray  # [S + 1] examples by the length of segment A.
    b_tokens: np.ndarray  # [S + 1] examples by the length of segment B.
    labels: np.ndarray  # [2] examples by next_sentence_labels.
    masked: np.ndarray  # [S + 1, P + 1] examples by length and masked tokens.
    shown: np.ndarray  # [3] masked tokens by MASK, RANDOM, KEPT.
    positions: np.ndarray  # [20] masked words by relative position in 0 to 1.
    random_words: np.ndarray  # [20] random words by id, 0 to V.
    joined: np.ndarray  # [2] masked ## pieces: is the previous token masked?
    originals: np.ndarray  # [V] masked tokens by their original id.

    @property
    def num_examples(self) -> int:
        """Examples in the set."""
        return int(self.labels.sum())


def add(counts: list[Counts]) -> Counts:
    """Returns the sum of counts of several sets or parts of a set."""
    return Counts(*(sum(columns) for columns in zip(*counts, strict=True)))


def count(
    batch: dict[str, np.ndarray],
    vocabulary: masking.Vocabulary,
    rng: np.random.Generator,
) -> Counts:
    """Returns the counts of some examples.

    The relative position of a masked token is drawn uniformly from its token's
    part of [0, 1): from [0.25, 0.5) for the second of four tokens. So
    relative positions of uniform masks are uniform for examples of any length.
    The ## pieces of a word are left out: with whole-word masking they are
    masked together with the first piece, not independently.

    Args:
      batch: the features of `schema.PRETRAINING`, each [B, ...].
      vocabulary: vocabulary of the tokens.
      rng: draws the relative positions.
    """
    mask = batch["input_mask"]
    seq_length = mask.shape[1]
    num_slots = batch["masked_lm_weights"].shape[1]
    tokens = mask.sum(axis=1)
    second = batch["input_type_ids"].sum(axis=1)  # B and the last [SEP].
    a_tokens, b_tokens = tokens - second - 2, second - 1
    is_used = batch["masked_lm_weights"] > 0
    num_masked = is_used.sum(axis=1)
    joint = tokens * (num_slots + 1) + num_masked

    rows = np.nonzero(is_used)[0]
    positions = batch["masked_lm_positions"][is_used]
    originals = batch["masked_lm_ids"][is_used]
    shown = batch["input_word_ids"][rows, positions]
    is_kept = shown == originals
    kinds = np.where(
        is_kept, KEPT, np.where(shown == vocabulary.mask_id, MASK, RANDOM)
    )
    # Does not count the [CLS] before A and the [SEP] before B.
    rank = positions - 1 - (positions > a_tokens[rows] + 1)
    is_masked = np.zeros(mask.shape, bool)
    is_masked[rows, positions] = True
    begins = ~vocabulary.is_continuation[originals]
    relative = (rank + rng.random(len(rank))) / (tokens[rows] - 3)
    return Counts(
        tokens=_histogram(tokens, seq_length + 1),
        a_tokens=_histogram(a_tokens, seq_length + 1),
        b_tokens=_histogram(b_tokens, seq_length + 1),
        labels=_histogram(batch["next_sentence_labels"], 2),
        masked=_histogram(joint, (seq_length + 1) * (num_slots + 1)).reshape(
            seq_length + 1, num_slots + 1
        ),
        shown=_histogram(kinds, 3),
        positions=_histogram(_BINS * relative[begins], _BINS),
        random_words=_histogram(
            _BINS * shown[kinds == RANDOM] // vocabulary.size, _BINS
        ),
        joined=_histogram(is_masked[rows, positions - 1][~begins], 2),
        originals=_histogram(originals, vocabulary.size),
    )


def _histogram(values: np.ndarray, num_bins: int) -> np.ndarray:
    """Returns the count per integer; clips values to [0, num_bins)."""
    whole = np.floor(values).astype(np.int64).clip(0, num_bins - 1)
    return np.bincount(whole, minlength=num_bins)
