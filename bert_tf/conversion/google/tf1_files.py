"""TF1 checkpoint files <-> tensors by variable names.

A checkpoint is `<prefix>.index` and `<prefix>.data-00000-of-00001`: the format
that TensorFlow calls V2, and writes since 1.0.
"""

import re

import numpy as np
import tensorflow as tf

from bert_tf.conversion import tf_files

# Names that only other models have.
_OTHERS = {
    "ELECTRA": re.compile("^(electra|generator|discriminator_predictions)/"),
    "ALBERT": re.compile("^bert/encoder/(transformer/|embedding_hidden_)"),
}


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
