"""Base classes of tasks: batches and outputs -> targets, losses, scores.

A `Task` defines the features of its records, its model and its losses. A
`FineTuningTask` also makes its records from files, and scores and writes
predictions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

    def outputs(
        self, model: keras.Model, batch: Batch, dropout_key: tf.Tensor
    ) -> Outputs:
        """Returns the inputs of the losses, as a training step computes them.

        Args:
          model: from `build_model`.
          batch: rows of this replica.
          dropout_key: [3] int64, see `dropout.make_key`.
        """
        return model(batch, training=True, dropout_key=dropout_key)

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
      takes_rankings: whether --teacher is a model that ranks passages, whose
        scores `make_records` adds; instead of one of the task's own kind.
      solves_head: whether the head is not trained, but solved for, by
        `solve_head`; it then reads pooled tokens by default, see
        `BertConfig.classifier_pooling`.
      save_steps: steps between checkpoints at least, unless they are given.
      best_metric: score that selects the best model, on the first dev split.
      inputs: features that are the model's inputs.
      prediction_splits: prefixes of split names; prediction needs a split with
        one of them.
    """

    data: object
    max_seq_length = 128
    takes_rankings = False
    solves_head = False
    save_steps = 1
    best_metric: str
    inputs = schema.ENCODER_INPUTS
    prediction_splits: tuple[str, ...] = ("test",)

    def check_config(self, config) -> None:
        """Raises ValueError for settings of the run that the task cannot have.

        Args:
          config: a FineTuningConfig.
        """

    def use_source(self, source) -> None:
        """Takes what a model says beside its weights, before records are made.

        Args:
          source: the Checkpoint that the run starts from, resumes or
            evaluates; None for new weights.
        """

    def use_ranker(
        self, rank: Callable[[Sequence[tuple[str, Sequence[str]]]], list]
    ) -> None:
        """Takes the scores of --teacher, if `takes_rankings`.

        Args:
          rank: query and passages of each of some rows -> a score of each
            passage, N lists of floats; its attribute `sha256` is that of the
            teacher's weights.
        """

    def prepare(self, model_dir: str | None, model_metadata: Mapping) -> None:
        """Finds the files and completes the options, before records are made.

        Args:
          model_dir: folder of the trained model to predict with; None to train.
          model_metadata: content of its model.json; empty to train.

        Raises:
          ValueError: in some tasks, if files are missing or the model has a
            different task.
        """

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

    def open_splits(self, splits: Mapping[str, Records]) -> None:
        """Reads the labels that `score` needs; the default reads nothing."""

    def check_steps(self, num_steps: int) -> None:
        """Logs a number of steps that does not suit the task."""

    def solve_head(self, model: keras.Model, vectors: np.ndarray) -> None:
        """Assigns the weights of the head, if `solves_head`.

        Args:
          model: from `build_model`.
          vectors: [N, H] float32, what its head reads of each example of train.
        """
        raise NotImplementedError

    def score(
        self, split: str, outputs: SplitOutputs
    ) -> dict[str, float | None]:
        """Returns the named scores of a dev split; None for undefined ones."""
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
        """Returns further results of a dev split, such as those of classes."""
        del split, outputs
        return {}

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

    def metadata(self) -> dict:
        """Returns the task's own entries of model.json.

        They are "task", a key of `models.TASK_MODELS`; "labels", if the task
        has them; and settings that a later export or prediction needs.
        """
        raise NotImplementedError

    def use_tuned(self, metadata: Mapping) -> None:
        """Takes what dev has tuned from a model's model.json."""

    def tuned_metadata(self, scores: Scores) -> dict:
        """Returns entries for model.json tuned on dev, such as a threshold."""
        del scores
        return {}
