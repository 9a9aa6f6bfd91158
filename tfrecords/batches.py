"""TFRecord shards -> batches in an order that starts anywhere.

Place p of the endless stream of training examples is record
`shuffle_e(p mod N)` of epoch e = p div N, where `shuffle_e` is a permutation
of all N records keyed by seed and epoch. So batch k is known from k alone: a
restart reads no record twice, keeps no shuffle buffer, and the order is
global, not that of a window. Replicas share a batch by rows, so that it is the
same whatever their number.
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
    replicas: int = 1,
    first_replica: int = 0,
    local_replicas: int = 1,
    vocab_size: int | None = None,
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is a permutation of all records.

    Replica r of R holds rows [r B / R, (r + 1) B / R) of each global batch.
    For each batch the dataset has one element for each replica of this
    process, in order: what `distribute_datasets_from_function` takes.

    Args:
      records: where the examples lie.
      schema: the features of a batch.
      sizes: number for each dimension name.
      batch_size: examples in a global batch (B), over all replicas. A batch
        may straddle two epochs.
      seed: of the order.
      start_batch: number of the first global batch; the same stream, entered
        later.
      replicas: that share a batch, over all processes (R).
      first_replica: number of this process's first one.
      local_replicas: of this process.
      vocab_size: if given, ids that are not below it raise an error.

    Returns:
      Parts of batches, of static shape: the schema's features [B / R, ...],
      and `is_real_example` [B / R] float32, which is 1 here.

    Raises:
      ValueError: if there are no records, or replicas cannot share a batch.
      tf.errors.InvalidArgumentError: in iteration, if a record is damaged or
        has ids out of range; the message names it.
    """
    _check_not_empty(records, batch_size)
    _check_replicas(batch_size, replicas, first_replica, local_replicas)
    rows = batch_size // replicas

    def part(number):
        replica = first_replica + number % local_replicas
        first = number // local_replicas * batch_size + replica * rows
        places = first + tf.range(rows, dtype=tf.int64)
        indices = _shuffled(places, len(records), seed)
        return _read(records, schema, sizes, indices, vocab_size)

    numbers = tf.data.Dataset.counter(start_batch * local_replicas)
    return _pipeline(numbers, part)


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
    Arguments, result and errors are otherwise those of `training_batches`
    for one replica.
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


def _check_replicas(batch_size, replicas, first_replica, local_replicas):
    if replicas < 1 or batch_size % replicas:
        raise ValueError(
            f"batch_size={batch_size} is not a multiple of the {replicas} "
            "replicas. Choose one that is."
        )
    end = first_replica + local_replicas
    if first_replica < 0 or local_replicas < 1 or end > replicas:
        raise ValueError(
            f"Replicas {first_replica} to {end - 1} of this process are not "
            f"among {replicas}, numbered from 0."
        )


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
