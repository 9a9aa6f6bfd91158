"""The task SST-2 -> its folder with some of its training rows."""

import dataclasses
import os
import shutil

import numpy as np

from experiments.evaluation_tasks import EvaluationTask
from tfrecords.io import atomic_files


def task(
    given: EvaluationTask, name: str, output_dir: str, num_rows: int
) -> EvaluationTask:
    """Returns the task with few labels, before its files are written.

    Args:
      given: the task with all labels.
      name: name of the task to return.
      output_dir: see `write`.
      num_rows: see `write`.

    Raises:
      ValueError: if it has fewer rows, or no dev file.
    """
    folder = given.flags["data_dir"]
    if num_rows > given.num_train:
        raise ValueError(
            f"--few_labels={num_rows}: {folder}/train.tsv has "
            f"{given.num_train} rows. Use fewer, or 0."
        )
    if not os.path.exists(os.path.join(folder, "dev.tsv")):
        raise ValueError(
            f"--few_labels={num_rows} needs {folder}/dev.tsv, which does not "
            "exist. Add it, or use 0."
        )
    return dataclasses.replace(
        given,
        name=name,
        num_train=num_rows,
        flags=given.flags | {"data_dir": output_dir},
    )


def write(folder: str, output_dir: str, num_rows: int, seed: int) -> None:
    """Writes train.tsv with rows drawn at random, and copies dev.tsv.

    Args:
      folder: folder of the task with all labels.
      output_dir: folder to write.
      num_rows: number of training rows to draw.
      seed: seed of the draw.

    """
    path = os.path.join(folder, "train.tsv")
    with open(path, encoding="utf-8") as file:
        header, *rows = file.read().rstrip("\n").split("\n")
    chosen = np.random.default_rng(seed).permutation(len(rows))[:num_rows]
    os.makedirs(output_dir, exist_ok=True)
    shutil.copy(os.path.join(folder, "dev.tsv"), output_dir)
    with atomic_files.atomic_file(
        os.path.join(output_dir, "train.tsv")
    ) as file:
        file.write("\n".join([header, *(rows[i] for i in sorted(chosen))]))
        file.write("\n")
