"""Base class of the kinds of labels: outputs and labels -> losses, scores.

N examples, B batch, C classes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tasks import metrics
from bert_tf.tasks.labels.options import LabelOptions, read_weights
from bert_tf.tasks.task import Batch, Outputs, SplitOutputs, Target
from tfrecords import schema
from tfrecords.tasks import glue_rows, glue_tables


class LabelKind:
    """A kind of labels of texts.

    Args:
      table: the task's table.
      options: settings of loss and thresholds.

    Attributes:
      task: name in model.json.
      feature: name of the labels in records and batches.
      schema: features of its records.
      labels: names of the classes in the order of their ids, if any.
      weights: [C] float32, weights of the classes in the loss; None for 1.
      reads_train: whether `read_train` is called.
    """

    task: str
    feature: str
    schema: schema.Schema
    reads_train = False

    def __init__(self, table: glue_tables.GlueTask, options: LabelOptions):
        self.table = table
        self.options = options
        self.labels = table.labels
        self.weights: np.ndarray | None = None
        self.check_options()
        self.reads_train = self.reads_train or bool(options.class_weights)
        words = options.class_weights or ("balanced",)
        # Label -> weight, of those that are given.
        self.given_weights: dict[str, float] = {}
        if words != ("balanced",):
            self.given_weights = read_weights(words, self.labels)

    def check_options(self) -> None:
        """Raises ValueError if an option is for another kind of labels."""
        if self.options.threshold != LabelOptions.threshold:
            self.refuse("threshold", "several labels, with --multi_label")

    def refuse(self, name: str, wanted: str) -> None:
        """Raises ValueError for an option that is for `wanted`."""
        value = getattr(self.options, name)
        value = ",".join(value) if isinstance(value, tuple) else value
        raise ValueError(
            f"--{name}={value} is for {wanted}; {self.table.name} is a task of "
            f"{self.task}. Omit the flag."
        )

    def use_model(self, metadata: Mapping) -> None:
        """Takes what an evaluated model has tuned, from its model.json."""

    def build_model(self, config, dtype: str | None = None) -> keras.Model:
        """Returns a new model."""
        raise NotImplementedError

    def label_features(self) -> schema.Schema:
        """Returns the label of a row of dev, by the name in its records."""
        return {self.feature: self.schema[self.feature]}

    def read_rows(self, split: str, rows: Iterable[glue_rows.Row]) -> None:
        """Takes what scores need of the rows of a dev split.

        The default needs none; it does not read them.
        """
        del split, rows

    def outputs(
        self, model: keras.Model, batch: Batch, dropout_key: tf.Tensor
    ) -> Outputs:
        """Returns the inputs of the losses, see `Task.outputs`."""
        return model(batch, training=True, dropout_key=dropout_key)

    def as_batch(
        self, outputs: SplitOutputs, labels: np.ndarray, split: str
    ) -> tuple[Outputs, Batch]:
        """Returns outputs and labels of a dev split as `targets` has them."""
        del split
        weights = tf.ones(len(labels))
        return outputs, {self.feature: labels, "is_real_example": weights}

    def targets(self, batch: Batch, weights: tf.Tensor) -> dict[str, Target]:
        """Returns the prediction targets; weights of rows are [B] float32."""
        raise NotImplementedError

    def training_targets(
        self, batch: Batch, weights: tf.Tensor
    ) -> dict[str, Target]:
        """Returns the targets of training, if they are not those of dev."""
        return self.targets(batch, weights)

    def read_train(
        self, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Sets `weights`, given the training rows.

        Args:
          labels: of each row.
          weights: [N] float32, weights of the rows, if they have any.

        Raises:
          ValueError: if balanced weights are undefined for a class.
        """
        del weights
        if not self.options.class_weights:
            return
        found = [self.given_weights.get(label, 1.0) for label in self.labels]
        if not self.given_weights:
            found = self.balanced_weights(labels)
        self.weights = np.asarray(found, np.float32)
        named = zip(self.labels, self.weights, strict=True)
        logging.info(
            "class weights  %s", "  ".join(f"{x} {w:.3g}" for x, w in named)
        )

    def balanced_weights(self, train_labels: np.ndarray) -> np.ndarray:
        """Returns the weights of "balanced", [C]."""
        raise NotImplementedError

    def check_counts(self, counts: np.ndarray) -> None:
        """Raises ValueError if a class has no row."""
        if not counts.all():
            missing = self.labels[int(counts.argmin())]
            raise ValueError(
                f"--class_weights=balanced: no row of train has {missing!r}. "
                "Give the weights, or leave the label out of --labels."
            )

    def predicted(self, outputs: SplitOutputs) -> np.ndarray:
        """Returns the predicted labels, [N] or [N, C]."""
        raise NotImplementedError

    def scores(
        self, outputs: SplitOutputs, labels: np.ndarray, split: str
    ) -> dict[str, float | None]:
        """Returns the table's metrics; None for one that is undefined."""
        predicted = self.predicted(outputs)
        return metrics.compute(self.table.metrics, predicted, labels, split)

    def baseline(
        self, labels: np.ndarray, split: str
    ) -> dict[str, float | None]:
        """Returns each metric for its best constant prediction."""
        raise NotImplementedError

    def best_constant(
        self, labels: np.ndarray, guesses: Iterable
    ) -> dict[str, float | None]:
        """Returns each metric for the best of some constant predictions."""
        names = self.table.metrics
        found = [
            metrics.compute(names, np.full_like(labels, guess), labels)
            for guess in guesses
        ]
        return {name: max(score[name] for score in found) for name in names}

    def details(self, outputs: SplitOutputs, labels: np.ndarray) -> dict:
        """Returns further results for eval_results.json, such as of classes."""
        del outputs, labels
        return {}

    def named(self, label) -> str | float | list[str]:
        """Returns a label of a row of a table by its name, for JSON."""
        raise NotImplementedError

    def answers(self, outputs: SplitOutputs) -> Iterator[dict]:
        """Yields `predicted`, and `probabilities` if there are, for JSON."""
        raise NotImplementedError

    def cells(self, predicted: np.ndarray) -> Sequence[str]:
        """Returns the cells of the predictions in a table."""
        raise NotImplementedError

    def metadata(self) -> dict:
        """Returns its entries of model.json."""
        raise NotImplementedError

    def tuned_metadata(self) -> dict:
        """Returns the entries of model.json that dev has decided."""
        return {}
