"""Batches of sentences -> classification or regression losses, scores.

The tasks themselves, their columns, labels and metrics, are rows of a table in
tfrecords/tasks/glue_tables.py: to a model they differ by the number of classes.
"""

import functools
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.model import models
from bert_tf.tasks import losses, metrics, task
from tfrecords import schema


def _classification_losses(outputs, batch):
    return {
        "classification_loss": losses.cross_entropy(
            outputs["logits"], batch["label_ids"], batch["is_real_example"]
        )
    }


def _accuracies(outputs, batch):
    return {
        "accuracy": losses.accuracy(
            outputs["logits"], batch["label_ids"], batch["is_real_example"]
        )
    }


def _regression_losses(outputs, batch):
    return {
        "squared_error_loss": losses.squared_error(
            outputs["predictions"],
            batch["label_scores"],
            batch["is_real_example"],
        )
    }


def _rows_of(name):
    """Returns a batch -> the weight of a loss that every row counts in."""
    return lambda batch: {name: tf.reduce_sum(batch["is_real_example"])}


def classification_task(name: str, num_classes: int) -> task.Task:
    """Returns a task that picks one of some classes (paper, section 4.1).

    Args:
      name: of the task, such as "SST-2".
      num_classes: at least 2.

    Raises:
      ValueError: by `build_model`, if there are fewer classes.
    """
    return task.Task(
        name=name,
        schema=schema.CLASSIFICATION,
        build_model=functools.partial(
            models.BertClassifier, num_classes=num_classes
        ),
        losses=_classification_losses,
        loss_weights=_rows_of("classification_loss"),
        accuracies=_accuracies,
    )


def regression_task(name: str) -> task.Task:
    """Returns a task that predicts a score, such as "STS-B"."""
    return task.Task(
        name=name,
        schema=schema.REGRESSION,
        build_model=models.BertRegressor,
        losses=_regression_losses,
        loss_weights=_rows_of("squared_error_loss"),
        accuracies=lambda outputs, batch: {},
    )


def label_name(bert_task: task.Task) -> str:
    """Returns the feature that holds a task's labels."""
    (name,) = set(bert_task.schema) - set(schema.ENCODER_INPUTS)
    return name


def predicted_labels(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns [N] class ids, or [N] scores, from the model's outputs."""
    if "predictions" in outputs:
        return outputs["predictions"]
    return outputs["logits"].argmax(axis=-1)


def score(
    bert_task: task.Task,
    metric_names: Iterable[str],
    outputs: Mapping[str, np.ndarray],
    labels: np.ndarray,
) -> dict[str, float]:
    """Returns "loss" and each named metric.

    Args:
      bert_task: from `classification_task` or `regression_task`.
      metric_names: keys of `metrics.METRICS`.
      outputs: the model's, for N examples.
      labels: [N] class ids or scores.

    Raises:
      ValueError: as `metrics.compute` does.
    """
    batch = {
        label_name(bert_task): tf.constant(labels),
        "is_real_example": tf.ones(len(labels)),
    }
    means = bert_task.losses(outputs, batch).values()
    loss = sum(float(mean.value()) for mean in means)
    return {"loss": loss} | metrics.compute(
        metric_names, predicted_labels(outputs), labels
    )
