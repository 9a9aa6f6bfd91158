"""Task names -> files, columns, labels and metrics: one table for GLUE.

`GLUE_TASKS` defines all differences between the tasks; `own_task` returns such
an entry for a user's own files.
"""

import dataclasses
import functools
import re
import unicodedata

from tfrecords.options import option, quoted, to_number
from tfrecords.tables import parts, table_files
from tfrecords.tasks import data_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueTask:
    """Classification or regression of a text or a pair of texts."""

    name: str  # As written by GLUE.
    files: dict[str, str]  # File name by split: train, dev... or test....
    text_columns: tuple[str, ...]  # Headers of one or two columns.
    label_column: str = "label"  # Its header.
    # Names of the classes in the order of ids; empty if the label is a score.
    labels: tuple[str, ...] = ("0", "1")
    multi_label: bool = False  # Whether a row has any number of labels.
    label_separator: str = ","  # Between the labels of a row, if multi_label.
    # A column of 0 and 1 for each label, instead of `label_column`.
    label_columns: tuple[str, ...] = ()
    id_column: str | None = None  # Of rows, for predictions.
    weight_column: str | None = None  # Weights of training rows in the loss.
    group_column: str | None = None  # No group is in both train and dev.
    input_format: str = "auto"  # One of table_files.FORMATS.
    unlabelled_rows: str | None = None  # Of own tables: error or skip.
    score_range: tuple[float, float] | None = None  # None if unknown.
    metrics: tuple[str, ...] = ("accuracy",)  # Of bert_tf/tasks/metrics.py.
    best_metric: str = "accuracy"  # Selects the best checkpoint.
    # Test split -> name of its predictions on the GLUE site.
    predictions: dict[str, str] = dataclasses.field(default_factory=dict)
    # Columns of labelled files without a header line.
    header: tuple[str, ...] | None = None
    # Whether labelled rows with too few or too many columns, which exist in
    # official files, are skipped and counted.
    skips_bad_rows: bool = False

    @functools.cached_property
    def label_ids(self) -> dict[str, int]:
        """Id of each label, as `spelled`."""
        return {spelled(label): i for i, label in enumerate(self.labels)}

    @property
    def is_regression(self) -> bool:
        """Whether the label is a score instead of a class."""
        return not self.labels

    @property
    def group_name(self) -> str | None:
        """The column by whose values rows are grouped; None for no groups."""
        return self.group_column

    def columns(self, is_labelled: bool, is_train: bool) -> dict[str, str]:
        """Returns the columns to read, by what they are.

          {"text_0": "review", "label": "stars", "id": "number"}

        Args:
          is_labelled: whether to read labels and groups.
          is_train: whether to read weights.
        """
        found = {f"text_{i}": x for i, x in enumerate(self.text_columns)}
        if is_labelled and self.label_columns:
            found |= {f"label_{i}": x for i, x in enumerate(self.label_columns)}
        elif is_labelled:
            found["label"] = self.label_column
        others = {
            "weight": is_train and self.weight_column,
            "group": is_labelled and self.group_column,
            "id": self.id_column,
        }
        return found | {key: name for key, name in others.items() if name}

    def schema_name(self, split: str) -> str:
        """Returns the key in `schema.SCHEMAS` of a split's records."""
        if split.startswith("test"):
            return "encoder_inputs"
        weighted = "weighted_" * bool(split == "train" and self.weight_column)
        if self.multi_label:
            return weighted + "multi_label"
        return weighted + (
            "regression" if self.is_regression else "classification"
        )

    def sizes(self, split: str) -> dict[str, int]:
        """Returns sizes of a split's records, beside `max_seq_length`."""
        if self.multi_label and not split.startswith("test"):
            return {"num_labels": len(self.labels)}
        return {}

    def manifest_flags(self, split: str) -> dict:
        """Returns the manifest entries of optional columns of a split."""
        given = {
            "label_columns": list(self.label_columns),
            "label_separator": self.multi_label and self.label_separator,
            "weight_column": split == "train" and self.weight_column,
            "skips_unlabelled": self.unlabelled_rows == "skip",
        }
        return {name: value for name, value in given.items() if value}

    def parse_score(self, cell, where: str) -> float:
        """Returns the score of a row.

        Raises:
          ValueError: if the cell has none, or one out of `score_range`.
        """
        low, high = self.score_range or (-MAX_SCORE, MAX_SCORE)
        score = to_number(cell)
        if not low <= score <= high:
            raise ValueError(
                f"{where}: label {quoted(cell)} is not a score of {self.name}, "
                f"a number from {low:g} to {high:g}. Correct the line."
            )
        return score


