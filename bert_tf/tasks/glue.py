"""GLUE files -> task Glue: records, model, losses, scores, prediction files.

An example is a text or a pair of texts, and its label a class or a score
(Devlin et al. 2018, section 4.1 and appendix B.1). The tasks, with columns,
labels and metrics, are defined in tfrecords/tasks/glue_tables.py, or by flags
for a user's own files.

N examples.
"""

import os

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import models
from bert_tf.tasks import metrics
from bert_tf.tasks.losses import squared_error
from bert_tf.tasks.task import FineTuningTask, SplitOutputs, Target
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_examples, glue_rows, glue_tables

# Not --seed: runs with different seeds must be evaluated on the same rows.
_DEV_SEED = 12345


class Glue(FineTuningTask):
    """Classification or regression of a text or a pair of texts.

    Args:
      table: the entry of the task in `glue_tables`.
      data: files and options; None if `make_records` is not used.

    Raises:
      ValueError: in `build_model`, if there are fewer than two classes.
    """

    def __init__(
        self,
        table: glue_tables.GlueTask,
        data: glue_tables.GlueData | None = None,
    ):
        self.table = table
        self.data = data
        self.name = table.name
        self.best_metric = table.best_metric
        self.is_regression = table.is_regression
        self.schema = (
            schema.REGRESSION if self.is_regression else schema.CLASSIFICATION
        )
        self.labels: dict[str, np.ndarray] = {}  # Dev split -> [N].
        self.sources: dict[str, str] = {}  # Split -> name of its file.
        self.test_splits = ()

    @classmethod
    def from_data(cls, data: glue_tables.GlueData) -> "Glue":
        """Returns the task that the options select.

        Raises:
          ValueError: as in `glue_rows.choose_task`.
        """
        return cls(glue_rows.choose_task(data), data)

    def build_model(self, config, dtype=None):
        """Returns a BertRegressor or a BertClassifier."""
        if self.is_regression:
            return models.BertRegressor(config, dtype=dtype)
        num_classes = len(self.table.labels)
        return models.BertClassifier(
            config, num_classes=num_classes, dtype=dtype
        )

    def targets(self, batch):
        """Returns the class or the score of each real row."""
        weights = batch["is_real_example"]
        if self.is_regression:
            scores = batch["label_scores"]
            target = Target("predictions", scores, weights, squared_error)
            return {"squared_error": target}
        classes = batch["label_ids"]
        target = Target("logits", classes, weights, accuracy_name="accuracy")
        return {"classification": target}

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        folders = glue_examples.make_records(
            self.table,
            self.data.data_dir or "",
            output_dir,
            tokenizer,
            max_seq_length=max_seq_length,
            dev_share=self.data.dev_share,
            seed=_DEV_SEED,
        )
        self.test_splits = tuple(s for s in folders if s.startswith("test"))
        return folders

    def open_splits(self, splits):
        """Reads the labels of the dev splits."""
        self.sources = {
            split: records.manifest.flags.get("source", split)
            for split, records in splits.items()
        }
        (name,) = set(self.schema) - set(self.inputs)
        self.labels = {
            split: records.read({name: self.schema[name]})[name]
            for split, records in splits.items()
            if split.startswith("dev")
        }

    def score(self, split, outputs):
        """Returns "loss" and all metrics; None for one that is undefined."""
        labels = self.labels[split]
        batch = {
            "label_scores" if self.is_regression else "label_ids": labels,
            "is_real_example": tf.ones(len(labels)),
        }
        means = self.losses(outputs, batch).values()
        loss = sum(float(mean.value()) for mean in means)
        predicted = self.predicted(outputs)
        scores = metrics.compute(self.table.metrics, predicted, labels, split)
        return {"loss": loss} | scores

    def predicted(self, outputs: SplitOutputs) -> np.ndarray:
        """Returns [N] class ids or scores."""
        if self.is_regression:
            return outputs["predictions"]
        return outputs["logits"].argmax(axis=-1)

    def label_name(self, label: int) -> str:
        """Returns the name of a class."""
        return self.table.labels[label]

    def majority_baseline(self):
        """Returns each metric for its best constant prediction, by dev split.

        For regression, the constant is the mean score; its correlations are
        undefined, None.

        Raises:
          ValueError: for a dev split of less than two rows.
        """
        names, baseline = self.table.metrics, {}
        for split, labels in self.labels.items():
            if len(labels) < metrics.MIN_EXAMPLES:
                raise ValueError(
                    f"{self.sources.get(split, split)}: {split} has "
                    f"{len(labels)} labelled row; {', '.join(names)} "
                    f"need{'s' * (len(names) == 1)} at least "
                    f"{metrics.MIN_EXAMPLES}. Give a dev file of more rows, or "
                    "omit --do_eval."
                )
            guesses = (
                [labels.mean()] if self.is_regression else np.unique(labels)
            )
            if not self.is_regression and len(guesses) == 1:
                logging.warning(
                    "%s: all %d labels are %r, so scores do not show whether a "
                    "model distinguishes the classes. Use a larger dev set.",
                    split,
                    len(labels),
                    self.label_name(int(guesses[0])),
                )
            scores = [
                metrics.compute(names, np.full_like(labels, guess), labels)
                for guess in guesses
            ]
            baseline[split] = {
                name: max(score[name] for score in scores) for name in names
            }
        return baseline

    def write_predictions(self, predict, output_dir):
        """Writes a file for each test split, in the format of the GLUE site.

        index  prediction
        0      entailment
        1      not_entailment
        """
        for split, name in self.table.predictions.items():
            if split in self.test_splits:
                path = os.path.join(output_dir, f"{name}.tsv")
                self.write_table(self.predicted(predict(split)), path)

    def write_table(self, predicted: np.ndarray, path: str) -> None:
        """Writes [N] class ids or scores to a file, atomically."""
        if self.is_regression:
            low, high = self.table.score_range or (-np.inf, np.inf)
            cells = [f"{score:.4f}" for score in np.clip(predicted, low, high)]
        else:
            cells = [self.table.labels[label] for label in predicted]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_files.atomic_file(path) as file:
            file.write("index\tprediction\n")
            file.writelines(f"{n}\t{cell}\n" for n, cell in enumerate(cells))
        logging.info("%s  rows %d", path, len(cells))

    def metadata(self):
        """Returns task, labels and, if known, score range, for model.json."""
        metadata = {
            "task": "regression" if self.is_regression else "classification",
            "labels": list(self.table.labels),
            "num_texts": len(self.table.text_columns),
        }
        if self.table.score_range:
            metadata["score_range"] = list(self.table.score_range)
        return metadata
