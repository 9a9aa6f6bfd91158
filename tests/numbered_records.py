"""Numbered examples -> our records and the original's; damage, for tests."""

import itertools

import numpy as np
import record_folders
import tensorflow as tf

from tfrecords import schema

sizes = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def example(number):
    """Returns an example whose token ids are its number."""
    return {
        "input_word_ids": np.full(8, number),
        "input_mask": np.ones(8, int),
        "input_type_ids": np.zeros(8, int),
        "masked_lm_positions": np.array([1, 2]),
        "masked_lm_ids": np.array([number, number]),
        "masked_lm_weights": np.ones(2, np.float32),
        "next_sentence_labels": np.array(number % 2),
    }


def serialized(number):
    return schema.serialize(example(number), schema.PRETRAINING, sizes)


def write_folder(folder, counts=(3, 5, 2), **changes):
    """Writes a folder of records numbered from 0."""
    numbers = iter(range(sum(counts)))
    shards = [
        [serialized(number) for number in itertools.islice(numbers, count)]
        for count in counts
    ]
    fields = {
        "sizes": sizes,
        "flags": {"dupe_factor": 5},
        "vocabulary": {"size": 100, "sha256": "aa", "do_lower_case": True},
        "statistics": {"documents": 7},
        "libraries": {"tensorflow-text": "2.20.1"},
    }
    return record_folders.write(folder, *shards, **(fields | changes))


def write_legacy(path, count=4, drop=()):
    """Writes records as the original's create_pretraining_data.py does."""
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(count):
            proto = tf.train.Example()
            for name, array in example(number).items():
                name = schema.LEGACY_NAMES.get(name, name)
                if name in drop:
                    continue
                feature = proto.features.feature[name]
                if name == "masked_lm_weights":
                    feature.float_list.value.extend(array.tolist())
                else:
                    feature.int64_list.value.extend(np.ravel(array).tolist())
            writer.write(proto.SerializeToString())


def damage(path, offset):
    """Changes one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))
