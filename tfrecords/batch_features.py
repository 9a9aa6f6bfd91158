"""Numbers of records -> features of a batch, checked and cut, in the graph."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfrecords import records as records_lib
from tfrecords import schema as schema_lib

# The dimension that batches are cut in, where static lengths are given.
SEQUENCE = "max_seq_length"
# Features that hold token ids; they index the embedding table.
_TOKEN_IDS = ("input_word_ids", "masked_lm_ids")


class Source(NamedTuple):
    """What batches are read from; see `batches.training_batches`.

    Attributes:
      is_cut: whether the sequence dimension is cut to the batch's length.
    """

    records: records_lib.Records
    schema: schema_lib.Schema
    sizes: schema_lib.Sizes
    vocab_size: int | None
    is_cut: bool


def read(
    source: Source,
    number: tf.Tensor,
    find: Callable[[int], tuple[np.ndarray, int]],
    rows: int,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Reads, parses, checks and cuts a batch.

    Args:
      source: where from.
      number: of the element, a scalar int64 tensor.
      find: number -> indices [rows] of its records, and its length.
      rows: in the batch.

    Returns:
      The features; and the indices, [rows] int64.
    """

    def get(number):
        indices, length = find(int(number))
        serialized = np.array(source.records.get(indices), dtype=object)
        return indices, np.int64(length), serialized

    indices, length, serialized = tf.numpy_function(
        get, [number], [tf.int64, tf.int64, tf.string]
    )
    for value, shape in ((indices, [rows]), (length, []), (serialized, [rows])):
        value.set_shape(shape)
    features = schema_lib.parse(
        serialized, source.schema, source.sizes, source.records.legacy_names
    )
    if source.vocab_size is not None:
        features = _check_ids(
            source.records, features, indices, source.vocab_size
        )
    if source.is_cut:
        for name, feature in source.schema.items():
            ends = [length if n == SEQUENCE else None for n in feature.shape]
            cut = tuple(slice(end) for end in [None, *ends])
            features[name] = features[name][cut]
    features["is_real_example"] = tf.ones(
        [rows], schema_lib.IS_REAL_EXAMPLE.dtype
    )
    return features, indices


def _check_ids(records, features, indices, vocab_size):
    """Returns the features, behind a check of all their token ids."""

    def fail(name, ids, indices):
        row, place = np.argwhere((ids < 0) | (ids >= vocab_size))[0]
        raise ValueError(
            f"Id {ids[row, place]} in {name.decode()!r} of "
            f"{records.describe(int(indices[row]))} is not below "
            f"vocab_size {vocab_size}. Use the vocabulary and the "
            "bert_config.json that the records were made for."
        )

    checks = []
    for name in _TOKEN_IDS:
        if name in features:
            ids = features[name]
            is_wrong = tf.reduce_any((ids < 0) | (ids >= vocab_size))
            checks.append(
                tf.cond(
                    is_wrong,
                    lambda name=name, ids=ids: tf.numpy_function(
                        fail, [name, ids, indices], tf.bool
                    ),
                    lambda: tf.constant(True),
                )
            )
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in features.items()}
