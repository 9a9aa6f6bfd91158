"""Logits of C classes and class ids -> loss, scores, predicted classes.

N examples, B batch, C classes.
"""

import functools
from collections.abc import Sequence

import numpy as np
import scipy.special
import tensorflow as tf
from absl import logging

from bert_tf.model import models
from bert_tf.tasks import losses, metrics
from bert_tf.tasks.task import Target
from bert_tf.tasks.texts.text_task import TextTask
from tfrecords import schema

# Of a confusion matrix: it has as many numbers as their square.
_MAX_CLASSES = 50


class Classification(TextTask):
    """One of C classes for each text or pair (section 4.1 of the paper)."""

    task = "classification"
    feature = "label_ids"
    schema = schema.CLASSIFICATION

    def build_model(self, config, dtype=None):
        """Returns a BertClassifier."""
        return models.BertClassifier(
            config, num_classes=len(self.class_names), dtype=dtype
        )

    def label_targets(self, batch, weights):
        """Returns the class of each row."""
        loss = losses.cross_entropy
        if self.options.label_smoothing:
            loss = functools.partial(
                loss, label_smoothing=self.options.label_smoothing
            )
        target = Target(
            *("logits", batch["label_ids"], self.weighted(batch, weights)),
            loss,
            accuracy_name="accuracy",
        )
        return {"classification": target._replace(accuracy_weights=weights)}

    def weighted(self, batch, weights):
        """Returns the weights of rows times those of their classes, [B]."""
        if self.class_weights is None:
            return weights
        ids = batch[self.feature]
        return weights * tf.gather(tf.constant(self.class_weights), ids)

    def balanced_weights(self, train_labels):
        """Returns the weights of scikit-learn's `compute_class_weight`."""
        counts = np.bincount(train_labels, minlength=len(self.class_names))
        self.check_counts(counts)
        return len(train_labels) / (len(counts) * counts)

    def predicted(self, outputs):
        """Returns [N] class ids."""
        return outputs["logits"].argmax(axis=-1)

    def cells(self, predicted):
        """Returns the name of the class of each row."""
        return [self.class_names[label] for label in predicted]

    def baseline(self, labels, split):
        """Returns each metric for its best constant prediction."""
        guesses = np.unique(labels)
        if len(guesses) == 1:
            logging.warning(
                "%s: all %d labels are %r, so scores do not show whether a "
                "model distinguishes the classes. Use a larger dev set.",
                split,
                len(labels),
                self.named(int(guesses[0])),
            )
        return self.best_constant(labels, guesses)

    def details(self, split, outputs):
        """Returns the scores of each class, and the confusion matrix."""
        labels, found = self.labels[split], super().details(split, outputs)
        if not self.class_names:
            return found
        predicted, size = self.predicted(outputs), len(self.class_names)
        counts = metrics.count(predicted, labels, size)
        found["classes"] = of_each(self.class_names, counts)
        if size <= _MAX_CLASSES:
            # Rows are labels, columns predictions, both in the order of ids.
            pairs = np.bincount(labels * size + predicted, minlength=size**2)
            found["confusion_matrix"] = pairs.reshape(size, size).tolist()
        return found

    def named(self, label):
        """Returns the name of a class; its id if it has none."""
        return self.class_names[label] if self.class_names else str(label)

    def answers(self, outputs):
        """Yields the predicted class and all probabilities."""
        for probability in scipy.special.softmax(outputs["logits"], axis=-1):
            yield {
                "predicted": self.named(int(probability.argmax())),
                "probabilities": rounded(probability),
            }


def of_each(labels: Sequence[str], counts) -> dict[str, dict]:
    """Returns label -> its precision, recall, F1 and number of rows.

    Args:
      labels: [C] names.
      counts: right, predicted and labelled rows, [C] each.
    """
    found, columns = {}, (*metrics.class_scores(*counts), counts[-1])
    for label, *values, support in zip(labels, *columns, strict=True):
        precision, recall, f1 = map(float, values)
        scores = {"precision": precision, "recall": recall, "f1": f1}
        found[label] = scores | {"support": int(support)}
    return found


def rounded(values: np.ndarray) -> list[float]:
    """Returns probabilities for JSON, with six digits."""
    return [round(float(value), 6) for value in values]
