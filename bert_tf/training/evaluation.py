"""Batches -> metrics over all batches, or predictions for each example.

Each replica of each worker process computes whole batches: an output may
depend, in its last digits, on the number of rows in its batch. So metrics and
predictions are the same, bit for bit, on any number of replicas of a kind of
device, and in every process.
"""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

from bert_tf.tasks import task as task_lib
from bert_tf.training import strategies

# (replicas=, first_replica=, local_replicas=) -> the batches of this process's
# replicas, in turn; see `tfrecords.reading.batches.evaluation_batches`.
MakeBatches = Callable[..., Iterable[task_lib.Batch]]
# Features of a batch that identify its rows.
_ROWS = ("is_real_example", "example_index")


def make_evaluation_step(
    task: task_lib.Task, model: keras.Model, strategy: tf.distribute.Strategy
):
    """Returns a tf.function: a batch per replica -> losses and accuracies.

    These are two dicts of name to [3] float32 for each replica: total, weight
    and epsilon of a mean. To avoid retracing, make it once for each model.
    """

    def means(batch):
        outputs = model(batch, training=False)
        return tf.nest.map_structure(
            tf.stack,
            [
                {name: list(mean) for name, mean in found.items()}
                for found in (
                    task.losses(outputs, batch),
                    task.accuracies(outputs, batch),
                )
            ],
        )

    return _on_replicas(strategy, means)


def evaluate(
    evaluation_step, make_batches: MakeBatches, strategy: tf.distribute.Strategy
) -> dict[str, float]:
    """Returns the mean losses and accuracies over all batches.

    All worker processes call this together.

    Args:
      evaluation_step: from `make_evaluation_step`.
      make_batches: makes the batches of this process's replicas; padding rows
        have weight 0.
      strategy: strategy of the step.

    Returns:
      Name to value; "loss" is the sum of the task's losses.

    Raises:
      ValueError: if there are no batches.
    """
    sums: dict[str, np.ndarray] = collections.defaultdict(lambda: np.zeros(2))
    epsilons: dict[str, float] = {}
    loss_names: list[str] = []
    results = _results(evaluation_step, make_batches, strategy)
    for _, (losses, accuracies) in results:
        loss_names = list(losses)
        for name, mean in (losses | accuracies).items():
            sums[name] += mean[:2]  # In float64, in the order of the batches.
            epsilons[name] = float(mean[2])
    if not sums:
        raise ValueError("Nothing to evaluate: the records have no examples.")
    values = {
        name: float(total / max(weight + epsilons[name], 1e-12))
        for name, (total, weight) in sums.items()
    }
    return {"loss": sum(values[name] for name in loss_names)} | values


def make_prediction_step(model: keras.Model, strategy: tf.distribute.Strategy):
    """Returns a tf.function: a batch per replica -> outputs of each by name.

    To avoid retracing, make it once for each model.
    """
    return _on_replicas(strategy, lambda batch: model(batch, training=False))


def predict(
    prediction_step, make_batches: MakeBatches, strategy: tf.distribute.Strategy
) -> dict[str, np.ndarray]:
    """Returns all outputs for all examples, in the order of the records.

    All worker processes call this together, and all have all outputs.

    Args:
      prediction_step: from `make_prediction_step`.
      make_batches: makes the batches of this process's replicas; padding rows
        are dropped. With bucket lengths, batches have an `example_index`, by
        which outputs are sorted.
      strategy: strategy of the step.

    Returns:
      Name to array [N, ...]. If outputs [B, S, ...] differ in S between
      batches, they are padded to the longest with -inf, which no argmax
      selects.

    Raises:
      FloatingPointError: if an output is not finite.
    """
    parts: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    indices: list[np.ndarray] = []
    for rows, outputs in _results(prediction_step, make_batches, strategy):
        is_real = rows["is_real_example"] > 0
        if "example_index" in rows:
            indices.append(rows["example_index"][is_real])
        for name, output in outputs.items():
            parts[name].append(_checked(output[is_real]))
    outputs = {name: _join(arrays) for name, arrays in parts.items()}
    if not indices:
        return outputs
    in_order = np.argsort(np.concatenate(indices))
    return {name: output[in_order] for name, output in outputs.items()}


def _on_replicas(strategy: tf.distribute.Strategy, function: Callable):
    @tf.function(autograph=False)
    def step(batch):
        return strategy.run(function, args=(batch,))

    return step


def _results(step, make_batches: MakeBatches, strategy) -> Iterable:
    """Returns (rows, results) of all batches of all processes, in order.

    `rows` has the features `_ROWS`. All are numpy arrays.
    """
    results = _local_results(step, make_batches, strategy)
    workers = strategies.num_workers(strategy)
    if workers == 1:
        return results
    # One all-reduce at the end, so that no replica waits for another before.
    results = list(results)
    gathered = [
        tf.nest.pack_sequence_as(results, arrays)
        for arrays in strategies.gather_arrays(
            strategy, tf.nest.flatten(results)
        )
    ]
    local = strategy.num_replicas_in_sync // workers
    return [
        result
        for begin in range(0, len(results), local)
        for of_worker in gathered
        for result in of_worker[begin : begin + local]
    ]


def _local_results(step, make_batches: MakeBatches, strategy) -> Iterator:
    """Yields (rows, results) of the batches of this process's replicas."""
    replicas = strategy.num_replicas_in_sync
    local = replicas // strategies.num_workers(strategy)
    batches = iter(
        make_batches(
            replicas=replicas,
            first_replica=strategies.worker_index(strategy) * local,
            local_replicas=local,
        )
    )
    while own := list(itertools.islice(batches, local)):
        per_replica = step(_distribute(strategy, own))
        found = strategy.experimental_local_results(per_replica)
        for batch, results in zip(own, found, strict=True):
            rows = {name: batch[name] for name in _ROWS if name in batch}
            yield tf.nest.map_structure(
                lambda tensor: tensor.numpy(), (rows, results)
            )


def _distribute(strategy, batches: list[task_lib.Batch]):
    """Returns batches, one for each replica of this process, as one value.

    Not a distributed dataset: tf.data would autotune it regardless of the
    options, and deleting its iterator could take a minute after each
    evaluation, see `reading.batches`.
    """
    left = iter(batches)
    return strategy.experimental_distribute_values_from_function(
        lambda _: next(left)
    )


def _checked(output: np.ndarray) -> np.ndarray:
    if not np.isfinite(output).all():
        raise FloatingPointError(
            "Outputs of the model are not finite: training has diverged. "
            "Lower --learning_rate."
        )
    return output


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    """Concatenates parts [B, ...], padding dimension 1 with -inf."""
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    longest = max(array.shape[1] for array in arrays)
    rest = arrays[0].shape[2:]
    rows = sum(map(len, arrays))
    joined = np.full((rows, longest, *rest), -np.inf, arrays[0].dtype)
    begin = 0
    for array in arrays:
        end = begin + len(array)
        joined[begin:end, : array.shape[1]] = array
        begin = end
    return joined
