"""A folder of SST-2 -> one with some of its training rows."""

import os
import shutil

import numpy as np

from tfrecords.io import atomic_files


def write(folder: str, output_dir: str, num_rows: int, seed: int) -> None:
    """Writes train.tsv with rows drawn at random, and copies dev.tsv.

    Args:
      folder: folder of the task.
      output_dir: folder to write.
      num_rows: number of training rows to draw.
      seed: seed of the draw.

    Raises:
      ValueError: if there are fewer rows.
    """
    path = os.path.join(folder, "train.tsv")
    with open(path, encoding="utf-8") as file:
        header, *rows = file.read().splitlines()
    if num_rows > len(rows):
        raise ValueError(
            f"--few_labels={num_rows}: {path} has {len(rows)} rows. Use fewer, "
            "or 0."
        )
    chosen = np.random.default_rng(seed).permutation(len(rows))[:num_rows]
    os.makedirs(output_dir, exist_ok=True)
    shutil.copy(os.path.join(folder, "dev.tsv"), output_dir)
    with atomic_files.atomic_file(
        os.path.join(output_dir, "train.tsv")
    ) as file:
        file.write("\n".join([header, *(rows[i] for i in sorted(chosen))]))
        file.write("\n")
