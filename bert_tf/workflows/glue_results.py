"""Outputs of a GLUE model -> scores on dev, files as the GLUE site has them."""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.tasks import glue
from bert_tf.tasks import metrics as metrics_lib
from bert_tf.tasks import task as task_lib
from tfrecords.io import atomic_files, records
from tfrecords.tasks import glue_tables


def make_score(
    metrics: Sequence[str],
    bert_task: task_lib.Task,
    sets: Mapping[str, records.Records],
) -> Callable[[str, dict[str, np.ndarray]], dict[str, float]]:
    """Returns (dev split, outputs) -> its loss and the named metrics.

    Args:
      metrics: keys of `bert_tf.metrics.METRICS`.
      bert_task: whose schema has one label besides the inputs.
      sets: records by split.
    """
    labels = {
        split: _labels(bert_task, found)
        for split, found in sets.items()
        if split.startswith("dev")
    }
    return lambda split, outputs: glue.score(
        bert_task, metrics, outputs, labels[split]
    )


def majority_baseline(
    metrics: Sequence[str],
    bert_task: task_lib.Task,
    sets: Mapping[str, records.Records],
) -> dict[str, dict[str, float]]:
    """Returns what one answer to all scores at best, on each dev set.

    Of classes that is each metric's best label; of scores it is their mean. A
    model that is no better has learnt nothing. Arguments as those of
    `make_score`.
    """
    found = {}
    for split in sets:
        if split.startswith("dev"):
            labels = _labels(bert_task, sets[split])
            answers = np.unique(labels)
            if not np.issubdtype(labels.dtype, np.integer):
                answers = [labels.mean()]
            scores = [
                metrics_lib.compute(
                    metrics, np.full_like(labels, answer), labels
                )
                for answer in answers
            ]
            found[split] = {
                name: max(score[name] for score in scores) for name in metrics
            }
    return found


def _labels(bert_task, found: records.Records) -> np.ndarray:
    """Returns the labels of all records, [N]."""
    name = glue.label_name(bert_task)
    return found.read({name: bert_task.schema[name]})[name]


def write_predictions(
    task: glue_tables.GlueTask, outputs: Mapping[str, np.ndarray], path: str
) -> None:
    """Writes a file as the GLUE site takes it, whole or not at all.

    index  prediction
    0      entailment
    1      not_entailment
    """
    predicted = glue.predicted_labels(outputs)
    if task.is_regression:
        low, high = task.score_range or (-np.inf, np.inf)
        values = [f"{score:.4f}" for score in np.clip(predicted, low, high)]
    else:
        values = [task.labels[label] for label in predicted]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_files.atomic_file(path) as file:
        file.write("index\tprediction\n")
        file.writelines(f"{row}\t{value}\n" for row, value in enumerate(values))
    logging.info("%s  rows %d", path, len(values))
