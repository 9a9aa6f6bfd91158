"""Pre-training examples -> counts of lengths, pairs, masks, replacements.

Works for records of ours and of google-research/bert alike. B examples, S
positions in one, P masked slots, V entries in the vocabulary.
"""

from typing import NamedTuple

import numpy as np

from tfrecords.pretraining import masking

_BINS = 20

# Replacements of masked tokens.
MASK, RANDOM, KEPT = range(3)


class Counts(NamedTuple):
    """Counts of one set of records; those of parts add up.

    A random word equal to the masked one counts as kept: they look the same.
    """

    tokens: np.ndarray  # [S + 1] examples by their tokens, special ones too.
    a_tokens: np.ndarray  # [S + 1] examples by the tokens of segment A.
    b_tokens: np.ndarray  # [S + 1] the same of segment B.
    labels: np.ndarray  # [2] examples by next_sentence_labels.
    masked: np.ndarray  # [S + 1, P + 1] examples by tokens and masked tokens.
    shown: np.ndarray  # [3] masked tokens by MASK, RANDOM, KEPT.
    places: np.ndarray  # [20] masked words by the place of their first piece.
    random_words: np.ndarray  # [20] random words by id, 0 to V.
    joined: np.ndarray  # [2] masked ## pieces: is the one before masked too?
    originals: np.ndarray  # [V] masked tokens by their original id.

    @property
    def num_examples(self) -> int:
        """Examples in the set."""
        return int(self.labels.sum())


def add(counts: list[Counts]) -> Counts:
    """Returns counts of all sets, or parts of a set, together."""
    return Counts(*(sum(columns) for columns in zip(*counts, strict=True)))


def count(
    batch: dict[str, np.ndarray],
    vocabulary: masking.Vocabulary,
    rng: np.random.Generator,
) -> Counts:
    """Returns the counts of some examples.

    The place of a masked token is drawn uniformly from the range that its
    token takes in [0, 1): the second of four tokens from [0.25, 0.5). So
    places of uniform masks are uniform whatever the length of an example. The
    ## pieces of a word are omitted: with whole words they are masked where its
    first piece does, and would be no draws of their own.

    Args:
      batch: the features of `schema.PRETRAINING`, each [B, ...].
      vocabulary: of its tokens.
      rng: draws the places.
    """
    mask = batch["input_mask"]
    num_places = mask.shape[1]
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
    # [CLS] stands before A, and a [SEP] too before B.
    rank = positions - 1 - (positions > a_tokens[rows] + 1)
    is_masked = np.zeros(mask.shape, bool)
    is_masked[rows, positions] = True
    begins = ~vocabulary.is_continuation[originals]
    places = (rank + rng.random(len(rank))) / (tokens[rows] - 3)
    return Counts(
        tokens=_histogram(tokens, num_places + 1),
        a_tokens=_histogram(a_tokens, num_places + 1),
        b_tokens=_histogram(b_tokens, num_places + 1),
        labels=_histogram(batch["next_sentence_labels"], 2),
        masked=_histogram(joint, (num_places + 1) * (num_slots + 1)).reshape(
            num_places + 1, num_slots + 1
        ),
        shown=_histogram(kinds, 3),
        places=_histogram(_BINS * places[begins], _BINS),
        random_words=_histogram(
            _BINS * shown[kinds == RANDOM] // vocabulary.size, _BINS
        ),
        joined=_histogram(is_masked[rows, positions - 1][~begins], 2),
        originals=_histogram(originals, vocabulary.size),
    )


def _histogram(values: np.ndarray, num_bins: int) -> np.ndarray:
    """Returns how many values there are of each; foreign ones at the ends."""
    whole = np.floor(values).astype(np.int64).clip(0, num_bins - 1)
    return np.bincount(whole, minlength=num_bins)