_WHOLE_NUMBER = re.compile(r"(-?\d+)\.0*")


def spelled(label: str) -> str:
    """Returns the one spelling of a label, whichever file has it.

    Without blanks at its ends; 1 for 1.0, which pandas writes if a row has no
    label, and true for True, which Python writes.
    """
    label = label.strip()
    if found := _WHOLE_NUMBER.fullmatch(label):
        return found[1]
    return label.lower() if label.lower() in ("true", "false") else label


def check_label(label: str, where: str) -> None:
    """Raises ValueError for a label that would break a line of predictions."""
    if any(unicodedata.category(x) in ("Cc", "Zl", "Zp") for x in label):
        raise ValueError(
            f"{where}: the label {quoted(label)} has a tab, a line break or "
            "another control character in it. Correct it."
        )


MAX_SCORE = 3e38  # About the range of float32.


# Of a task with several labels.
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "average_precision")
_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_SENTENCES = ("sentence1", "sentence2")
# run_classifier.py: MnliProcessor.get_labels.
_MNLI_LABELS = ("contradiction", "entailment", "neutral")
_RTE_LABELS = ("entailment", "not_entailment")

# Tasks and metrics: Wang et al. 2018, table 1. `best_metric` is the one that
# Devlin et al. 2018 report in their table 1.
GLUE_TASKS = (
    GlueTask(
        name="CoLA",
        files=_FILES,
        text_columns=("sentence",),
        metrics=("matthews_correlation",),
        best_metric="matthews_correlation",
        predictions={"test": "CoLA"},
        header=("source", "label", "original_label", "sentence"),
    ),
    GlueTask(
        name="SST-2",
        files=_FILES,
        text_columns=("sentence",),
        predictions={"test": "SST-2"},
    ),
    GlueTask(
        name="MRPC",
        files=_FILES,
        text_columns=("#1 String", "#2 String"),
        label_column="Quality",
        metrics=("accuracy", "f1"),
        best_metric="f1",
        predictions={"test": "MRPC"},
    ),
    GlueTask(
        name="STS-B",
        files=_FILES,
        text_columns=_SENTENCES,
        label_column="score",
        labels=(),
        score_range=(0.0, 5.0),
        metrics=("pearson", "spearman"),
        best_metric="spearman",
        predictions={"test": "STS-B"},
    ),
    GlueTask(
        name="QQP",
        files=_FILES,
        text_columns=("question1", "question2"),
        label_column="is_duplicate",
        metrics=("accuracy", "f1"),
        best_metric="f1",
        predictions={"test": "QQP"},
        skips_bad_rows=True,  # nyu-mll/GLUE-baselines, issue 5.
    ),
    GlueTask(
        name="MNLI",
        files={
            "train": "train.tsv",
            "dev_matched": "dev_matched.tsv",
            "dev_mismatched": "dev_mismatched.tsv",
            "test_matched": "test_matched.tsv",
            "test_mismatched": "test_mismatched.tsv",
        },
        text_columns=_SENTENCES,
        label_column="gold_label",
        labels=_MNLI_LABELS,
        predictions={"test_matched": "MNLI-m", "test_mismatched": "MNLI-mm"},
    ),
    GlueTask(
        name="QNLI",
        files=_FILES,
        text_columns=("question", "sentence"),
        labels=_RTE_LABELS,
        predictions={"test": "QNLI"},
    ),
    GlueTask(
        name="RTE",
        files=_FILES,
        text_columns=_SENTENCES,
        labels=_RTE_LABELS,
        predictions={"test": "RTE"},
    ),
    GlueTask(
        name="WNLI",
        files=_FILES,
        text_columns=_SENTENCES,
        predictions={"test": "WNLI"},
    ),
    GlueTask(
        name="AX",  # Predicted by a model trained on MNLI.
        files={"test": "diagnostic.tsv"},
        text_columns=_SENTENCES,
        labels=_MNLI_LABELS,
        metrics=("matthews_correlation",),
        best_metric="matthews_correlation",
        predictions={"test": "AX"},
    ),
)


