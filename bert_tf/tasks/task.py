"""What a task is -> Task, what training reads, and FineTuningTask.

Training asks a task for its records' features, its model and its losses. A
fine-tuning task also makes its records from files, scores predictions and
writes them. Letters: N examples of a split.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks.losses import WeightedMean, accuracy, cross_entropy
from tfrecords import schema
from tfrecords.io.records import Records

Batch = Mapping[str, tf.Tensor]
Outputs = Mapping[str, tf.Tensor]
# Named outputs of a model for all N examples of a split, in their order.
SplitOutputs = Mapping[str, np.ndarray]
Scores = dict[str, dict[str, float]]  # By dev split.


class Target(NamedTuple):
    """One thing to predict in a batch.

    Attributes:
      logits: name of the model's output, [..., C].
      labels: [...] int32.
      weights: [...] float32, 0 for what does not count.
      epsilon: added to the weight of the whole batch.
    """

    logits: str
    labels: tf.Tensor
    weights: tf.Tensor
    epsilon: float = 0.0


class Task:
    """One thing BERT is trained to do.

    Attributes:
      name: for logs and results.
      schema: features of its training batches.
    """

    name: str
    schema: schema.Schema

    def build_model(
        self, config: BertConfig, dtype: str | None = None
    ) -> keras.Model:
        """Returns a new model: batch -> named float32 logits.

        `model.encoder` is its BertEncoder.
        """
        raise NotImplementedError

    def targets(self, batch: Batch) -> dict[str, Target]:
        """Returns what is to be predicted in a batch, by its name in logs."""
        raise NotImplementedError

    def losses(self, outputs: Outputs, batch: Batch) -> dict[str, WeightedMean]:
        """Returns named means; training minimizes their sum."""
        return {
            f"{name}_loss": cross_entropy(outputs[logits], *others)
            for name, (logits, *others) in self.targets(batch).items()
        }

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns what each loss is divided by, known before the model runs."""
        return {
            f"{name}_loss": tf.reduce_sum(target.weights)
            for name, target in self.targets(batch).items()
        }

    def accuracies(
        self, outputs: Outputs, batch: Batch
    ) -> dict[str, WeightedMean]:
        """Returns the share of right predictions of each kind."""
        return {
            f"{name}_accuracy": accuracy(
                outputs[target.logits], target.labels, target.weights
            )
            for name, target in self.targets(batch).items()
        }


class FineTuningTask(Task):
    """A task with data files, scores and predictions.

    Splits are named train, dev... and test.... A workflow calls, in this
    order: `prepare`, `make_records`, `open_splits`, then `score`,
    `majority_baseline` and `write_predictions` as often as it likes.

    Attributes:
      data: the task's own options, a dataclass: its files and settings.
      max_seq_length: tokens of an example where nothing else is said.
      best_metric: the score of the first dev split that picks the best model.
      inputs: features that the model predicts from.
      prediction_splits: kinds of splits of which prediction needs one.
    """

    data: object
    max_seq_length = 128
    best_metric: str
    inputs = schema.ENCODER_INPUTS
    prediction_splits: tuple[str, ...] = ("test",)

    def prepare(self, model_dir: str | None, model_metadata: Mapping) -> None:
        """Looks at what there is before anything is made.

        Args:
          model_dir: folder of the trained model to predict with; None to train.
          model_metadata: its model.json; empty to train.

        Raises:
          ValueError: if files are missing, or the model is of another task.
        """

    def make_records(
        self, tokenizer, output_dir: str, max_seq_length: int
    ) -> dict[str, str]:
        """Returns split -> folder of records; writes those that are missing.

        Args:
          tokenizer: a `BertTokenizer`.
          output_dir: gets a folder for each split.
          max_seq_length: tokens of an example.
        """
        raise NotImplementedError

    def open_splits(self, splits: Mapping[str, Records]) -> None:
        """Reads the right answers of the dev splits, to find mistakes early."""

    def score(self, split: str, outputs: SplitOutputs) -> dict[str, float]:
        """Returns the named scores of a dev split."""
        raise NotImplementedError

    def majority_baseline(self) -> Scores:
        """Returns scores of the best constant prediction, by dev split.

        Empty where there is none.
        """
        return {}

    def write_predictions(
        self, predict: Callable[[str], SplitOutputs], output_dir: str
    ) -> None:
        """Writes the prediction files of all splits that are to be predicted.

        Args:
          predict: split -> outputs.
          output_dir: gets the files, each whole or not at all.
        """
        raise NotImplementedError

    def metadata(self) -> dict:
        """Returns what model.json says of a model of this task.

        "task", a key of `models.TASK_MODELS`; "labels" if it has some; and
        what an export needs.
        """
        raise NotImplementedError

    def tuned_metadata(self, scores: Scores) -> dict:
        """Returns more of that, such as a threshold that was tuned on dev."""
        del scores
        return {}
