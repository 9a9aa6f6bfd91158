"""TFRecord shards -> batches in an order that starts anywhere.

Place p of the endless stream of training examples is record
`shuffle_e(p mod N)` of epoch e = p div N, where `shuffle_e` is a permutation
of all N records keyed by seed and epoch. So batch k is known from k alone: a
restart reads no record twice, keeps no shuffle buffer, and the order is
global, not that of a window.
"""

import numpy as np
import tensorflow as tf

from tfrecords import records as records_lib
from tfrecords import schema as schema_lib

# Features that hold token ids; they index the embedding table.
_TOKEN_IDS = ("input_word_ids", "masked_lm_ids")


def training_batches(
    records: records_lib.Records,
    schema: schema_lib.Schema,
    sizes: schema_lib.Sizes,
    *,
    batch_size: int,
    seed: int,
    start_batch: int = 0,
    vocab_size: int | None = None,
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is a permutation of all records.

    Args:
      records: where the examples lie.
      schema: the features of a batch.
      sizes: number for each dimension name.
      batch_size: examples in a batch (B). A batch may straddle two epochs.
      seed: of the order.
      start_batch: number of the first batch; the same stream, entered later.
      vocab_size: if given, ids that are not below it raise an error.

    Returns:
      Batches of static shape: the schema's features, and `is_real_example`
      [B] float32, which is 1 here.

    Raises:
      ValueError: if there are no records.
      tf.errors.InvalidArgumentError: in iteration, if a record is damaged or
        has ids out of range; the message names it.
    """
    _check_not_empty(records, batch_size)

    def batch(number):
        places = number * batch_size + tf.range(batch_size, dtype=tf.int64)
        indices = _shuffled(places, len(records), seed)
        return _read(records, schema, sizes, indices, vocab_size)

    return _pipeline(tf.data.Dataset.counter(start_batch), batch)


def evaluation_batches(
    records: records_lib.Records,
    schema: schema_lib.Schema,
    sizes: schema_lib.Sizes,
    *,
    batch_size: int,
    vocab_size: int | None = None,
) -> tf.data.Dataset:
    """Returns every record once, in order, in batches of one static shape.

    The last batch is filled with rows of zeros, whose `is_real_example` is 0.
    Arguments, result and errors are otherwise those of `training_batches`.
    """
    _check_not_empty(records, batch_size)
    num_batches = -(-len(records) // batch_size)

    def batch(number):
        places = number * batch_size + tf.range(batch_size, dtype=tf.int64)
        is_real = places < len(records)
        indices = tf.where(is_real, places, 0)
        features = _read(records, schema, sizes, indices, vocab_size)
        return {
            name: tf.where(
                tf.reshape(is_real, [-1] + [1] * (value.shape.rank - 1)),
                value,
                tf.zeros_like(value),
            )
            for name, value in features.items()
        }

    return _pipeline(tf.data.Dataset.range(num_batches), batch)


def _check_not_empty(records, batch_size):
    if not len(records):
        raise ValueError(
            f"No example in {records.paths}; there is nothing to make batches "
            "of. Were the records made from an empty file?"
        )
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} should be 1 or more.")


def _pipeline(numbers, batch):
    dataset = numbers.map(
        batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    # There are no files in the graph to deal to workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)


def _shuffled(places, num_records, seed):
    """Returns [B] int64: the record at each place of the endless stream."""
    epochs = places // num_records
    seeds = tf.stack(
        [tf.zeros_like(epochs), tf.fill(epochs.shape, np.int64(seed)), epochs],
        axis=-1,
    )  # [B, 3]
    # The op under tf.random.experimental.index_shuffle, whose wrapper pads
    # [B, 2] seeds along the wrong axis in TF 2.20 and takes 4 rounds: with
    # small seeds those leave long runs nearly in order. 16 rounds do not.
    return tf.raw_ops.RandomIndexShuffle(
        index=places % num_records,
        seed=seeds,
        max_index=np.int64(num_records - 1),
        rounds=16,
    )


def _read(records, schema, sizes, indices, vocab_size):
    """Reads, parses and checks the records at `indices` [B]."""

    def get(indices):
        return np.array(records.get(indices), dtype=object)

    serialized = tf.numpy_function(get, [indices], tf.string)
    serialized.set_shape(indices.shape)
    features = schema_lib.parse(serialized, schema, sizes, records.legacy_names)
    if vocab_size is not None:
        features = _check_ids(records, features, indices, vocab_size)
    features["is_real_example"] = tf.ones(
        indices.shape, schema_lib.IS_REAL_EXAMPLE.dtype
    )
    return features


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
