"""Logits of C labels and those of each row -> loss, scores, thresholds.

Each label is a decision of its own: the sigmoid of its logit is its
probability, and the labels whose probability reaches their threshold are the
answer, which may be none.

N examples, B batch, C labels.
"""

import functools

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import models
from bert_tf.tasks import losses, metrics
from bert_tf.tasks.task import Resampled, Target
from bert_tf.tasks.texts.classification import of_each, rounded
from bert_tf.tasks.texts.text_task import TextTask
from tfrecords import schema

DEFAULT_THRESHOLD = 0.5
_LEAST_THRESHOLD = 1e-37


class MultiLabel(TextTask):
    """Any number of C labels for each text or pair."""

    task = "multi_label"
    feature = "multi_hot_labels"
    schema = schema.MULTI_LABEL

    def __init__(self, table, data=None):
        super().__init__(table, data)
        fixed = self.options.fixed_threshold()
        self.tunes = fixed is None
        self.thresholds = np.full(
            len(self.class_names), fixed or DEFAULT_THRESHOLD, np.float32
        )

    def check_options(self):
        """Raises ValueError for an option of classes."""
        if self.options.calibrate:
            self.refuse("calibrate", "classes, one for each text")

    def use_tuned(self, metadata):
        """Takes the thresholds of an evaluated model."""
        if self.tunes and "thresholds" in metadata:
            self.thresholds = np.array(metadata["thresholds"], np.float32)
        # Thresholds tuned on the rows that are evaluated would flatter it.
        self.tunes = False

    def build_model(self, config, dtype=None):
        """Returns a BertMultiLabelClassifier."""
        return models.BertMultiLabelClassifier(
            config, num_classes=len(self.class_names), dtype=dtype
        )

    def label_targets(self, batch, weights):
        """Returns the labels of each row."""
        loss = functools.partial(
            losses.binary_cross_entropy,
            positive_weights=self.class_weights,
            label_smoothing=self.options.label_smoothing,
        )
        labels = batch["multi_hot_labels"]
        return {"multi_label": Target("logits", labels, weights, loss)}

    def balanced_weights(self, train_labels):
        """Returns rows without a label, at least 1, / rows with it."""
        counts = train_labels.sum(axis=0)
        self.check_counts(counts)
        return np.maximum(len(train_labels) - counts, 1) / counts

    def predicted(self, outputs):
        """Returns [N, C] int, 1 for the labels of the answer."""
        reached = probabilities(outputs["logits"]) >= self.thresholds
        return reached.astype(int)

    def cells(self, predicted):
        """Returns the names of the labels of each row, with separators."""
        return [
            self.table.label_separator.join(
                self.class_names[i] for i in np.flatnonzero(row)
            )
            for row in predicted
        ]

    def metric_values(self, outputs, labels, split):
        """Returns micro and macro F1, and the average precision.

        Unless the thresholds are given, they are those that are best on dev.
        """
        if self.tunes and split.startswith("dev"):
            found = choose_thresholds(
                probabilities(outputs["logits"]),
                labels,
                of_each_label=self.options.threshold == "each",
            )
            self.thresholds = found.astype(np.float32)
            logging.info(
                "%s: thresholds  %s", split, _named(self.class_names, found)
            )
        scores = metrics.f1_scores(self.predicted(outputs), labels)
        precision = average_precisions(outputs["logits"], labels)
        return scores | {"average_precision": mean_of_defined(precision)}

    def resampled(self, split, outputs):
        """Returns the best metric of any rows, with the same thresholds."""
        labels, predicted = self.labels[split], self.predicted(outputs)
        logits = outputs["logits"]

        def score(i):
            if self.best_metric == "average_precision":
                found = average_precisions(logits[i], labels[i])
                return mean_of_defined(found)
            return metrics.f1_scores(predicted[i], labels[i])[self.best_metric]

        return Resampled("rows", len(labels), score)

    def baseline(self, labels, split):
        """Returns each metric for its best constant answer.

        For micro F1 that is the k most frequent labels, of all k; for macro F1,
        all labels. The average precision of equal scores is a label's share.
        """
        counts = np.sort(labels.sum(axis=0, dtype=np.float64))[::-1]
        num_rows, numbers = len(labels), np.arange(1, len(counts) + 1)
        # F1 is 2 right / (predicted + labelled); all predicted ones that have
        # the label are right.
        micro = 2 * counts.cumsum() / (num_rows * numbers + counts.sum())
        macro = (2 * counts / (num_rows + counts)).mean()
        shares = counts[counts > 0] / num_rows
        return {
            "micro_f1": float(micro.max()),
            "macro_f1": float(macro),
            "average_precision": float(shares.mean()) if len(shares) else None,
        }

    def details(self, split, outputs):
        """Returns the scores of each label."""
        labels = self.labels[split]
        counts = metrics.count_labels(self.predicted(outputs), labels)
        found = of_each(self.class_names, counts)
        precisions = average_precisions(outputs["logits"], labels)
        for i, scores in enumerate(found.values()):
            scores["average_precision"] = precisions[i]
            scores["threshold"] = round(float(self.thresholds[i]), 6)
        return super().details(split, outputs) | {"classes": found}

    def named(self, label):
        """Returns the names of the labels of a row."""
        return [self.class_names[i] for i in label]

    def answers(self, outputs):
        """Yields the labels whose threshold is reached, and probabilities."""
        for probability in probabilities(outputs["logits"]):
            reached = np.flatnonzero(probability >= self.thresholds)
            yield {
                "predicted": self.named(reached),
                "probabilities": rounded(probability),
            }

    def metadata(self, scores=None):
        """Returns the entries of `TextTask`, and tuned thresholds."""
        found = super().metadata(scores)
        return found if scores is None else found | self._thresholds()

    def label_metadata(self):
        """Returns the thresholds, if they are given."""
        return {} if self.tunes else self._thresholds()

    def _thresholds(self) -> dict[str, list[float]]:
        # The shortest decimals that are the same float32.
        return {"thresholds": [float(str(x)) for x in self.thresholds]}


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the sigmoid of logits, float32, as models compute it."""
    return tf.sigmoid(tf.constant(logits, tf.float32)).numpy()


def choose_thresholds(
    probability: np.ndarray, labels: np.ndarray, of_each_label: bool
) -> np.ndarray:
    """Returns the thresholds of the best F1, [C].

    A threshold is halfway between two probabilities, so that rounding in
    another runtime changes no answer. A label that no row has gets the default.

    Args:
      probability: [N, C].
      labels: [N, C], 1 for the labels of a row.
      of_each_label: whether each label has the threshold of its own best F1;
        otherwise all have the one of the best micro F1.
    """
    if not of_each_label:
        one = _best_threshold(probability.ravel(), labels.ravel())
        return np.full(labels.shape[1], one)
    columns = zip(probability.T, labels.T, strict=True)
    return np.array([_best_threshold(*column) for column in columns])


def _best_threshold(probability: np.ndarray, labels: np.ndarray) -> float:
    if not labels.any():
        return DEFAULT_THRESHOLD
    from sklearn.metrics import precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(labels, probability)
    # The last point of the curve has no threshold.
    total = (precision + recall)[:-1]
    f1 = np.divide(
        2 * (precision * recall)[:-1],
        total,
        out=np.zeros_like(total),
        where=total > 0,
    )
    best = int(f1.argmax())
    below = thresholds[best - 1] if best else 0.0
    # Above 0, also as float32, whatever the probabilities are.
    return max(float((thresholds[best] + below) / 2), _LEAST_THRESHOLD)


def average_precisions(
    logits: np.ndarray, labels: np.ndarray
) -> list[float | None]:
    """Returns the average precision of each label; None if no row has it."""
    from sklearn.metrics import average_precision_score

    return [
        float(average_precision_score(right, logit)) if right.any() else None
        for logit, right in zip(logits.T, labels.T, strict=True)
    ]


def mean_of_defined(values: list[float | None]) -> float | None:
    """Returns the mean of the values that are not None; None without any."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def _named(labels, thresholds) -> str:
    if len(set(thresholds)) == 1:
        return f"{thresholds[0]:.3f} for all"
    named = zip(labels, thresholds, strict=True)
    return "  ".join(f"{label} {x:.3f}" for label, x in named)
