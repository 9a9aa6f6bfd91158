"""Base classes of tasks: batches and outputs -> targets, losses, scores.

A `Task` defines the features of its records, its model and its losses. A
`FineTuningTask` also makes its records from files, and scores and writes
predictions.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks.losses import WeightedMean, accuracy, cross_entropy
from tfrecords import schema
from tfrecords.io.records import Records

# Of the rows to hold out. Not --seed: runs with different seeds must be
# evaluated on the same rows.
DEV_SEED = 12345

Batch = Mapping[str, tf.Tensor]
Outputs = Mapping[str, tf.Tensor]
# Named outputs of a model for all N examples of a split, in order.
SplitOutputs = Mapping[str, np.ndarray]
# Dev split -> metrics; None for one that is undefined, see `tasks.metrics`.
Scores = dict[str, dict[str, float | None]]


class Resampled(NamedTuple):
    """A score of rows that are drawn again, for its confidence interval.

    Attributes:
      unit: the rows that are drawn, such as "rows" or "queries".
      size: their number N.
      score: indices [N] of rows -> `best_metric`; None if it is undefined.
    """

    unit: str
    size: int
    score: Callable[[np.ndarray], float | None]


class Target(NamedTuple):
    """A prediction target of a batch, and the loss that it is learned by.

    Attributes:
      logits: name of the model's output: logits [..., C] of C classes, or
        predicted scores [...].
      labels: [...] int32 class ids, or float32 scores; or the name of an
        output that has them, such as a teacher's.
      weights: [...] float32, 0 for positions or rows to ignore.
      loss: function of output, labels, weights and epsilon, of `losses`.
        Targets with `cross_entropy` have an accuracy.
      share: factor of its loss in the sum that training minimizes; 0 for none.
      epsilon: added to the sum of `weights` over the global batch.
      loss_name: name of the loss, of which several targets of the same weights
        may be parts. Default: the target's name and "_loss".
      accuracy_name: default: the target's name and "_accuracy".
      accuracy_weights: weights of its accuracy. Default: `weights`.
    """

    logits: str
    labels: tf.Tensor | str
    weights: tf.Tensor
    loss: Callable[..., WeightedMean] = cross_entropy
    share: float = 1.0
    epsilon: float = 0.0
    loss_name: str | None = None
    accuracy_name: str | None = None
    accuracy_weights: tf.Tensor | None = None

    @property
    def has_classes(self) -> bool:
        """Whether its loss is `cross_entropy`, perhaps with settings."""
        return getattr(self.loss, "func", self.loss) is cross_entropy

    def mean(self, outputs: Outputs) -> WeightedMean:
        """Returns its loss, multiplied by its share."""
        mean = self.loss(
            outputs[self.logits],
            self.labels_of(outputs),
            self.weights,
            epsilon=self.epsilon,
        )
        return mean._replace(total=mean.total * self.share)

    def labels_of(self, outputs: Outputs) -> tf.Tensor:
        """Returns `labels`, which an output may have."""
        if isinstance(self.labels, str):
            return outputs[self.labels]
        return self.labels


def _by_loss(targets: Mapping[str, Target]) -> dict[str, list[Target]]:
    """Returns name of a loss -> the targets that are parts of it."""
    found: dict[str, list[Target]] = {}
    for name, target in targets.items():
        if target.share:
            loss_name = target.loss_name or f"{name}_loss"
            found.setdefault(loss_name, []).append(target)
    return found


def losses_of(
    targets: Mapping[str, Target], outputs: Outputs
) -> dict[str, WeightedMean]:
    """Returns the losses of targets by name."""
    found = {}
    for name, parts in _by_loss(targets).items():
        first, *others = (target.mean(outputs) for target in parts)
        total = sum((mean.total for mean in others), first.total)
        found[name] = first._replace(total=total)
    return found


class Task:
    """Base class of all tasks.

    Attributes:
      name: for logs and results.
      schema: features of its training batches.
    """

    name: str
    schema: schema.Schema

    def build_model(
        self, config: BertConfig, dtype: str | None = None
    ) -> keras.Model:
        """Returns a new model, which maps a batch to named float32 outputs.

        Its BertEncoder is `model.encoder`.
        """
        raise NotImplementedError

    def call(self, model: keras.Model, batch: Batch, **kwargs) -> Outputs:
        """Returns the outputs of a model for a batch of the task."""
        return model(batch, **kwargs)

    def outputs(
        self, model: keras.Model, batch: Batch, dropout_key: tf.Tensor
    ) -> Outputs:
        """Returns the inputs of the losses, as a training step computes them.

        Args:
          model: from `build_model`.
          batch: rows of this replica.
          dropout_key: [3] int64, see `dropout.make_key`.
        """
        return self.call(model, batch, training=True, dropout_key=dropout_key)

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns a batch's prediction targets by name."""
        raise NotImplementedError

    def losses(self, outputs: Outputs, batch: Batch) -> dict[str, WeightedMean]:
        """Returns the losses by name; training minimizes their sum."""
        return losses_of(self.targets(batch), outputs)

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns `WeightedMean.weight` of each loss, from the batch alone."""
        return {
            name: tf.reduce_sum(targets[0].weights)
            for name, targets in _by_loss(self.targets(batch)).items()
        }

    def accuracies(
        self, outputs: Outputs, batch: Batch
    ) -> dict[str, WeightedMean]:
        """Returns the accuracy for each target with classes."""
        return {
            target.accuracy_name or f"{name}_accuracy": accuracy(
                outputs[target.logits],
                target.labels_of(outputs),
                target.weights
                if target.accuracy_weights is None
                else target.accuracy_weights,
            )
            for name, target in self.targets(batch).items()
            if target.has_classes
        }


class FineTuningTask(Task):
    """A task with data files, scores and predictions.

    Names of splits start with train, dev or test. A workflow calls `prepare`,
    `make_records` and `open_splits`, in this order; then `score`, any number of
    times, and `majority_baseline`; and last `write_predictions`, which may use
    results of `score`.

    Attributes:
      data: a dataclass of the task's options: its files and settings.
      max_seq_length: default number of tokens in an example.
      best_metric: score that selects the best model, on the first dev split.
      inputs: features that are the model's inputs.
      prediction_splits: prefixes of split names; prediction needs a split with
        one of them.
    """

    data: object
    max_seq_length = 128
    best_metric: str
    inputs = schema.ENCODER_INPUTS
    prediction_splits: tuple[str, ...] = ("test",)

    def prepare(self, config, source) -> "FineTuningTask":
        """Returns the task to use, with files found and options completed.

        That is the task itself, unless only the model says which one it is.

        Args:
          config: a FineTuningConfig.
          source: the Checkpoint that the run starts from, resumes or
            evaluates; None for new weights.

        Raises:
          ValueError: if the task cannot have a setting of the run; and in some
            tasks, if files are missing or the evaluated model has a different
            task.
        """
        del config, source
        return self

    def make_records(
        self, tokenizer, output_dir: str, max_seq_length: int
    ) -> dict[str, str]:
        """Writes missing records; returns the folder of each split.

        Args:
          tokenizer: a `BertTokenizer`.
          output_dir: parent of a folder for each split.
          max_seq_length: tokens in an example.
        """
        raise NotImplementedError

    def open_splits(self, splits: Mapping[str, Records]) -> list[str] | None:
        """Reads the labels that `score` needs; the default reads nothing.

        Returns:
          The test splits that have labels, if any. They are scored after
          training, and decide nothing.
        """

    def before_save(
        self,
        model: keras.Model,
        predict: Callable[[Callable[..., Outputs], str], SplitOutputs],
    ) -> None:
        """Changes weights before a checkpoint is saved; by default none.

        Args:
          model: from `build_model`.
          predict: function and split -> its outputs for all examples. The
            function has the arguments of a model; it is compiled once.
        """

    def score(
        self, split: str, outputs: SplitOutputs
    ) -> dict[str, float | None]:
        """Returns the named scores of a labelled split; None if undefined."""
        raise NotImplementedError

    def majority_baseline(self) -> Scores:
        """Returns the scores of the majority-class baseline, by dev split.

        Empty if the task has none.
        """
        return {}

    def write_predictions(
        self, predict: Callable[[str], SplitOutputs], output_dir: str
    ) -> None:
        """Writes the prediction files of the splits that the task predicts.

        Args:
          predict: returns the outputs for a split.
          output_dir: folder of the files, each of which is written atomically.
        """
        raise NotImplementedError

    def decisive_settings(self) -> dict:
        """Returns the task's options that decide the weights of a run."""
        return {}

    def details(self, split: str, outputs: SplitOutputs) -> dict:
        """Returns further results of a split, such as those of classes."""
        del split, outputs
        return {}

    def resampled(self, split: str, outputs: SplitOutputs) -> Resampled | None:
        """Returns how `best_metric` is computed of rows that are drawn again.

        For its confidence interval; None: it has none. Called after `score`.
        """
        del split, outputs

    def evaluated_rows(
        self, split: str, outputs: SplitOutputs
    ) -> Iterator[dict[str, Any]]:
        """Yields the rows of a dev split with label and prediction.

          {"source": "reviews.csv:3", "text_a": "A fine film", "label": "good",
           "predicted": "good", "probabilities": [0.1, 0.9]}

        The default yields none.
        """
        del split, outputs
        return iter(())

    def metadata(self, scores: Scores | None = None) -> dict:
        """Returns the task's own entries of model.json.

        They are "task", a key of `models.TASK_MODELS`; "labels", if the task
        has them; and settings that a later export or prediction needs.

        Args:
          scores: of dev, to add settings that are tuned on it, such as a
            threshold.
        """
        raise NotImplementedError

    def use_tuned(self, metadata: Mapping) -> None:
        """Takes settings that are tuned on dev from a model's model.json."""


def evaluated_model(config, source) -> tuple[str | None, Mapping]:
    """Returns folder and model.json of a model to evaluate; None, {} to train.

    Args:
      config: a FineTuningConfig.
      source: a Checkpoint, if there is one.
    """
    if source is None or config.do_train:
        return None, {}
    return source.path(), source.model_json()
