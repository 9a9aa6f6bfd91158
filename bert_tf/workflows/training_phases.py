"""Records, their sizes and order -> a Phase, what the training loop reads."""

from bert_tf.training import phases
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches


def make_phase(
    found: records.Records,
    features: schema.Schema,
    sizes: schema.Sizes,
    *,
    num_steps: int,
    vocab_size: int,
    **order,
) -> phases.Phase:
    """Returns the phase that takes `num_steps` batches of these records.

    Args:
      found: the records.
      features: of a batch.
      sizes: number for each dimension name.
      num_steps: batches to take.
      vocab_size: ids that are not below it stop the run.
      **order: `batch_size`, `seed` and `bucket_lengths`, see
        `batches.training_batches`.
    """
    order["num_batches"] = num_steps

    def part_of_batches(start_batch, **replicas):
        return batches.training_batches(
            found,
            features,
            sizes,
            start_batch=start_batch,
            vocab_size=vocab_size,
            **order,
            **replicas,
        )

    def describe(number):
        return batches.describe_batch(found, sizes, number, **order)

    return phases.Phase(
        num_steps=num_steps,
        batches=part_of_batches,
        describe=describe,
    )
