"""Sentence batches -> classification or regression losses.

The tasks themselves, their columns, labels and metrics, are rows of a table
in tfrecords/glue_tables.py: to a model they differ by the number of classes.
"""

from bert_tf import losses, models
from bert_tf.tasks import task
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
        build_model=lambda config: models.BertClassifier(config, num_classes),
        losses=_classification_losses,
        accuracies=_accuracies,
    )


def regression_task(name: str) -> task.Task:
    """Returns a task that predicts a score, such as "STS-B"."""
    return task.Task(
        name=name,
        schema=schema.REGRESSION,
        build_model=models.BertRegressor,
        losses=_regression_losses,
        accuracies=lambda outputs, batch: {},
    )
