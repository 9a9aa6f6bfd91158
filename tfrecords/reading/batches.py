"""TFRecord shards -> batches in an order that starts anywhere.

`batch_order.py` says which records a batch is made of. Replicas share a batch
by rows, so that it is the same whatever their number.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfrecords import schema as schema_lib
from tfrecords.io import records as records_lib
from tfrecords.reading import batch_features, batch_order, static_lengths

# Records of a batch that a message names.
_NAMED = 3


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
    bucket_lengths: Sequence[int] = (),
    num_batches: int | None = None,
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is a permutation of all records.

    Replica r of R holds rows [r B / R, (r + 1) B / R) of each global batch.
    For each batch the dataset has one element for each replica of this
    process, in order: what `distribute_datasets_from_function` takes.

    Args:
      records: where the examples lie.
      schema: the features of a batch. If the records lack masks, they are
        masked anew in each epoch, see `dynamic_masking`.
      sizes: number for each dimension name.
      batch_size: examples in a global batch (B), over all replicas. A batch
        may straddle two epochs.
      seed: of the order, and of masks that the records lack.
      start_batch: number of the first global batch; the same stream, entered
        later.
      replicas: that share a batch, over all processes (R).
      first_replica: number of this process's first one.
      local_replicas: of this process.
      vocab_size: if given, ids that are not below it raise an error.
      bucket_lengths: static lengths. If given, the examples of each
        `batch_order.WINDOW_BATCHES` batches are sorted by length, and each
        batch is cut to the smallest that holds it, or to max_seq_length.
        `static_lengths.choose` finds good ones.
      num_batches: in the whole run. With it a run sees the same examples with
        buckets as without; the dataset itself has no end.

    Returns:
      Parts of batches, of static shape: the schema's features [B / R, ...],
      and `is_real_example` [B / R] float32, which is 1 here. With
      `bucket_lengths` the sequence dimension is that of the global batch.

    Raises:
      ValueError: if there are no records, replicas cannot share a batch, or a
        bucket is longer than max_seq_length.
      tf.errors.InvalidArgumentError: in iteration, if a record is damaged or
        has ids out of range; the message names it.
    """
    _check_not_empty(records, batch_size)
    _check_replicas(batch_size, replicas, first_replica, local_replicas)
    order = _order(
        records, sizes, batch_size, seed, bucket_lengths, num_batches
    )
    source = _source(records, schema, sizes, vocab_size, bucket_lengths, seed)
    return pipeline(
        order.parts(start_batch, replicas, first_replica, local_replicas),
        lambda part: batch_features.read(
            source, part.indices, part.positions, part.length
        ),
    )


def describe_batch(
    records: records_lib.Records,
    sizes: schema_lib.Sizes,
    number: int,
    *,
    batch_size: int,
    seed: int,
    bucket_lengths: Sequence[int] = (),
    num_batches: int | None = None,
) -> str:
    """Returns where a batch of `training_batches` comes from, for messages.

    Batch 70, length 32, epochs 4 to 5 (from 1), 16 records: 'train-00000...',
    record 5, byte 900; ...

    Arguments as those of `training_batches`; `number` counts from 0.
    """
    order = _order(
        records, sizes, batch_size, seed, bucket_lengths, num_batches
    )
    batch = order.batch(number)
    epochs = batch.positions.numpy() // len(records) + 1
    which = f"epoch {epochs.min()}"
    if epochs.min() < epochs.max():
        which = f"epochs {epochs.min()} to {epochs.max()}"
    indices = batch.indices.numpy()
    named = [records.describe(index) for index in indices[:_NAMED]]
    if batch_size > _NAMED:
        named.append("...")
    return (
        f"Batch {number}, length {batch.length}, {which} (from 1), "
        f"{batch_size} records: {'; '.join(named)}"
    )


def evaluation_batches(
    records: records_lib.Records,
    schema: schema_lib.Schema,
    sizes: schema_lib.Sizes,
    *,
    batch_size: int,
    vocab_size: int | None = None,
    bucket_lengths: Sequence[int] = (),
) -> tf.data.Dataset:
    """Returns every record once, in order, in batches of one static shape.

    The last batch is filled with rows of zeros, whose `is_real_example` is 0.
    With `bucket_lengths` the longest records come first, each batch is cut to
    the smallest length that holds it, and one feature more, `example_index`
    [B] int32, is the record's number, by which `evaluation.predict`
    puts the outputs in order. If the records lack masks, a record has the same
    ones each time. Arguments, result and errors are otherwise those
    of `training_batches` for one replica.
    """
    _check_not_empty(records, batch_size)
    static = batch_order.static_lengths(
        bucket_lengths, sizes[batch_features.SEQUENCE]
    )
    num_batches = -(-len(records) // batch_size)
    positions = np.arange(num_batches * batch_size).reshape(num_batches, -1)
    is_real = positions < len(records)
    indices, lengths = np.where(is_real, positions, 0), static[-1:]
    if bucket_lengths:
        lengths = static_lengths.read(records, sizes[batch_features.SEQUENCE])
        indices = np.argsort(-lengths, kind="stable")[indices]
        lengths = batch_order.round_up(lengths[indices[:, 0]], static)
    lengths = np.broadcast_to(lengths, [num_batches])
    source = _source(records, schema, sizes, vocab_size, bucket_lengths, None)

    def batch(indices, length, is_real):
        features = batch_features.read(source, indices, indices, length)
        if bucket_lengths:
            features["example_index"] = tf.cast(indices, tf.int32)
        return {
            name: tf.where(
                tf.reshape(is_real, [-1] + [1] * (value.shape.rank - 1)),
                value,
                tf.zeros_like(value),
            )
            for name, value in features.items()
        }

    elements = (indices, lengths, is_real)
    return pipeline(tf.data.Dataset.from_tensor_slices(elements), batch)


def _source(records, schema, sizes, vocab_size, bucket_lengths, seed):
    mask = None
    if batch_features.needs_masks(records, schema):
        from tfrecords.reading import dynamic_masking

        masker = dynamic_masking.masker(records, sizes, seed)
        mask = functools.partial(dynamic_masking.mask, masker)
    return batch_features.Source(
        records, schema, sizes, vocab_size, bool(bucket_lengths), mask
    )


def _order(records, sizes, batch_size, seed, bucket_lengths, num_batches):
    lengths = None
    if bucket_lengths:
        lengths = static_lengths.read(records, sizes[batch_features.SEQUENCE])
    return batch_order.TrainingOrder(
        len(records),
        batch_size=batch_size,
        seed=seed,
        max_seq_length=sizes[batch_features.SEQUENCE],
        lengths=lengths,
        bucket_lengths=bucket_lengths,
        num_batches=num_batches,
    )


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


def pipeline(
    elements: tf.data.Dataset, batch: Callable[..., dict[str, tf.Tensor]]
) -> tf.data.Dataset:
    """Returns `batch` of each element, made ahead and in their order."""
    # There is nothing to convert, and looking for it takes time.
    batch = tf.autograph.experimental.do_not_convert(batch)
    dataset = elements.map(
        batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    # The thread that tunes a pipeline sleeps up to a minute between two looks,
    # and the end of its iterator can miss to wake it (TF 2.20: Model::
    # OptimizeLoop). There is nothing to tune: AUTOTUNE takes all cores.
    options.autotune.enabled = False
    # There are no files in the graph to split over workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
