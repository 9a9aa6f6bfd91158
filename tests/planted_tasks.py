"""Names and numbers of classes -> GLUE-like tasks without files.

Also arguments of `FineTuningTask.prepare`.
"""

import types

from bert_tf.tasks import glue
from tfrecords.tasks import glue_tables


def classification(name, num_classes, metrics=("accuracy",), labels=None):
    """Returns a task that predicts one of `num_classes` classes."""
    labels = labels or tuple(str(label) for label in range(num_classes))
    table = glue_tables.GlueTask(
        name=name,
        files={},
        text_columns=("text",),
        labels=tuple(labels),
        metrics=tuple(metrics),
    )
    return glue.task_of(table)


def regression(name, metrics=("pearson", "spearman")):
    """Returns a task that predicts a score."""
    return classification(name, 0, metrics)


TRAINING = (types.SimpleNamespace(do_train=True), None)


def evaluation(metadata):
    """Returns arguments of `prepare` for a model in the folder `model`."""
    source = types.SimpleNamespace(
        path=lambda: "model", model_json=lambda: metadata
    )
    return types.SimpleNamespace(do_train=False), source
