"""Batches -> metrics over all batches, or predictions for each example."""

import collections
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from bert_tf.tasks import task as task_lib


def make_evaluation_step(task: task_lib.Task, model: keras.Model):
    """Returns a tf.function: batch -> losses and accuracies.

    To avoid retracing, make it once for each model.
    """

    @tf.function(autograph=False)
    def evaluation_step(batch):
        outputs = model(batch, training=False)
        return task.losses(outputs, batch), task.accuracies(outputs, batch)

    return evaluation_step


def evaluate(
    evaluation_step, batches: Iterable[task_lib.Batch]
) -> dict[str, float]:
    """Returns the mean losses and accuracies over all batches.

    Args:
      evaluation_step: from `make_evaluation_step`.
      batches: from `evaluation_batches`; padding rows of the last batch have
        weight 0.

    Returns:
      Name to value; "loss" is the sum of the task's losses.

    Raises:
      ValueError: if there are no batches.
    """
    totals: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    epsilons: dict[str, float] = {}
    loss_names: list[str] = []
    for batch in batches:
        losses, accuracies = evaluation_step(batch)
        loss_names = list(losses)
        for name, mean in (losses | accuracies).items():
            totals[name][0] += float(mean.total)
            totals[name][1] += float(mean.weight)
            epsilons[name] = float(mean.epsilon)
    if not totals:
        raise ValueError("Nothing to evaluate: the records have no examples.")
    values = {
        name: total / max(weight + epsilons[name], 1e-12)
        for name, (total, weight) in totals.items()
    }
    return {"loss": sum(values[name] for name in loss_names)} | values


def make_prediction_step(model: keras.Model):
    """Returns a tf.function: batch -> outputs by name.

    To avoid retracing, make it once for each model.
    """

    @tf.function(autograph=False)
    def prediction_step(batch):
        return model(batch, training=False)

    return prediction_step


def predict(
    prediction_step, batches: Iterable[task_lib.Batch]
) -> dict[str, np.ndarray]:
    """Returns all outputs for all examples, in the order of the records.

    Args:
      prediction_step: from `make_prediction_step`.
      batches: from `evaluation_batches`; padding rows of the last batch are
        dropped. With bucket lengths, batches have an `example_index`, by which
        outputs are sorted.

    Returns:
      Name to array [N, ...]. If outputs [B, S, ...] differ in S between
      batches, they are padded to the longest with -inf, which no argmax
      selects.

    Raises:
      FloatingPointError: if an output is not finite.
    """
    parts: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    indices: list[np.ndarray] = []
    for batch in batches:
        is_real = batch["is_real_example"].numpy() > 0
        if "example_index" in batch:
            indices.append(batch["example_index"].numpy()[is_real])
        for name, output in prediction_step(batch).items():
            parts[name].append(_checked(output.numpy()[is_real]))
    outputs = {name: _join(arrays) for name, arrays in parts.items()}
    if not indices:
        return outputs
    in_order = np.argsort(np.concatenate(indices))
    return {name: output[in_order] for name, output in outputs.items()}


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
