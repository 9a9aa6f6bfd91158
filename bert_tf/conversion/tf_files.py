"""Folder or path -> the prefix of the one TensorFlow checkpoint it means.

What TF1 and TF2 have in common: `<prefix>.index`, data files as
`<prefix>.data-00000-of-00001`, and `checkpoint`, which names the newest one.
"""

import contextlib
import errno
import glob
import os
import re
from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfrecords.io import atomic_files

NAME = "bert_model.ckpt"  # As released.

_STATE = "checkpoint"
_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Without what a killed process leaves, `.data-00000-of-00001.tempstate123`.
_DATA = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def indices(path: str) -> list[str]:
    """Returns the index files that `path` may mean, sorted.

    Args:
      path: a folder, a prefix, or one of the files.
    """
    if os.path.isdir(path):
        paths = glob.glob(os.path.join(glob.escape(path), "*.index"))
    else:
        paths = [f"{_ENDING.sub('', path)}.index"]
    return sorted(filter(os.path.isfile, paths))


def data_files(prefix: str) -> list[str]:
    """Returns the data files of a checkpoint that are there."""
    return list(
        filter(_DATA.search, glob.glob(f"{glob.escape(prefix)}.data-*"))
    )


def choose(path: str, found: Sequence[str], kind: str) -> str:
    """Returns the one checkpoint that `path` means.

    Args:
      path: as for `indices`.
      found: prefixes of the checkpoints of this kind there.
      kind: "TF1" or "TF2", for messages.

    Raises:
      ValueError: if it is none, or one of several.
    """
    if not found:
        raise ValueError(
            f"{path} holds no {kind} checkpoint: expected {NAME}.index and "
            f"{NAME}.data-00000-of-00001, or the like of another prefix."
        )
    if len(found) == 1:
        return found[0]
    state = os.path.join(path, _STATE)
    if os.path.isfile(state):
        with open(state, encoding="utf-8") as file:
            newest = re.search(r'^model_checkpoint_path: "(.*)"', file.read())
        # Often absolute, of the machine that it was trained on.
        if newest:
            prefix = os.path.join(path, os.path.basename(newest[1]))
            if prefix in found:
                return prefix
    raise ValueError(
        f"{path} holds several checkpoints: "
        f"{', '.join(os.path.basename(prefix) for prefix in found)}. Give one "
        f"of them, such as {found[0]}."
    )


def _check_shards(prefix: str) -> None:
    """Raises ValueError that names every data file that is missing."""
    there = data_files(prefix)
    counts = {int(_DATA.search(path)[1]) for path in there} or {1}
    missing = []
    for count in sorted(counts):
        wanted = [f"{prefix}.data-{i:05d}-of-{count:05d}" for i in range(count)]
        lacking = [path for path in wanted if path not in there]
        if not lacking:
            # Others may be left from an earlier save in more parts.
            return
        missing += lacking
    raise ValueError(
        f"{prefix}.index is there, but not all of its data: "
        f"{', '.join(missing)} missing. Copy every file of the checkpoint."
    )


@contextlib.contextmanager
def reading(prefix: str) -> Iterator:
    """Yields `tf.train.load_checkpoint`'s reader of a checkpoint.

    Raises:
      ValueError: if files are missing, or are damaged as is seen in reading.
    """
    _check_shards(prefix)
    try:
        yield tf.train.load_checkpoint(prefix)
    # A file that is too short is an IndexError.
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{prefix} is damaged ({str(error).splitlines()[0]}). Copy or "
            "download it again."
        ) from error


@contextlib.contextmanager
def writing(folder: str) -> Iterator[str]:
    """Yields the prefix to write, `NAME`; then writes the file that names it.

    Raises:
      OSError: if the disk is full.
    """
    prefix = os.path.join(folder, NAME)
    try:
        yield prefix
    except tf.errors.ResourceExhaustedError as error:
        # What TensorFlow calls a full disk.
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC), prefix
        ) from error
    with atomic_files.atomic_file(os.path.join(folder, _STATE)) as file:
        for key in ("model_checkpoint_path", "all_model_checkpoint_paths"):
            file.write(f'{key}: "{NAME}"\n')
