"""Weight files of a Hugging Face folder <-> tensors by their names.

Read are `model.safetensors`, `pytorch_model.bin` and shards of either, the
first of these that is there, as transformers does. A .bin is a pickle: only
torch's restricted reader opens it, which makes tensors and runs nothing.
"""

import os
import re

import ml_dtypes  # Teaches NumPy bfloat16, which safetensors asks it for.
import numpy as np
from safetensors import numpy as safetensors_numpy

from bert_tf.conversion.hugging_face import pickles
from bert_tf.training import model_folders
from tfrecords.io import atomic_files

SAFETENSORS = "model.safetensors"
TORCH = "pytorch_model.bin"
_SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")
# Weights of others, which are not read.
_NOT_READ = ("tf_model.h5", "flax_model.msgpack", "model.onnx", "model.gguf")
_LFS_POINTER = b"version https://git-lfs"


def _find(folder: str) -> str:
    """Returns the path of the weights, or of the index of their shards."""
    for name in (SAFETENSORS, TORCH):
        for file in (name, f"{name}.index.json"):
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                return path
    names = sorted(os.listdir(folder))
    for name in names:
        if shard := _SHARD.fullmatch(name):
            index = SAFETENSORS if shard[2] == "safetensors" else TORCH
            raise ValueError(
                f"{folder} has the shard {name} but no {index}.index.json, "
                "which says what other shards there are. Copy it too."
            )
    others = [name for name in _NOT_READ if name in names]
    raise ValueError(
        f"{folder} has no {SAFETENSORS} and no {TORCH}, nor shards of one; "
        + (
            f"{', '.join(others)} is not read: {pickles.AS_SAFETENSORS}."
            if others
            else f"there are {', '.join(names) or 'no files'}. Copy the "
            "weights too."
        )
    )


def _shards(index: str) -> dict[str, list[str]]:
    """Returns shard -> names of its tensors, if all shards are there."""
    content = atomic_files.read_json(index)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places:
        raise ValueError(
            f"{index} has no weight_map, tensor -> shard; copy it again."
        )
    shards: dict[str, list[str]] = {}
    for tensor, shard in places.items():
        if not isinstance(shard, str) or os.path.basename(shard) != shard:
            raise ValueError(
                f"{index}: {tensor} is in {shard!r}, which should be the name "
                "of a file beside it."
            )
        path = os.path.join(os.path.dirname(index), shard)
        shards.setdefault(path, []).append(tensor)
    missing = [path for path in sorted(shards) if not os.path.isfile(path)]
    if missing:
        raise ValueError(
            f"{index} names {len(shards)} shards; {len(missing)} of them are "
            f"not there: {', '.join(map(os.path.basename, missing))}. Copy "
            "these too."
        )
    return shards


def _read_file(path: str) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(
                f"{path} is a Git LFS pointer, not the weights. Fetch them "
                "with `git lfs pull`."
            )
    if path.endswith(".bin"):
        return pickles.read(path)
    try:
        return model_folders.read_tensors(path)
    except (AttributeError, KeyError, TypeError) as error:
        # By the type, any of the three.
        raise ValueError(
            f"{path} has tensors of a type that NumPy lacks ({error}), as "
            "quantised models have. Save the model in float32."
        ) from error


def read(folder: str) -> dict[str, np.ndarray]:
    """Reads all tensors of a folder, in the types that they are stored in.

    Raises:
      ValueError: that names the file, if weights or shards are missing,
        damaged, or pickled with anything but tensors.
    """
    path = _find(folder)
    if not path.endswith(".index.json"):
        return _read_file(path)
    tensors: dict[str, np.ndarray] = {}
    for shard, names in _shards(path).items():
        of_shard = _read_file(shard)
        lost = sorted(set(names) - set(of_shard))
        if lost:
            raise ValueError(
                f"{shard} lacks what {os.path.basename(path)} says is in it: "
                f"{', '.join(lost)}. Copy both again."
            )
        tensors |= of_shard
    return tensors


def as_float32(
    tensors: dict[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns floats of any width as float32, and a note per change of type.

    float16 and bfloat16 lose nothing. Integers stay as they are.
    """
    converted, counts = {}, {}
    for name, tensor in tensors.items():
        kind = tensor.dtype
        is_float = kind.kind == "f" or kind == ml_dtypes.bfloat16
        if is_float and kind != np.float32:
            counts[kind.name] = counts.get(kind.name, 0) + 1
            tensor = tensor.astype(np.float32)
        converted[name] = tensor
    notes = [
        f"{count} tensors were {kind}; they are float32 now, "
        + ("rounded" if kind == "float64" else "with the same values")
        for kind, count in counts.items()
    ]
    return converted, notes


def write(tensors: dict[str, np.ndarray], folder: str) -> None:
    """Writes model.safetensors, as transformers expects one."""
    with open(os.path.join(folder, SAFETENSORS), "wb") as file:
        # Without the format transformers refuses the file.
        file.write(safetensors_numpy.save(tensors, {"format": "pt"}))
