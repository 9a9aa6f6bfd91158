"""TensorFlow checkpoint files <-> their prefix; what TF1 and TF2 share.

`<prefix>.index`, data files as `<prefix>.data-00000-of-00001`, `checkpoint`,
which names the newest one, and beside them bert_config.json and vocab.txt.
"""

import contextlib
import errno
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.conversion import checkpoint as checkpoint_lib
from bert_tf.conversion import renaming, vocabularies
from bert_tf.training import model_folders
from tfrecords.io import atomic_files

NAME = "bert_model.ckpt"  # As released.
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"  # Of TF2 alone.
_STATE = "checkpoint"
WRITES = (_STATE, f"{NAME}.*", model_folders.CONFIG, model_folders.VOCABULARY)
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")  # The last 8 bytes of a table.
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
# Without what a killed process leaves, `.data-00000-of-00001.tempstate123`.
_DATA = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def _kind(index: str) -> str | None:
    """Returns "TF1" or "TF2"; None if it is no index of a checkpoint.

    TF1 lists variables by their names, TF2 the attributes that lead to them
    and a graph of objects.
    """
    with open(index, "rb") as file:
        content = file.read()
    if GRAPH_KEY.encode() in content:
        return "TF2"
    # A damaged one has data files beside it; others may be of that name.
    is_tf1 = content.endswith(_TABLE_MAGIC) or data_files(
        index.removesuffix(".index")
    )
    return "TF1" if is_tf1 else None


def prefixes(path: str, kind: str) -> list[str]:
    """Returns the prefixes of the checkpoints that `path` may mean, sorted.

    Args:
      path: a folder, a prefix, or one of the files.
      kind: "TF1" or "TF2".
    """
    if os.path.isdir(path):
        indices = glob.glob(os.path.join(glob.escape(path), "*.index"))
    else:
        indices = [f"{_SUFFIX.sub('', path)}.index"]
    return [
        index.removesuffix(".index")
        for index in sorted(filter(os.path.isfile, indices))
        if _kind(index) == kind
    ]


def data_files(prefix: str) -> list[str]:
    """Returns the data files of a checkpoint that are there."""
    paths = glob.glob(f"{glob.escape(prefix)}.data-*")
    return list(filter(_DATA.search, paths))


def find(path: str, kind: str) -> str:
    """Returns the prefix of the one checkpoint that `path` means.

    Arguments are those of `prefixes`.

    Raises:
      ValueError: if it is none, or one of several.
    """
    choices = prefixes(path, kind)
    if not choices:
        raise ValueError(
            f"{path} holds no {kind} checkpoint: expected {NAME}.index and "
            f"{NAME}.data-00000-of-00001, or the like of another prefix."
        )
    if len(choices) == 1:
        return choices[0]
    state = os.path.join(path, _STATE)
    if os.path.isfile(state):
        with open(state, encoding="utf-8") as file:
            newest = re.search(r'^model_checkpoint_path: "(.*)"', file.read())
        # Often absolute, of the machine that it was trained on.
        if newest:
            prefix = os.path.join(path, os.path.basename(newest[1]))
            if prefix in choices:
                return prefix
    raise ValueError(
        f"{path} holds several checkpoints: "
        f"{', '.join(map(os.path.basename, choices))}. Give one of them, such "
        f"as {choices[0]}."
    )


def _check_shards(prefix: str) -> None:
    """Raises ValueError that names every data file that is missing."""
    there = set(data_files(prefix))
    counts = {int(_DATA.search(path)[1]) for path in there} or {1}
    missing = []
    for count in sorted(counts):
        wanted = [f"{prefix}.data-{i:05d}-of-{count:05d}" for i in range(count)]
        # Others may be left from an earlier save in more parts.
        if there.issuperset(wanted):
            return
        missing += [path for path in wanted if path not in there]
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


def to_theirs(
    checkpoint: checkpoint_lib.Checkpoint,
    table: Sequence[renaming.Rename],
    slots: Mapping[str, str],
    whose: str,
) -> dict[str, np.ndarray]:
    """Returns weights and Adam's slots by their names, as float32.

    Args:
      checkpoint: to write.
      table: a row for each weight.
      slots: as for `renaming.with_slots`.
      whose: format, for messages.

    Raises:
      ValueError: if its config cannot hold this hidden_act.
    """
    if checkpoint.config.hidden_act == "gelu_erf":
        raise ValueError(
            f"{checkpoint.source} has hidden_act=gelu_erf, which {whose} does "
            "not know: its gelu is by tanh. To write it as that, with outputs "
            "that differ a little, give --hidden_act=gelu."
        )
    theirs = renaming.to_theirs(
        renaming.with_slots(table, slots),
        checkpoint.tensors | checkpoint.slots,
        source=checkpoint.source,
    )
    return {name: tensor.astype(np.float32) for name, tensor in theirs.items()}


def write_text(checkpoint: checkpoint_lib.Checkpoint, folder: str) -> None:
    """Writes bert_config.json and vocab.txt."""
    checkpoint.config.to_json_file(os.path.join(folder, model_folders.CONFIG))
    vocabularies.write(
        checkpoint.vocabulary, os.path.join(folder, model_folders.VOCABULARY)
    )
