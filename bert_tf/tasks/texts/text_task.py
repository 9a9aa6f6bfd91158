"""Tables of texts -> TextTask: records, losses, scores and predictions.

N examples, B batch, C classes.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import encoder
from bert_tf.tasks import metrics
from bert_tf.tasks.task import (
    DEV_SEED,
    Batch,
    FineTuningTask,
    Outputs,
    Resampled,
    SplitOutputs,
    Target,
    evaluated_model,
    losses_of,
)
from bert_tf.tasks.texts import word_baseline
from bert_tf.tasks.texts.options import LabelOptions, read_weights
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_examples, glue_rows, glue_tables


class TextTask(FineTuningTask):
    """Labels of a text or a pair of texts.

    Args:
      table: the entry of the task in `glue_tables`.
      data: files and options; None if `make_records` is not used.

    Attributes:
      task: name in model.json.
      feature: name of the labels in records and batches.
      reads_train: whether `read_train` is called.
      make_split: see `glue_examples.make_records`.
      class_names: names of the classes in the order of their ids, if any.
      class_weights: [C] float32, weights of the classes in the loss; None for
        1.
      labels: split -> labels, [N] or [N, C]; of dev, and of test files that
        have them.

    Raises:
      ValueError: if an option does not fit the labels; in `build_model`, if
        there are fewer than two classes.
    """

    task: str
    feature: str
    reads_train = False
    make_split = staticmethod(glue_examples.split_of)

    def __init__(
        self,
        table: glue_tables.GlueTask,
        data: glue_tables.GlueData | None = None,
    ):
        self.table = table
        self.data = data
        self.options = data if isinstance(data, LabelOptions) else None
        self.options = self.options or LabelOptions()
        # One of `LongTextOptions`; None until a model says which.
        self.long_text = getattr(data, "long_text", None)
        self.window_length = 0  # Of `make_records`.
        self.name = table.name
        self.class_names = table.labels
        self.class_weights: np.ndarray | None = None
        self.check_options()
        self.reads_train = self.reads_train or bool(self.options.class_weights)
        words = self.options.class_weights or ("balanced",)
        # Label -> weight, of those that are given.
        self.given_weights: dict[str, float] = {}
        if words != ("balanced",):
            self.given_weights = read_weights(words, self.class_names)
        if table.weight_column:
            self.schema = self.schema | schema.EXAMPLE_WEIGHT
        given = self.options.best_metric
        self.best_metric = given or table.best_metric
        if given and given not in table.metrics:
            raise ValueError(
                f"--best_metric={given}: {table.name} has "
                f"{', '.join(table.metrics)}. Choose one of them."
            )
        self.labels: dict[str, np.ndarray] = {}
        self.sources: dict[str, str] = {}  # Split -> name of its file.
        self.words: word_baseline.WordBaseline | None = None
        self.test_splits = ()
        self.records_dir = ""

    def check_options(self) -> None:
        """Raises ValueError if an option is for other labels."""
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

    def prepare(self, config, source):
        """Takes labels and thresholds of the model, if it is not trained.

        Raises:
          ValueError: if that is a model of another task, or a setting does not
            fit windows.
        """
        model_dir, metadata = evaluated_model(config, source)
        if not model_dir:
            self.check_windows(config)
            return self
        task = self
        if glue_rows.takes_labels(self.data):
            if (found := metadata.get("task")) != self.task:
                raise ValueError(
                    f"{model_dir} is a model of task {found}; {self.name} has "
                    f"{self.task}. Add --do_train, or give the output_dir "
                    "of a run of the same task."
                )
            labels = tuple(metadata.get("labels", ())) or ("score",)
            task = type(self)(self.data.choose_task(labels), self.data)
        task.long_text = task.long_text or metadata.get("long_text")
        task.check_windows(config)
        task.use_tuned(metadata)
        return task

    @property
    def dev_share(self) -> float | list[int]:
        """The rows of train that are dev, see `glue_examples.find_splits`."""
        fold = getattr(self.data, "fold", None)
        return self.data.dev_share if fold is None else [fold, self.data.folds]

    def check_windows(self, config) -> None:
        """Raises ValueError if a setting of the run does not fit windows."""
        unfit = self.has_windows and {
            "--teacher": config.do_train and config.teacher,
            # Every text would be padded to the most windows.
            "--bucket_lengths": config.bucket_lengths != ("auto",),
            "--steps_per_loop": config.steps_per_loop > 1,
        }
        if unfit and any(unfit.values()):
            raise ValueError(
                f"long_text={self.long_text} cannot be used with "
                f"{', '.join(x for x in unfit if unfit[x])}. Omit it, or use "
                "--long_text=head_tail."
            )

    @property
    def has_windows(self) -> bool:
        """Whether a long text is read in windows."""
        return (self.long_text or "").startswith("windows")

    def call(self, model, batch, **kwargs):
        """Returns the outputs; those of the windows of a row are pooled.

        Windows are one after the other in a row, [B, W * S] of W windows. Of
        rows that have fewer, the others are not counted.
        """
        length, size = batch["input_mask"].shape[1], self.window_length
        if not self.has_windows or length <= size:
            return model(batch, **kwargs)
        shape, key = [-1, length // size], kwargs.pop("dropout_key", None)
        rows = {x: tf.reshape(batch[x], [*shape, size]) for x in self.inputs}
        windows, key, _ = encoder.flatten(rows, key)
        outputs = model(windows, dropout_key=key, **kwargs)
        is_real = tf.cast(rows["input_mask"][..., :1], tf.float32)  # [B, W, 1]

        def pool(values):
            each = tf.reshape(values, [*shape, values.shape[1:].num_elements()])
            if self.long_text == "windows_max":
                each = tf.where(is_real > 0, each, each[:, :1])
                found = tf.reduce_max(each, axis=1)
            else:
                count = tf.maximum(tf.reduce_sum(is_real, axis=1), 1.0)
                found = tf.reduce_sum(each * is_real, axis=1) / count
            return tf.reshape(found, [-1, *values.shape[1:]])

        return {name: pool(values) for name, values in outputs.items()}

    def targets(self, batch):
        """Returns the label of each real row."""
        return self.label_targets(batch, row_weights(batch))

    def label_targets(
        self, batch: Batch, weights: tf.Tensor
    ) -> dict[str, Target]:
        """Returns the targets of labels; weights of rows are [B] float32."""
        raise NotImplementedError

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        self.window_length = max_seq_length
        folders = glue_examples.make_records(
            self.table,
            self.data.data_dir or "",
            output_dir,
            tokenizer,
            max_seq_length=max_seq_length,
            dev_share=self.dev_share,
            seed=DEV_SEED,
            long_text=self.long_text or "cut",
            make_split=self.make_split,
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
        # The schema of the class, as `self.schema` may be that of lists.
        wanted = {self.feature: type(self).schema[self.feature]}
        for split, records in splits.items():
            if split.startswith("dev"):
                self.labels[split] = records.read(wanted)[self.feature]
            elif split.startswith("test"):
                labels = self.read_test_labels(split)
                self.labels |= {} if labels is None else {split: labels}
        if self.reads_train and "train" in splits:
            weight = "example_weights"
            if weight in self.schema:
                wanted = wanted | {weight: self.schema[weight]}
            found = splits["train"].read(wanted)
            self.read_train(found[self.feature], found.get(weight))
        return [split for split in self.labels if split.startswith("test")]

    def read_test_labels(self, split: str) -> np.ndarray | None:
        """Returns the labels of a user's own test file; None without labels."""
        path = self.table.files.get(split)
        labels = glue_rows.read_test_labels(self.table, path)
        return None if labels is None else self.label_array(labels)

    def label_array(self, labels: Iterable[glue_rows.Label]) -> np.ndarray:
        """Returns the labels of rows, [N] or [N, C], as records have them."""
        found = [glue_examples.label_of(self.table, x) for x in labels]
        return np.stack([features[self.feature] for features in found])

    def read_train(
        self, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Sets `class_weights`, given the training rows.

        Args:
          labels: of each row.
          weights: [N] float32, weights of the rows, if they have any.

        Raises:
          ValueError: if balanced weights are undefined for a class.
        """
        del weights
        if not self.options.class_weights:
            return
        names = self.class_names
        found = [self.given_weights.get(label, 1.0) for label in names]
        if not self.given_weights:
            found = self.balanced_weights(labels)
        self.class_weights = np.asarray(found, np.float32)
        named = zip(names, self.class_weights, strict=True)
        logging.info(
            "class weights  %s", "  ".join(f"{x} {w:.3g}" for x, w in named)
        )

    def balanced_weights(self, train_labels: np.ndarray) -> np.ndarray:
        """Returns the weights of "balanced", [C]."""
        raise NotImplementedError

    def check_counts(self, counts: np.ndarray) -> None:
        """Raises ValueError if a class has no row."""
        if not counts.all():
            missing = self.class_names[int(counts.argmin())]
            raise ValueError(
                f"--class_weights=balanced: no row of train has {missing!r}. "
                "Give the weights, or leave the label out of --labels."
            )

    def score(self, split, outputs):
        """Returns "loss" and all metrics; None for one that is undefined."""
        labels = self.labels[split]
        real = tf.ones(len(labels))
        batch = {self.feature: labels, "is_real_example": real}
        loss = self.mean_loss(outputs, batch)
        return {"loss": loss} | self.metric_values(outputs, labels, split)

    def mean_loss(self, outputs: Outputs, batch: Batch) -> float:
        """Returns the loss of all rows of a dev split."""
        targets = self.label_targets(batch, batch["is_real_example"])
        means = losses_of(targets, outputs).values()
        return sum(float(mean.value()) for mean in means)

    def metric_values(
        self, outputs: SplitOutputs, labels: np.ndarray, split: str
    ) -> dict[str, float | None]:
        """Returns the table's metrics; None for one that is undefined."""
        predicted = self.predicted(outputs)
        return metrics.compute(self.table.metrics, predicted, labels, split)

    def resampled(self, split, outputs):
        """Returns the best metric of any rows."""
        labels, predicted = self.labels[split], self.predicted(outputs)
        metric = metrics.METRICS[self.best_metric]
        return Resampled(
            "rows", len(labels), lambda i: metric(predicted[i], labels[i])
        )

    def details(self, split, outputs):
        """Returns what words alone would score."""
        if self.words is None:
            self.words = word_baseline.WordBaseline(self, self.sources)
        scores = self.words.score(split)
        return {"tf_idf_baseline": scores} if scores else {}

    def predicted(self, outputs: SplitOutputs) -> np.ndarray:
        """Returns [N] class ids or scores, or [N, C] indicators of labels."""
        raise NotImplementedError

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
            baseline[split] = self.baseline(labels, split)
        return baseline

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

    def evaluated_rows(self, split, outputs):
        """Yields the rows of a labelled split with label and prediction."""
        answers = self.answers(outputs)
        for row, answer in zip(self.rows_of(split), answers, strict=True):
            path, _, line = row.source.rpartition(":")
            found = {"source": f"{os.path.basename(path)}:{line}"}
            if row.id is not None:
                found["id"] = row.id
            found |= zip(("text_a", "text_b"), row.texts, strict=False)
            yield found | {"label": self.named(row.label)} | answer

    def rows_of(self, split: str) -> Iterator[glue_rows.Row]:
        """Returns the rows of a split, which are read now."""
        return glue_examples.read_split(
            self.table,
            self.data.data_dir or "",
            self.records_dir,
            split,
            dev_share=self.dev_share,
            seed=DEV_SEED,
            is_labelled=split == "train" or split in self.labels,
        )

    def named(self, label) -> str | float | list[str]:
        """Returns a label of a row of a table by its name, for JSON."""
        raise NotImplementedError

    def answers(self, outputs: SplitOutputs) -> Iterator[dict]:
        """Yields `predicted`, and `probabilities` if there are, for JSON."""
        raise NotImplementedError

    def write_predictions(self, predict, output_dir):
        """Writes a file for each test split, in the format of the GLUE site.

        index  prediction
        0      entailment
        1      not_entailment

        A table with `id_column` has its ids instead of numbers; a user's own
        has a column with the probability of each label, too.
        """
        for split, name in self.table.predictions.items():
            if split in self.test_splits:
                path = os.path.join(output_dir, f"{name}.tsv")
                rows = self.rows_of(split) if self.table.id_column else ()
                ids = [row.id for row in rows] or None
                self.write_table(predict(split), path, ids)

    def write_table(
        self, outputs: SplitOutputs, path: str, ids: list[str] | None = None
    ) -> None:
        """Writes predictions to a file, atomically."""
        predicted = self.predicted(outputs)
        number = "index" if ids is None else self.table.id_column
        header = [number, "prediction"]
        columns = [ids or range(len(predicted)), self.cells(predicted)]
        # The GLUE site takes no further columns.
        if self.name not in {task.name for task in glue_tables.GLUE_TASKS}:
            found = [x.get("probabilities", ()) for x in self.answers(outputs)]
            named = self.class_names if found and len(found[0]) else ()
            header += [f"probability_{name}" for name in named]
            columns += zip(*found, strict=True)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_files.atomic_file(path) as file:
            for row in (header, *zip(*columns, strict=True)):
                file.write("\t".join(map(str, row)) + "\n")
        logging.info("%s  rows %d", path, len(predicted))

    def cells(self, predicted: np.ndarray) -> Sequence[str]:
        """Returns the cells of the predictions in a table."""
        raise NotImplementedError

    def decisive_settings(self):
        """Returns the settings that decide the weights of a run."""
        return self.options.decisive() | self.read_of_long_texts()

    def read_of_long_texts(self) -> dict[str, str]:
        """Returns `long_text`, unless texts are cut, as in earlier runs."""
        is_cut = self.long_text in (None, "cut")
        return {} if is_cut else {"long_text": self.long_text}

    def metadata(self, scores=None):
        """Returns task, labels and the number of texts, for model.json."""
        return {
            "task": self.task,
            "labels": list(self.class_names),
            **self.label_metadata(),
            **self.read_of_long_texts(),
            "num_texts": len(self.table.text_columns),
        }

    def label_metadata(self) -> Mapping:
        """Returns further entries of model.json about the labels."""
        return {}


def row_weights(batch: Batch) -> tf.Tensor:  # [B] float32
    """Returns the weight of each row in the loss, 0 if it fills the batch."""
    weights = batch["is_real_example"]
    if "example_weights" in batch:
        weights = weights * batch["example_weights"]
    return weights
