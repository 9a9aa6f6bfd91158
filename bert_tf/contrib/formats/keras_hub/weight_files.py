"""Weight files of a KerasHub preset <-> tensors by file and path.

A `.weights.h5` file of Keras 3 has a group for each layer, with a subgroup
`vars` of numbered datasets, one for each weight.
"""

import io
import os
from collections.abc import Mapping

import h5py
import numpy as np

from bert_tf.checkpoint import tensor_files
from bert_tf.checkpoint.formats import h5_files

MODEL = "model.weights.h5"
TASK = "task.weights.h5"
WRITES = (MODEL, TASK)
SHARDED = "model.weights.json"

# Names of the group of all layers, now and in Keras 2.13.
_LAYERS = ("layers", "_layer_checkpoint_dependencies")


def _spelling(name: str) -> str:
    """Returns a path in a form that is the same for every Keras version."""
    file, *parts = name.split("/")
    parts = ["layers" if part in _LAYERS else part for part in parts]
    # Some attributes are private in one version and public in another.
    return "/".join([file, *(part.lstrip("_") for part in parts)])


def path_of(folder: str, file: str) -> str:
    """Returns the path of a weight file.

    Raises:
      ValueError: if it is missing.
    """
    path = os.path.join(folder, file)
    if not os.path.isfile(path):
        sharded = os.path.join(folder, SHARDED)
        if os.path.isfile(sharded):
            raise ValueError(
                f"{sharded}: sharded weights cannot be read. Save the preset "
                "with max_shard_size=None."
            )
        raise ValueError(f"{path} is missing. Copy every file of the preset.")
    return path


def read(
    folder: str, file: str, names: set[str]
) -> dict[str, tensor_files.StoredTensor]:
    """Returns the tensors of a weight file, MODEL or TASK, by `<file>/<path>`.

    A path that another Keras version spells differently is returned in the
    spelling of `names`.

    Raises:
      ValueError: if the file is missing or damaged.
    """
    path = path_of(folder, file)
    spellings = {_spelling(name): name for name in names}
    tensors = {}
    for name, tensor in h5_files.read(path).items():
        name = f"{file}/{name}"
        tensors[spellings.get(_spelling(name), name)] = tensor
    return tensors


def write(tensors: Mapping[str, np.ndarray], folder: str) -> None:
    """Writes the weight files of a preset.

    `tensors` is keyed as in `read`; keys of other files are skipped.

    Raises:
      OSError: if the disk is full.
    """
    for file in WRITES:
        paths = [name for name in tensors if name.startswith(f"{file}/")]
        if paths:
            # In memory first: if the disk is full, HDF5 cannot close the file
            # and the process ends in a segmentation fault.
            memory = io.BytesIO()
            with h5py.File(memory, "w") as content:
                for path in paths:
                    content[path.removeprefix(f"{file}/")] = tensors[path]
            with open(os.path.join(folder, file), "wb") as output:
                output.write(memory.getbuffer())
