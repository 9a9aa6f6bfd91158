"""Three examples to count by hand, and records of them, for tests."""

import dataclasses
import os

import numpy as np

from tfrecords import schema
from tfrecords.io import records
from tfrecords.pretraining import masking
from tfrecords.text import vocab

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ENTRIES += [f"w{n}" for n in range(5, 30)] + [f"##x{n}" for n in range(30, 40)]
CLS, SEP, MASK = 2, 3, 4
VOCABULARY = masking.Vocabulary.of(ENTRIES)
SIZES = {"max_seq_length": 10, "max_predictions_per_seq": 3}


def example(a, b, masked, label):
    """Features of one example; `masked` says place to (original, shown)."""
    ids = [CLS, *a, SEP, *b, SEP]
    for place, (original, shown) in masked.items():
        assert ids[place] == original
        ids[place] = shown
    places = list(masked)
    unused = [0] * (3 - len(masked))
    rest = [0] * (10 - len(ids))
    return {
        "input_word_ids": np.array(ids + rest),
        "input_mask": np.array([1] * len(ids) + rest),
        "input_type_ids": np.array(
            [0] * (len(a) + 2) + [1] * (len(b) + 1) + rest
        ),
        "masked_lm_positions": np.array(places + unused),
        "masked_lm_ids": np.array([masked[p][0] for p in places] + unused),
        "masked_lm_weights": np.array([1.0] * len(places) + unused, np.float32),
        "next_sentence_labels": np.array(label),
    }


EXAMPLES = [
    # Masked; a random word.
    example([5, 6], [7, 8, 9], {1: (5, MASK), 6: (9, 38)}, 0),
    # Kept.
    example([5], [7], {1: (5, 5)}, 1),
    # A ## piece without and one with the piece before it.
    example([5, 30], [7, 31], {2: (30, MASK), 4: (7, MASK), 5: (31, 31)}, 1),
]
BATCH = {
    name: np.stack([row[name] for row in EXAMPLES])
    for name in schema.PRETRAINING
}


def write(folder, vocab_file=None, **changes):
    """Writes the examples as a set of records of ours."""
    os.makedirs(folder)
    serialized = [
        schema.serialize(row, schema.PRETRAINING, SIZES) for row in EXAMPLES
    ]
    path = os.path.join(folder, "train-00000-of-00001.tfrecord")
    vocabulary = {"size": len(ENTRIES)}
    if vocab_file:
        vocabulary["sha256"] = vocab.digest(vocab_file)
    manifest = records.Manifest(
        schema_name="pretraining",
        sizes=SIZES,
        flags={},
        vocabulary=vocabulary,
        statistics={},
        shards=[records.write_shard(path, serialized)],
    )
    dataclasses.replace(manifest, **changes).write(folder)
