"""Three pre-training examples to count by hand -> records, for tests."""

import numpy as np
import record_folders

from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.pretraining import masking

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ENTRIES += [f"w{n}" for n in range(5, 30)] + [f"##x{n}" for n in range(30, 40)]
CLS, SEP, MASK = 2, 3, 4
VOCABULARY = masking.Vocabulary.of(ENTRIES)
SIZES = {"max_seq_length": 10, "max_predictions_per_seq": 3}


def example(a, b, masked, label):
    """Returns an example; `masked` maps positions to (original, shown) ids."""
    ids = [CLS, *a, SEP, *b, SEP]
    for position, (original, shown) in masked.items():
        assert ids[position] == original
        ids[position] = shown
    positions = list(masked)
    unused = [0] * (3 - len(masked))
    rest = [0] * (10 - len(ids))
    return {
        "input_word_ids": np.array(ids + rest),
        "input_mask": np.array([1] * len(ids) + rest),
        "input_type_ids": np.array(
            [0] * (len(a) + 2) + [1] * (len(b) + 1) + rest
        ),
        "masked_lm_positions": np.array(positions + unused),
        "masked_lm_ids": np.array([masked[p][0] for p in positions] + unused),
        "masked_lm_weights": np.array(
            [1.0] * len(positions) + unused, np.float32
        ),
        "next_sentence_labels": np.array(label),
    }


EXAMPLES = [
    # One token shown as [MASK], one as a random token.
    example([5, 6], [7, 8, 9], {1: (5, MASK), 6: (9, 38)}, 0),
    # One token kept.
    example([5], [7], {1: (5, 5)}, 1),
    # Two ## pieces; the piece before it is masked too for the second one only.
    example([5, 30], [7, 31], {2: (30, MASK), 4: (7, MASK), 5: (31, 31)}, 1),
]
BATCH = {
    name: np.stack([row[name] for row in EXAMPLES])
    for name in schema.PRETRAINING
}


def write(folder, vocab_file=None, **changes):
    """Writes a folder of records with the examples."""
    vocabulary = {}
    if vocab_file:
        vocabulary = {
            "size": len(ENTRIES),
            "sha256": atomic_files.digest(vocab_file),
            "do_lower_case": True,
        }
    serialized = [
        schema.serialize(row, schema.PRETRAINING, SIZES) for row in EXAMPLES
    ]
    fields = {"sizes": SIZES, "vocabulary": vocabulary}
    record_folders.write(folder, serialized, **(fields | changes))