def find(name: str) -> GlueTask:
    """Returns the task of a name, ignoring case and hyphens.

    Raises:
      ValueError: if the name is unknown; the message lists all names.
    """
    plain = name.lower().replace("-", "")
    for task in GLUE_TASKS:
        if task.name.lower().replace("-", "") == plain:
            return task
    raise ValueError(
        f"No task named {name!r}; the tasks are "
        f"{', '.join(task.name for task in GLUE_TASKS)}. For your own files "
        "there is run_glue --train_file."
    )


def own_task(
    name: str,
    *,
    files: dict[str, str],
    text_columns: tuple[str, ...],
    label_column: str = "label",
    labels: tuple[str, ...],
    multi_label: bool = False,
    **columns,
) -> GlueTask:
    """Returns a task on a user's own tables.

    Args:
      name: name of the task, for folders and logs.
      files: paths by split: train, dev, test or some of them.
      text_columns: one or two text columns: names in the header, or numbers
        from 0 in a table without one.
      label_column: the label column, likewise.
      labels: names of the classes in the order of their ids, or ("score",).
      multi_label: whether a row has any number of labels.
      **columns: further fields of `GlueTask`: other columns, and the format.

    Raises:
      ValueError: if the name is no name of a file, there are no text columns
        or more than two, only one label, or equal labels.
    """
    # Predictions are written to `<name>.tsv`.
    is_file_name = name.isprintable() and "/" not in name and len(name) <= 100
    if not is_file_name or name.startswith("."):
        raise ValueError(
            f"--task_name={name!r} should be the name of a file, of at most "
            "100 characters, without / and not beginning with a dot: "
            "predictions are written to it."
        )
    if len(text_columns) not in (1, 2):
        raise ValueError(
            f"text_column={','.join(text_columns)!r} should name one or two "
            "columns."
        )
    separator = columns.get("label_separator", GlueTask.label_separator)
    is_read = multi_label and not columns.get("label_columns")
    for label in labels:
        if is_read and separator in label:
            raise ValueError(
                f"The label {label!r} has {separator!r} in it, which separates "
                "labels. Give another --label_separator, or --label_columns."
            )
    labels = tuple(map(str.strip, labels))
    for label in labels:
        check_label(label, "--labels")
    is_regression = labels == ("score",) and not multi_label
    if not is_regression and (
        len(labels) < 2 or len(set(map(spelled, labels))) < len(labels)
    ):
        raise ValueError(
            f"labels={','.join(labels)!r} should be two or more different "
            'labels, or "score" for a number to predict.'
        )
    if is_regression:
        metrics = ("pearson", "spearman")
    elif multi_label:
        metrics = MULTI_LABEL_METRICS
    elif len(labels) == 2:
        metrics = ("accuracy", "f1", "matthews_correlation", "macro_f1")
    else:
        metrics = ("accuracy", "matthews_correlation", "macro_f1")
        metrics += ("weighted_f1",)
    columns.setdefault("unlabelled_rows", "error")
    best_metric = "micro_f1" if multi_label else "accuracy"
    if is_regression:
        best_metric = "spearman"
    return GlueTask(
        name=name,
        files=files,
        text_columns=text_columns,
        label_column=label_column,
        labels=() if is_regression else labels,
        metrics=metrics,
        best_metric=best_metric,
        predictions={"test": name},
        multi_label=multi_label,
        **columns,
    )


