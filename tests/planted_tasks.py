"""Names and numbers of classes -> GLUE-like tasks without files."""

from bert_tf.tasks.glue import Glue
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
    return Glue(table)


def regression(name, metrics=("pearson", "spearman")):
    """Returns a task that predicts a score."""
    return classification(name, 0, metrics)
