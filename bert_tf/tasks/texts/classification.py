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
from bert_tf.tasks.texts import calibration
from bert_tf.tasks.texts.text_task import TextTask
from tfrecords import schema

# Of a confusion matrix: it has as many numbers as their square.
_MAX_CLASSES = 50


class Classification(TextTask):
    """One of C classes for each text or pair (section 4.1 of the paper)."""

    task = "classification"
    feature = "label_ids"
    schema = schema.CLASSIFICATION
    temperature: float | None = None  # By which the head is divided.
    dev: tuple[np.ndarray, np.ndarray]  # Logits and labels, first dev split.

    def prepare(self, config, source):
        """Raises ValueError for a temperature without scores of dev."""
        if self.options.calibrate and config.do_train and not config.do_eval:
            raise ValueError(
                "--calibrate finds a temperature on dev: add --do_eval."
            )
        return super().prepare(config, source)

    def use_tuned(self, metadata):
        """Takes the temperature of an evaluated model."""
        self.temperature = metadata.get("temperature")
        if self.options.calibrate and self.temperature is None:
            raise ValueError(
                "--calibrate: the model has no temperature, which training "
                "with the flag finds. Add --do_train, or omit --calibrate."
            )

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

    def score(self, split, outputs):
        """Returns "loss" and all metrics; keeps what `metadata` reads."""
        if split == next((x for x in self.labels if x.startswith("dev")), ""):
            self.dev = outputs["logits"], self.labels[split]
        return super().score(split, outputs)

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
        """Returns scores of classes, calibration, and the confusion matrix."""
        labels, found = self.labels[split], super().details(split, outputs)
        if self.temperature is not None:
            before = self.temperature * outputs["logits"]
            found["calibration"] = {
                "temperature": self.temperature,
                "error": calibration.error_of(outputs["logits"], labels),
                "error_before": calibration.error_of(before, labels),
            }
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

    def metadata(self, scores=None):
        """Returns the entries of `TextTask`, and a temperature found on dev."""
        found = super().metadata(scores)
        if scores is not None and self.options.calibrate:
            found["temperature"] = calibration.find_temperature(*self.dev)
        return found


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