# Of `GlueData` and `GlueTask`.
_COLUMNS = ("id_column", "weight_column", "group_column", "input_format")
_COLUMNS += ("unlabelled_rows",)
_OF_LABELS = ("multi_label", "label_separator", "label_columns")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueData(data_files.TaskFiles, table_files.TableOptions):
    """Files, columns and labels to read."""

    task_name: str | None = option(
        None,
        f"A task of GLUE: {', '.join(task.name for task in GLUE_TASKS)}. With "
        "your own files (--train_file and so on): any name.",
    )
    text_column: tuple[str, ...] | None = option(
        None,
        "Text columns in your own files, one or two: names in the header, or "
        "numbers from 0 in files without a header.",
    )
    label_column: str = option(
        "label", "Label column in your own files, likewise."
    )
    labels: tuple[str, ...] | None = option(
        None,
        "Labels in your own files, in the order of their ids; score if the "
        "label is a number to predict (regression). Default: the values of the "
        "label column of --train_file, sorted, unless they are numbers; or the "
        "names that a Parquet file has for them. A file may also have the ids, "
        "from 0. A model that is evaluated without a train file has its own.",
    )
    multi_label: bool = option(
        False,
        "Whether a row may have several labels, or none: in --label_column, "
        "with --label_separator between them, or in --label_columns.",
    )
    label_separator: str = option(
        ",", "Separator of the labels of a row.", needs="multi_label"
    )
    label_columns: tuple[str, ...] | None = option(
        None,
        "Columns of 0 and 1, one for each label; their names are the labels.",
        needs="multi_label",
        instead_of="labels",
    )
    unlabelled_rows: str = option(
        "error",
        "What to do with rows of train and dev without a gold label: null, "
        "empty, - as in SNLI, or -1 as in files of `datasets`. skip: leave "
        "them out, and count them.",
        choices=("error", "skip"),
    )
    id_column: str | None = option(
        None, "Column of ids in your own files, repeated in predictions."
    )
    weight_column: str | None = option(
        None,
        "Column of --train_file with the weight of each row in the loss, at "
        "least 0.",
    )
    group_column: str | None = option(
        None,
        "Column with a group for each row, such as its author: no group has "
        "rows in both train and dev. In run_ranking, the rows of a group are "
        "the passages of one query. Default there: the first text column.",
    )
    dev_share: float = option(
        0.1,
        "Fraction of the training rows to hold out as dev if there is no dev "
        "file, of each class, and of whole groups or queries; 0 for none.",
        at_least=0.0,
        at_most=0.9,
    )

    def own_files(self) -> dict[str, str]:
        """Returns absolute paths by split; empty for a task of GLUE.

        Raises:
          ValueError: if a file is missing.
        """
        given = {split: getattr(self, f"{split}_file") for split in _FILES}
        if not any(given.values()):
            return {}
        paths = data_files.find_files(
            self.data_dir, given, {}, "a table: TSV, CSV, JSON lines or Parquet"
        )
        # Absolute, so that they are not joined with --data_dir again.
        return {split: parts.absolute(path) for split, path in paths.items()}

    def choose_task(self, labels: tuple[str, ...] | None = None) -> GlueTask:
        """Returns the task that the options select.

        Args:
          labels: labels of a user's own files, if `self.labels` is None.

        Raises:
          ValueError: if they select none, or lack an option that a user's own
            files need.
        """
        own_files = self.own_files()
        if not own_files:
            if not self.task_name or not self.data_dir:
                raise ValueError(
                    "No data: give --task_name=CoLA and --data_dir=FOLDER for "
                    "a task of GLUE, or --train_file=TABLE for your own task."
                )
            own = ("text_column", "label_column", "labels")
            for name in (*own, *_OF_LABELS, *_COLUMNS):
                if getattr(self, name) != getattr(GlueData, name):
                    raise ValueError(
                        f"--{name} is for files of your own, given with "
                        f"--train_file. Omit it: {self.task_name} of GLUE has "
                        "its own columns and labels."
                    )
            return find(self.task_name)
        labels = self.labels or self.label_columns or labels
        if not self.text_column or not labels:
            name = "labels" if self.text_column else "text_column"
            raise ValueError(f"--{next(iter(own_files))}_file needs --{name}.")
        return own_task(
            self.task_name or "own",
            files=own_files,
            text_columns=self.text_column,
            label_column=self.label_column,
            labels=labels,
            multi_label=self.multi_label,
            label_separator=self.label_separator,
            label_columns=self.label_columns or (),
            **{name: getattr(self, name) for name in _COLUMNS},
        )
