"""TFRecord shards -> batches in an order that can be resumed at any batch.

`batch_order.py` determines the records of a batch. Its rows are split between
the replicas, so that it is the same for any number of replicas.
"""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfrecords import schema as schema_lib
from tfrecords.io import records as records_lib
from tfrecords.reading import batch_features, batch_order, static_lengths

# Records of a batch named in messages.
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
    input_mode: str = "python",
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is a permutation of all records.

    Replica r of R has rows [r B / R, (r + 1) B / R) of each global batch. For
    each batch the dataset has one element for each replica of this process, in
    order, as `distribute_datasets_from_function` requires.

    Args:
      records: the examples.
      schema: the features of a batch. If the records have no masks, they are
        masked differently in each epoch, see `dynamic_masking`.
      sizes: size of each named dimension.
      batch_size: examples in a global batch (B), over all replicas. A batch
        may contain examples of two epochs.
      seed: seed of the order, and of dynamic masks.
      start_batch: number of the first global batch; earlier batches of the
        same stream are skipped.
      replicas: number of replicas that share a batch, over all processes (R).
      first_replica: index of this process's first replica.
      local_replicas: number of replicas of this process.
      vocab_size: if given, ids that are not below it raise an error.
      bucket_lengths: static lengths. If given, the examples of each window of
        batches, see `batch_order`, are sorted by length, and each batch is cut
        to the smallest of them that fits, or to max_seq_length.
        `static_lengths.choose` finds good ones.
      num_batches: number of batches in the complete run. If given, a run sees
        the same examples with buckets as without; the dataset is endless.
      input_mode: how records are read: "python", or "stream", by TensorFlow
        ops alone, so that the pipeline can run in another process; then this
        is called in its device scope. The batches are the same.

    Returns:
      Parts of batches, of static shape: the schema's features [B / R, ...],
      and `is_real_example` [B / R] float32, which is 1 here. With
      `bucket_lengths` the sequence dimension is that of the global batch.

    Raises:
      ValueError: if there are no records, replicas cannot share a batch, a
        bucket is longer than max_seq_length, or records without masks are
        streamed.
      tf.errors.InvalidArgumentError: during iteration, naming the record, if it
        is damaged or has ids out of range.
    """
    _check_not_empty(records, batch_size)
    _check_replicas(batch_size, replicas, first_replica, local_replicas)
    order = _order(
        records, sizes, batch_size, seed, bucket_lengths, num_batches
    )
    source = _source(
        records,
        schema,
        sizes,
        vocab_size=vocab_size,
        is_cut=bool(bucket_lengths),
        seed=seed,
        input_mode=input_mode,
    )
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
    """Returns the origin of a batch of `training_batches`, for messages.

    Batch 70, length 32, epochs 4 to 5 (from 1), 16 records: 'train-00000...',
    record 5, byte 900; ...

    The arguments are those of `training_batches`; `number` counts from 0.
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
    input_mode: str = "python",
    num_batches: int | None = None,
    replicas: int = 1,
    first_replica: int = 0,
    local_replicas: int = 1,
) -> tf.data.Dataset:
    """Returns every record once, in order, in batches of one static shape.

    The last batch is filled with rows of zeros, whose `is_real_example` is 0.
    There are not more rows than records. Replicas have whole batches in turn,
    see `batch_order.evaluation_parts`: an output may depend, in its last
    digits, on the number of rows, so a part of a batch would differ.
    With `bucket_lengths` the longest records come first, each batch is cut to
    the smallest static length that fits, and an additional feature,
    `example_index` [B] int32, is the index of the record, by which
    `evaluation.predict` sorts the outputs. The dynamic masks of a record are
    the same each time. `num_batches` is the number of batches, over all
    replicas; None for all. Arguments, result and errors are otherwise those of
    `training_batches`, with B rows for each replica.
    """
    _check_not_empty(records, batch_size)
    lengths = None
    if bucket_lengths:
        lengths = static_lengths.read(records, sizes[batch_features.SEQUENCE])
    parts = batch_order.evaluation_parts(
        len(records),
        batch_size=batch_size,
        max_seq_length=sizes[batch_features.SEQUENCE],
        lengths=lengths,
        bucket_lengths=bucket_lengths,
        num_batches=num_batches,
        replicas=replicas,
        first_replica=first_replica,
        local_replicas=local_replicas,
    )
    source = _source(
        records,
        schema,
        sizes,
        vocab_size=vocab_size,
        is_cut=bool(bucket_lengths),
        seed=None,
        input_mode=input_mode,
    )

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

    elements = tf.data.Dataset.from_tensor_slices(tuple(parts))
    return pipeline(elements, batch)


def check_input_mode(
    records: records_lib.Records, schema: schema_lib.Schema, input_mode: str
) -> None:
    """Raises ValueError if records cannot be read in an input mode."""
    if input_mode == "stream" and batch_features.needs_masks(records, schema):
        raise ValueError(
            f"--input_mode=stream cannot read {records.paths[0]!r}: its "
            "records are masked when read (masking_time=dynamic), in Python. "
            "Use --input_mode=python, or make records with "
            "make_pretraining_records --masking_time=static."
        )


def _source(records, schema, sizes, *, vocab_size, is_cut, seed, input_mode):
    check_input_mode(records, schema, input_mode)
    mask, streamed = None, None
    if input_mode == "stream":
        from tfrecords.reading import streaming

        streamed = streaming.StreamedRecords(records)
    if batch_features.needs_masks(records, schema):
        from tfrecords.reading import dynamic_masking

        masker = dynamic_masking.masker(records, sizes, seed)
        mask = functools.partial(dynamic_masking.mask, masker)
    return batch_features.Source(
        records, schema, sizes, vocab_size, is_cut, mask, streamed
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
            f"There are no examples in {records.paths}. Were the records made "
            "from an empty file?"
        )
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} should be 1 or more.")


def _check_replicas(batch_size, replicas, first_replica, local_replicas):
    if replicas < 1 or batch_size % replicas:
        raise ValueError(
            f"batch_size={batch_size} is not a multiple of the {replicas} "
            "replicas. Choose a multiple."
        )
    end = first_replica + local_replicas
    if first_replica < 0 or local_replicas < 1 or end > replicas:
        raise ValueError(
            f"Replicas {first_replica} to {end - 1} of this process should be "
            f"in the range from 0 to {replicas - 1}."
        )


def pipeline(
    elements: tf.data.Dataset, batch: Callable[..., dict[str, tf.Tensor]]
) -> tf.data.Dataset:
    """Returns `batch` of each element, prefetched and in order."""
    # AutoGraph has nothing to convert, and looking for it takes time.
    batch = tf.autograph.experimental.do_not_convert(batch)
    dataset = elements.map(
        batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    options = tf.data.Options()
    # The autotuning thread sleeps up to a minute at a time, and deleting the
    # iterator can fail to wake it (TF 2.20: Model::OptimizeLoop). There is
    # nothing to tune: without it, AUTOTUNE uses all cores.
    options.autotune.enabled = False
    # The graph has no files to shard over workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
