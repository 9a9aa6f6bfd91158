"""Records, sizes, batch order -> loop.Phase for the training loop."""

from bert_tf.training import loop
from tfrecords import schema
from tfrecords.io.records import Records
from tfrecords.reading import batches


def make_phase(
    records: Records,
    features: schema.Schema,
    sizes: schema.Sizes,
    *,
    num_steps: int,
    vocab_size: int,
    input_mode: str = "python",
    first_batch: int = 0,
    **order,
) -> loop.Phase:
    """Returns the phase of `num_steps` batches of these records.

    Args:
      records: records to read.
      features: schema of a batch.
      sizes: dimension name -> size.
      num_steps: number of batches.
      vocab_size: vocabulary size; larger ids raise an error.
      input_mode: "python" or "stream", see `batches.training_batches`.
      first_batch: number of the phase's first batch, in the order of the
        records.
      **order: `batch_size`, `seed` and `bucket_lengths`, see
        `batches.training_batches`.
    """
    order["num_batches"] = num_steps

    def part_of_batches(start_batch, **replicas):
        return batches.training_batches(
            records,
            features,
            sizes,
            start_batch=first_batch + start_batch,
            vocab_size=vocab_size,
            input_mode=input_mode,
            **order,
            **replicas,
        )

    def describe(number):
        number += first_batch
        return batches.describe_batch(records, sizes, number, **order)

    return loop.Phase(
        num_steps=num_steps,
        batches=part_of_batches,
        describe=describe,
        examples_per_row=examples_per_row(records),
    )


def num_windows(records: Records) -> int:
    """Returns the number of windows in a row: 1 unless texts are long."""
    manifest = records.manifest
    return manifest.flags.get("max_windows", 1) if manifest else 1


def examples_per_row(records: Records) -> float:
    """Returns the mean number of examples per row: 1 unless packed."""
    manifest = records.manifest
    if not manifest or "max_examples_per_row" not in manifest.sizes:
        return 1.0
    rows = manifest.statistics.get("rows") or manifest.num_examples
    return manifest.statistics.get("examples", rows) / rows
