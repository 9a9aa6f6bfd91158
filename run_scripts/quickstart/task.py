"""A labelled task -> texts to predict, and the score of the predictions."""

import json
import os

import numpy as np

from run_scripts.quickstart import corpus
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_rows, glue_tables

# Sentences with masks to fill, shown in the page.
MASKED_SENTENCES = (
    "Returns the [MASK] of the array.",
    "If the file does not exist, an error is [MASK].",
    "The function returns a [MASK] of strings.",
    "Computes the mean and [MASK] deviation of the input.",
)


def find(folder: str, glue_dir: str | None, task_name: str | None):
    """Returns the task to fine-tune on, with paths for its files.

    Args:
      folder: folder of the quickstart, with the rows of its corpus stage.
      glue_dir: folder of a GLUE task's files; None for the quickstart's task.
      task_name: name of that GLUE task.

    Raises:
      ValueError: if only one of the last two is given, or a file is missing.
    """
    if bool(glue_dir) != bool(task_name):
        raise ValueError(
            f"--glue_dir={glue_dir} and --task_name={task_name}: give both for "
            "a GLUE task, or neither."
        )
    if glue_dir:
        task = glue_tables.find(task_name)
        for split in ("train", "dev"):
            check_split(task, split, glue_dir)
        return task
    return glue_tables.own_task(
        "library",
        files={
            split: os.path.join(folder, f"{split}.tsv")
            for split in ("train", "dev")
        },
        text_columns=("text",),
        label_column="label",
        labels=corpus.LABELS,
    )


def check_split(task: glue_tables.GlueTask, split: str, glue_dir: str) -> None:
    """Raises ValueError unless the task has the split and its file exists."""
    names = [f for name, f in task.files.items() if name.startswith(split)]
    if not names:
        raise ValueError(
            f"{task.name} has no {split} set; choose another --task_name."
        )
    path = os.path.join(glue_dir, names[0])
    if not os.path.isfile(path):
        raise ValueError(
            f"No file {path}; --glue_dir should hold the official files of "
            f"{task.name}."
        )


def dev_split(task: glue_tables.GlueTask) -> str:
    """Returns the dev set that selects the best model: MNLI has two."""
    return next(split for split in task.files if split.startswith("dev"))


def _dev_rows(task: glue_tables.GlueTask, glue_dir: str | None):
    path = os.path.join(glue_dir or "", task.files[dev_split(task)])
    return glue_rows.read_rows(task, path, is_labelled=True)


def write_texts(
    task: glue_tables.GlueTask, glue_dir: str | None, path: str
) -> None:
    """Writes the dev texts without labels: a TSV with text_a and text_b.

    The dev file itself may lack a header, or hold rows that must be skipped.
    """
    names = ("text_a", "text_b")[: len(task.text_columns)]
    with atomic_files.atomic_file(path) as file:
        file.write("\t".join(names) + "\n")
        for row in _dev_rows(task, glue_dir):
            file.write("\t".join(row.texts) + "\n")


def write_masked(path: str) -> None:
    """Writes the sentences with masks to fill, one per line."""
    with atomic_files.atomic_file(path) as file:
        file.writelines(f"{sentence}\n" for sentence in MASKED_SENTENCES)


def served_score(
    task: glue_tables.GlueTask, glue_dir: str | None, predictions_file: str
) -> float | None:
    """Returns the score of the predictions for the texts of `write_texts`."""
    from bert_tf.tasks import metrics

    labels = [row.label for row in _dev_rows(task, glue_dir)]
    with open(predictions_file, encoding="utf-8") as file:
        answers = [json.loads(line) for line in file]
    if task.is_regression:
        predicted = [answer["score"] for answer in answers]
    else:
        predicted = [task.labels.index(answer["label"]) for answer in answers]
    name = task.best_metric
    return metrics.compute([name], np.array(predicted), np.array(labels))[name]
