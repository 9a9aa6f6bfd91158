"""TF1 checkpoint files <-> tensors by variable names.

A checkpoint is `<prefix>.index` and `<prefix>.data-00000-of-00001`: the format
that TensorFlow calls V2, and writes since 1.0.
"""

import re

import numpy as np
import tensorflow as tf

from bert_tf.conversion import tf_files

_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")  # The last 8 bytes of a table.
_TF2_KEY = b"_CHECKPOINTABLE_OBJECT_GRAPH"
# Names that only other models have.
_OTHERS = {
    "ELECTRA": re.compile("^(electra|generator|discriminator_predictions)/"),
    "ALBERT": re.compile("^bert/encoder/(transformer/|embedding_hidden_)"),
}


def _is_tf1_index(path: str) -> bool:
    """Returns whether a file lists a checkpoint's variables by their names.

    TensorFlow 2 lists the attributes that lead to them, and an object graph.
    """
    with open(path, "rb") as file:
        content = file.read()
    if not content.endswith(_TABLE_MAGIC):
        # A damaged one, or something else of that name.
        return bool(tf_files.data_files(path.removesuffix(".index")))
    return _TF2_KEY not in content


def prefixes(path: str) -> list[str]:
    """Returns the prefixes of the TF1 checkpoints that `path` may mean.

    Args:
      path: a folder, a prefix, or one of the files.
    """
    return [
        index.removesuffix(".index")
        for index in tf_files.indices(path)
        if _is_tf1_index(index)
    ]


def find(path: str) -> str:
    """Returns the one checkpoint that `path` means.

    Raises:
      ValueError: if it is none, or one of several.
    """
    return tf_files.choose(path, prefixes(path), "TF1")


def read(prefix: str) -> dict[str, np.ndarray]:
    """Returns every tensor of a checkpoint.

    Raises:
      ValueError: if files are missing or damaged, or of another model than
        BERT, which is named.
    """
    with tf_files.reading(prefix) as reader:
        names = sorted(reader.get_variable_to_shape_map())
        for model, pattern in _OTHERS.items():
            if any(pattern.match(name) for name in names):
                raise ValueError(
                    f"{prefix} is of {model}, whose layers are not BERT's; it "
                    "cannot be read."
                )
        return {name: reader.get_tensor(name) for name in names}


def write(tensors: dict[str, np.ndarray], folder: str) -> None:
    """Writes `bert_model.ckpt.*` and the `checkpoint` file that names it.

    Raises:
      OSError: if the disk is full.
    """
    names = sorted(tensors)
    with tf_files.writing(folder) as prefix:
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tensors[name] for name in names],
        )
