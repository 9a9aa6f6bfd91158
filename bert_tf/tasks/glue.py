"""Tables of texts -> task Glue: records, model, losses, scores, predictions.

An example is a text or a pair of texts; its label is a class, a score or any
number of labels (Devlin et al. 2018, section 4.1 and appendix B.1). The tasks
of GLUE, with columns, labels and metrics, are defined in
tfrecords/tasks/glue_tables.py; those of a user's own tables by flags.

N examples.
"""

import os
from collections.abc import Iterator

import numpy as np
from absl import logging

from bert_tf.contrib.search import few_shot
from bert_tf.contrib.search.grades import Grades
from bert_tf.tasks import metrics
from bert_tf.tasks.labels.classes import Classes
from bert_tf.tasks.labels.options import LabelOptions
from bert_tf.tasks.labels.scores import Score
from bert_tf.tasks.labels.several import SeveralLabels
from bert_tf.tasks.task import (
    DEV_SEED,
    FineTuningTask,
    SplitOutputs,
    losses_of,
)
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_examples, glue_rows, glue_tables


class Glue(FineTuningTask):
    """Classes, scores or several labels of a text or a pair of texts.

    Args:
      table: the entry of the task in `glue_tables`.
      data: files and options; None if `make_records` is not used.

    Raises:
      ValueError: if an option does not fit the labels; in `build_model`, if
        there are fewer than two classes.
    """

    def __init__(
        self,
        table: glue_tables.GlueTask | None,
        data: glue_tables.GlueData | None = None,
    ):
        self.data = data
        self.options = data
        if not isinstance(data, LabelOptions):
            self.options = LabelOptions()
        self.solves_head = self.options.few_shot
        self.save_steps = few_shot.FEW_STEPS if self.solves_head else 1
        self.labels: dict[str, np.ndarray] = {}  # Dev split -> [N] or [N, C].
        self.sources: dict[str, str] = {}  # Split -> name of its file.
        self.test_splits = ()
        self.records_dir = ""
        if table is None:
            self.name = data.task_name or "own"
        else:
            self._set_table(table)

    def _set_table(self, table: glue_tables.GlueTask) -> None:
        """Sets what depends on columns and labels."""
        kind = Score if table.is_regression else Classes
        if table.multi_label:
            kind = SeveralLabels
        if table.ranking_loss:
            kind = Grades
        if self.options.few_shot:
            if kind is not Classes:
                raise ValueError(
                    "--few_shot is for one of several classes of a row; "
                    f"{table.name} is a task of {kind.task}. Omit the flag."
                )
            kind = few_shot.FewShot
        self.table = table
        self.kind = kind(table, self.options)
        self.name = table.name
        self.schema = self.kind.schema
        if table.weight_column:
            self.schema = self.schema | schema.EXAMPLE_WEIGHT
        given = self.options.best_metric
        self.best_metric = given or table.best_metric
        if given and given not in table.metrics:
            raise ValueError(
                f"--best_metric={given}: {table.name} has "
                f"{', '.join(table.metrics)}. Choose one of them."
            )

    @classmethod
    def from_data(cls, data: glue_tables.GlueData) -> "Glue":
        """Returns the task that the options select.

        Raises:
          ValueError: as in `glue_rows.choose_task`.
        """
        if glue_rows.has_labels(data):
            return cls(glue_rows.choose_task(data), data)
        return cls(None, data)  # They are those of the model.

    def prepare(self, model_dir, model_metadata):
        """Takes labels and thresholds of the model, if it is not trained."""
        if not model_dir:
            if not glue_rows.has_labels(self.data):
                self._set_table(glue_rows.choose_task(self.data))
            return
        if glue_rows.takes_labels(self.data):
            labels = tuple(model_metadata.get("labels", ())) or ("score",)
            self._set_table(self.data.choose_task(labels))
            if (task := model_metadata.get("task")) != self.kind.task:
                raise ValueError(
                    f"{model_dir} is a model of task {task}; {self.name} has "
                    f"{self.kind.task}. Add --do_train, or give the output_dir "
                    "of a run of the same task."
                )
        self.use_tuned(model_metadata)

    def check_config(self, config):
        """Raises ValueError for settings that the labels cannot have."""
        if self.options.few_shot:
            few_shot.check_run(config)

    def check_steps(self, num_steps):
        """Logs that a run is too short for its labels."""
        if self.options.few_shot:
            few_shot.check_steps(num_steps)

    def solve_head(self, model, vectors):
        """Assigns a logistic regression on the rows of train to the head."""
        self.kind.solve_head(model, vectors)

    def use_tuned(self, metadata):
        """Takes the thresholds of a model."""
        self.kind.use_model(metadata)

    def build_model(self, config, dtype=None):
        """Returns a model of the labels."""
        return self.kind.build_model(config, dtype)

    def outputs(self, model, batch, dropout_key):
        """Returns the outputs of the model, of a list those of each part."""
        return self.kind.outputs(model, batch, dropout_key)

    def targets(self, batch):
        """Returns the label of each real row."""
        weights = batch["is_real_example"]
        if "example_weights" in batch:
            weights = weights * batch["example_weights"]
        return self.kind.training_targets(batch, weights)

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        folders = glue_examples.make_records(
            self.table,
            self.data.data_dir or "",
            output_dir,
            tokenizer,
            max_seq_length=max_seq_length,
            dev_share=self.data.dev_share,
            seed=DEV_SEED,
        )
        self.test_splits = tuple(s for s in folders if s.startswith("test"))
        self.records_dir = output_dir
        return folders

    def open_splits(self, splits):
        """Reads the labels of the dev splits, and weighs the classes."""
        self.sources = {
            split: records.manifest.flags.get("source", split)
            for split, records in splits.items()
        }
        name = self.kind.feature
        wanted = self.kind.label_features()
        self.labels = {
            split: records.read(wanted)[name]
            for split, records in splits.items()
            if split.startswith("dev")
        }
        for split in self.labels:
            self.kind.read_rows(split, self._rows(split))
        if self.kind.reads_train and "train" in splits:
            self._read_train(splits["train"], wanted)

    def _read_train(self, records, wanted: schema.Schema) -> None:
        weight = "example_weights"
        if weight in self.schema:
            wanted = wanted | {weight: self.schema[weight]}
        found = records.read(wanted)
        self.kind.read_train(found[self.kind.feature], found.get(weight))

    def score(self, split, outputs):
        """Returns "loss" and all metrics; None for one that is undefined."""
        labels = self.labels[split]
        as_batch = self.kind.as_batch(outputs, labels, split)
        targets = self.kind.targets(as_batch[1], as_batch[1]["is_real_example"])
        means = losses_of(targets, as_batch[0]).values()
        loss = sum(float(mean.value()) for mean in means)
        return {"loss": loss} | self.kind.scores(outputs, labels, split)

    def details(self, split, outputs):
        """Returns the scores of each class, and the confusion matrix."""
        return self.kind.details(outputs, self.labels[split])

    def evaluated_rows(self, split, outputs):
        """Yields the rows of a dev split with label and prediction."""
        answers = self.kind.answers(outputs)
        for row, answer in zip(self._rows(split), answers, strict=True):
            path, _, line = row.source.rpartition(":")
            found = {"source": f"{os.path.basename(path)}:{line}"}
            if row.id is not None:
                found["id"] = row.id
            found |= zip(("text_a", "text_b"), row.texts, strict=False)
            yield found | {"label": self.kind.named(row.label)} | answer

    def _rows(self, split: str) -> Iterator[glue_rows.Row]:
        """Yields the rows of a split, which are read now."""
        yield from glue_examples.read_split(
            self.table,
            self.data.data_dir or "",
            self.records_dir,
            split,
            dev_share=self.data.dev_share,
            seed=DEV_SEED,
        )

    def predicted(self, outputs: SplitOutputs) -> np.ndarray:
        """Returns [N] class ids or scores, or [N, C] indicators of labels."""
        return self.kind.predicted(outputs)

    def majority_baseline(self):
        """Returns each metric for its best constant prediction, by dev split.

        For regression, the constant is the mean score; its correlations are
        undefined, None.

        Raises:
          ValueError: for a dev split of less than two rows.
        """
        baseline = {}
        for split, labels in self.labels.items():
            if len(labels) < metrics.MIN_EXAMPLES:
                names = self.table.metrics
                raise ValueError(
                    f"{self.sources.get(split, split)}: {split} has "
                    f"{len(labels)} labelled row; {', '.join(names)} "
                    f"need{'s' * (len(names) == 1)} at least "
                    f"{metrics.MIN_EXAMPLES}. Give a dev file of more rows, or "
                    "omit --do_eval."
                )
            baseline[split] = self.kind.baseline(labels, split)
        return baseline

    def write_predictions(self, predict, output_dir):
        """Writes a file for each test split, in the format of the GLUE site.

        index  prediction
        0      entailment
        1      not_entailment

        A table with `id_column` has its ids instead of numbers.
        """
        for split, name in self.table.predictions.items():
            if split in self.test_splits:
                path = os.path.join(output_dir, f"{name}.tsv")
                predicted = self.predicted(predict(split))
                self.write_table(predicted, path, self._ids(split))

    def _ids(self, split: str) -> list[str] | None:
        """Returns the ids of a split's rows; None for their numbers."""
        if not self.table.id_column:
            return None
        path = os.path.join(self.data.data_dir or "", self.table.files[split])
        rows = glue_rows.read_rows(self.table, path, is_labelled=False)
        return [row.id for row in rows]

    def write_table(
        self, predicted: np.ndarray, path: str, ids: list[str] | None = None
    ) -> None:
        """Writes predictions, [N] or [N, C], to a file, atomically."""
        header = "index" if ids is None else self.table.id_column
        if ids is None:
            ids = range(len(predicted))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_files.atomic_file(path) as file:
            file.write(f"{header}\tprediction\n")
            rows = zip(ids, self.kind.cells(predicted), strict=True)
            file.writelines(f"{name}\t{cell}\n" for name, cell in rows)
        logging.info("%s  rows %d", path, len(predicted))

    def decisive_settings(self):
        """Returns the settings of labels that decide the weights of a run."""
        loss = self.table.ranking_loss
        return self.options.decisive() | (
            {"ranking_loss": loss} if loss else {}
        )

    def metadata(self):
        """Returns task, labels and the number of texts, for model.json."""
        num_texts = len(self.table.text_columns)
        return self.kind.metadata() | {"num_texts": num_texts}

    def tuned_metadata(self, scores):
        """Returns the thresholds of several labels, tuned on dev."""
        del scores
        return self.kind.tuned_metadata()
