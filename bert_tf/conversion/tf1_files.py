"""TF1 checkpoint files <-> tensors by variable names.

A checkpoint is `<prefix>.index` and `<prefix>.data-00000-of-00001`: the format
that TensorFlow calls V2, and writes since 1.0.
"""

import errno
import glob
import os
import re

import numpy as np
import tensorflow as tf

from tfrecords import whole_files

NAME = "bert_model.ckpt"  # As released.

_ENDING = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")  # The last 8 bytes of a table.
_TF2_KEY = b"_CHECKPOINTABLE_OBJECT_GRAPH"
# Names that only other models have.
_OTHERS = {
    "ELECTRA": re.compile("^(electra|generator|discriminator_predictions)/"),
    "ALBERT": re.compile("^bert/encoder/(transformer/|embedding_hidden_)"),
}


def _data_files(prefix: str) -> list[str]:
    return glob.glob(f"{glob.escape(prefix)}.data-*-of-*")


def _is_tf1_index(path: str) -> bool:
    """Returns whether a file lists a checkpoint's variables by their names.

    TensorFlow 2 lists the attributes that lead to them, and an object graph.
    """
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        content = file.read()
    if not content.endswith(_TABLE_MAGIC):
        # A damaged one, or something else of that name.
        return bool(_data_files(path.removesuffix(".index")))
    return _TF2_KEY not in content


def prefixes(path: str) -> list[str]:
    """Returns the prefixes of the checkpoints that `path` may mean."""
    if os.path.isdir(path):
        paths = glob.glob(os.path.join(glob.escape(path), "*.index"))
    else:
        paths = [f"{_ENDING.sub('', path)}.index"]
    return sorted(
        found.removesuffix(".index") for found in paths if _is_tf1_index(found)
    )


def find(path: str) -> str:
    """Returns the one checkpoint that `path` means.

    Raises:
      ValueError: if it is none, or one of several.
    """
    found = prefixes(path)
    if not found:
        raise ValueError(
            f"{path} holds no TF1 checkpoint: expected {NAME}.index and "
            f"{NAME}.data-00000-of-00001, or the like of another prefix."
        )
    if len(found) == 1:
        return found[0]
    state = os.path.join(path, "checkpoint")
    if os.path.isfile(state):
        with open(state, encoding="utf-8") as file:
            newest = re.search(r'^model_checkpoint_path: "(.*)"', file.read())
        # Often absolute, of the machine that it was trained on.
        if (
            newest
            and (prefix := os.path.join(path, os.path.basename(newest[1])))
            in found
        ):
            return prefix
    raise ValueError(
        f"{path} holds several checkpoints: "
        f"{', '.join(os.path.basename(prefix) for prefix in found)}. Give one "
        f"of them, such as {found[0]}."
    )


def _check_shards(prefix: str) -> None:
    """Raises ValueError that names every data file that is missing."""
    found = _data_files(prefix)
    counts = {int(path.rpartition("-")[2]) for path in found} or {1}
    missing = [
        path
        for count in counts
        for i in range(count)
        if not os.path.isfile(path := f"{prefix}.data-{i:05d}-of-{count:05d}")
    ]
    if missing:
        raise ValueError(
            f"{prefix}.index is there, but not all of its data: "
            f"{', '.join(missing)} missing. Copy every file of the checkpoint."
        )


def read(prefix: str) -> dict[str, np.ndarray]:
    """Returns every tensor of a checkpoint.

    Raises:
      ValueError: if files are missing or damaged, or of another model than
        BERT, which is named.
    """
    _check_shards(prefix)
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = sorted(reader.get_variable_to_shape_map())
        for model, pattern in _OTHERS.items():
            if any(pattern.match(name) for name in names):
                raise ValueError(
                    f"{prefix} is of {model}, whose layers are not BERT's; it "
                    "cannot be read."
                )
        return {name: reader.get_tensor(name) for name in names}
    # A file that is too short is an IndexError.
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{prefix} is damaged ({str(error).splitlines()[0]}). Copy or "
            "download it again."
        ) from error


def write(tensors: dict[str, np.ndarray], folder: str) -> None:
    """Writes `bert_model.ckpt.*` and the `checkpoint` file that names it.

    Raises:
      OSError: if the disk is full.
    """
    names = sorted(tensors)
    prefix = os.path.join(folder, NAME)
    try:
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tensors[name] for name in names],
        )
    except tf.errors.ResourceExhaustedError as error:
        # What TensorFlow calls a full disk.
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC), prefix
        ) from error
    with whole_files.whole_file(os.path.join(folder, "checkpoint")) as file:
        for key in ("model_checkpoint_path", "all_model_checkpoint_paths"):
            file.write(f'{key}: "{NAME}"\n')
