"""What a fine-tuning runner is for -> Work; that with its model -> Run.

A task is a record of functions, which `fine_tuning.run` calls.
"""

import dataclasses
from collections.abc import Callable, Mapping

import keras
import numpy as np

from bert_tf.tasks import task as task_lib
from tfrecords import schema
from tfrecords.io import records
from tfrecords.text import tokenizer as tokenizer_lib

Outputs = Mapping[str, np.ndarray]
Predict = Callable[[str], Outputs]  # Split -> outputs of each example.
Sets = dict[str, records.Records]  # By split.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What a runner fine-tunes for, and how its answers are judged.

    Splits are named train, dev... and test.... Sizes of their dimensions are
    those of their manifests.

    Attributes:
      name: of the task, for logs and results.
      bert_task: what training reads.
      make_records: tokenizer, folder -> split to its folder of records; makes
        those that are missing.
      make_score: records by split -> (dev split, outputs) -> named scores.
      majority_baseline: records by split -> dev split to named scores of one
        answer to all, for comparison; empty where there is no such answer.
      best_metric: the score of the first dev split that picks the best model.
      write_predictions: records by split, split -> outputs, folder -> None;
        writes the files of all splits that are to be predicted.
      description: for model.json: "task", a key of models.TASK_MODELS,
        "labels" if it has some, and what an export needs.
      describe: scores of every dev split -> more for model.json, such as a
        threshold that was chosen on dev.
      inputs: features that the model predicts from.
      predicted: kinds of splits of which --do_predict needs one.
    """

    name: str
    bert_task: task_lib.Task
    make_records: Callable[[tokenizer_lib.BertTokenizer, str], dict[str, str]]
    make_score: Callable[[Sets], Callable[[str, Outputs], dict[str, float]]]
    best_metric: str
    write_predictions: Callable[[Sets, Predict, str], None]
    description: dict
    majority_baseline: Callable[[Sets], dict[str, dict[str, float]]] = (
        lambda sets: {}
    )
    describe: Callable[[dict], dict] = lambda scores: {}
    inputs: schema.Schema = dataclasses.field(
        default_factory=lambda: schema.ENCODER_INPUTS
    )
    predicted: tuple[str, ...] = ("test",)


# Model folder to begin with, or to answer with; None for none -> what to do.
FindWork = Callable[[str | None], Work]


@dataclasses.dataclass(frozen=True)
class Run:
    """Work, and all that the stages of a run need for it."""

    work: Work
    model: keras.Model
    sets: Sets
    bucket_lengths: tuple[int, ...]  # Static lengths of batches, if any.
    vocab_file: str
    description: dict  # For model.json.
