"""Pre-training records -> counts of lengths, pairs, masks and replacements.

Works for records of ours and of google-research/bert alike. B examples, S
positions in one, P masked slots, V entries in the vocabulary.
"""

import glob
import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import schema
from tfrecords.io import records
from tfrecords.pretraining import masking
from tfrecords.text import vocab as vocab_lib

_READ_EXAMPLES = 4096
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


def open_sets(patterns: str) -> list[records.Records]:
    """Opens sets of records.

    Args:
      patterns: sets, separated by commas: folders with a manifest.json, each a
        set, or a glob of them; or a glob of TFRecord files, which are one set
        together.

    Raises:
      ValueError: if nothing is there, or as `Records.open` does.
    """
    sets = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        folders = [path for path in glob.glob(pattern) if os.path.isdir(path)]
        sets += map(records.Records.open, sorted(folders) or [pattern])
    if not sets:
        raise ValueError(
            f"No records are named by {patterns!r}; give the folder that "
            "make_pretraining_records wrote, or a glob of TFRecord files."
        )
    return sets


def find_sizes(record_set: records.Records) -> dict[str, int]:
    """Returns the sizes of a set, from its manifest or its first example.

    Raises:
      ValueError: if it holds no examples of pre-training.
    """
    where = record_set.paths[0]
    if not len(record_set):
        raise ValueError(f"The records of {where!r} hold no example.")
    if record_set.manifest:
        if record_set.manifest.schema_name != "pretraining":
            raise ValueError(
                f"{where!r} holds examples of "
                f"{record_set.manifest.schema_name!r}; this compares "
                "pre-training records of pairs, one in a row, that were masked "
                "when they were written."
            )
        return record_set.manifest.sizes

    import tensorflow as tf

    example = tf.train.Example.FromString(record_set.get([0])[0])
    features = example.features.feature
    return {
        "max_seq_length": len(features["input_mask"].int64_list.value),
        "max_predictions_per_seq": len(
            features["masked_lm_positions"].int64_list.value
        ),
    }


def count_sides(
    sides: Sequence[Sequence[records.Records]], vocab_file: str
) -> list[list[Counts]]:
    """Returns the counts of each set of each side.

    Raises:
      ValueError: if sets differ in their sizes or have another vocabulary, or
        a record is damaged or holds no example of pre-training.
    """
    vocabulary = masking.Vocabulary.of(vocab_lib.read(vocab_file))
    sha256 = vocab_lib.digest(vocab_file)
    one = sides[0][0]
    sizes = find_sizes(one)
    # Not a stream for each set: the same stream would tie them together.
    rng = np.random.default_rng(0)
    for other in itertools.chain(*sides):
        if find_sizes(other) != sizes:
            raise ValueError(
                f"{one.paths[0]!r} has examples of {sizes} and "
                f"{other.paths[0]!r} of {find_sizes(other)}; give records that "
                "were made with the same of these flags."
            )
        other.check(schema.PRETRAINING, sizes, vocabulary.size, sha256)
    return [
        [count_records(one_set, sizes, vocabulary, rng) for one_set in side]
        for side in sides
    ]


def count_records(
    record_set: records.Records,
    sizes: schema.Sizes,
    vocabulary: masking.Vocabulary,
    rng: np.random.Generator,
) -> Counts:
    """Returns the counts of one set.

    Args:
      record_set: the set.
      sizes: of its examples.
      vocabulary: of its tokens.
      rng: see `count`.
    """
    total = None
    for begin in range(0, len(record_set), _READ_EXAMPLES):
        end = min(begin + _READ_EXAMPLES, len(record_set))
        batch = schema.parse(
            record_set.get(np.arange(begin, end)),
            schema.PRETRAINING,
            sizes,
            record_set.legacy_names,
        )
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        part = count(arrays, vocabulary, rng)
        total = part if total is None else add([total, part])
    return total


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
