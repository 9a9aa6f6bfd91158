"""Tensors by name <-> .safetensors file, its sha256, its faults.

Format: https://github.com/huggingface/safetensors, "Format".
"""

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Collection, Iterator, Mapping

import ml_dtypes  # noqa: F401  Registers bfloat16 with NumPy.
import numpy as np
import safetensors

from bert_tf.checkpoint import checksums
from tfrecords.options import some

# Names of dtypes in .safetensors files, and their sizes in bytes.
_TYPES = {
    "float64": ("F64", 8),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
    "float32": ("F32", 4),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}


class TensorFile(Mapping):
    """Tensors of a .safetensors file by name, each read when it is asked for.

    So that a model is in memory once while its variables are assigned. The
    file is compared with the sha256 in state.json, if any, before the first
    tensor is returned.

    Args:
      path: the file.
      names: those of its tensors to have; None for all.

    Attributes:
      shapes: name -> shape, which takes no reading.

    Raises:
      DamagedError: a ValueError, if the file is missing or damaged, also when
        a tensor is read.
    """

    def __init__(self, path: str, names: Collection[str] | None = None):
        self.path = path
        self._is_checked = False
        with _faults_named(path):
            self._file = safetensors.safe_open(path, framework="numpy")
            own = self._file.keys()
            self._names = dict.fromkeys(own if names is None else names)
            self.shapes = {
                name: tuple(self._file.get_slice(name).get_shape())
                for name in self._names
            }

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        if not self._is_checked:
            folder, file = os.path.split(self.path)
            checksums.check(folder, [file])
            self._is_checked = True
        with _faults_named(self.path):
            return self._file.get_tensor(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names  # Mapping's own would read the tensor.

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextlib.contextmanager
def _faults_named(path: str) -> Iterator[None]:
    """Translates what the safetensors package raises for a damaged file."""
    try:
        yield
    # The last is of shapes that NumPy does not support.
    except (
        safetensors.SafetensorError,
        FileNotFoundError,
        ValueError,
    ) as error:
        raise checksums.DamagedError(
            f"{path} is missing or damaged ({error}). Use another checkpoint."
        ) from error
    # Which of the three is raised depends on the dtype.
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has tensors of a dtype that NumPy lacks ({error}), as in "
            "quantised models. Save the model in float32."
        ) from error


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads a .safetensors file, and checks it against state.json if any.

    Raises:
      DamagedError: a ValueError, if the file is missing or damaged.
    """
    folder, name = os.path.split(path)
    checksums.check(folder, [name])
    return dict(TensorFile(path))


def only(
    tensors: Mapping[str, np.ndarray], names: Collection[str]
) -> Mapping[str, np.ndarray]:
    """Returns the tensors of the given names, without reading them."""
    if isinstance(tensors, TensorFile):
        return TensorFile(tensors.path, names)
    return {name: tensors[name] for name in names}


def shapes_of(tensors: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape, without reading tensors from a file."""
    if isinstance(tensors, TensorFile):
        return tensors.shapes
    return {name: tensor.shape for name, tensor in tensors.items()}


def write_tensors(tensors: Mapping, path: str) -> None:
    """Writes tensors by name to a .safetensors file, one after the other.

    The writer of the safetensors package is not used: it needs two more copies
    of all tensors in memory, and on some file systems it panics if the disk is
    full.

    Args:
      tensors: name -> array, `keras.Variable` or `tf.Variable`; variables are
        copied one at a time.
      path: path of the file.

    Raises:
      ValueError: if the format does not support the dtype of a tensor.
      OSError: if the disk is full, for example.
    """
    header = _header(tensors, path)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    line = text.encode()
    line += b" " * (-len(line) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(line)) + line)
        for name in header:
            file.write(_bytes(tensors[name]))


def _header(tensors: Mapping, path: str) -> dict[str, dict]:
    """Returns name -> dtype, shape and offsets, in the order of the file."""
    kinds = {}
    for name, tensor in tensors.items():
        kinds[name] = str(getattr(tensor.dtype, "name", tensor.dtype))
        if kinds[name] not in _TYPES:
            raise ValueError(
                f"{name} is {kinds[name]}, which {path} cannot store. Expected "
                f"one of {', '.join(_TYPES)}."
            )
    # Wide types first, so that each tensor is aligned to the size of its type.
    header, end = {}, 0
    for name in sorted(kinds, key=lambda name: (-_TYPES[kinds[name]][1], name)):
        letters, size = _TYPES[kinds[name]]
        shape = [int(length) for length in tensors[name].shape]
        begin, end = end, end + math.prod(shape) * size
        header[name] = {
            "dtype": letters,
            "shape": shape,
            "data_offsets": [begin, end],
        }
    return header


def _array(tensor) -> np.ndarray:
    """Returns the value of an array, `keras.Variable` or `tf.Variable`."""
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor


def _bytes(tensor) -> np.ndarray:
    """Returns a tensor's bytes, little-endian, as uint8 [N]."""
    array = _array(tensor)
    if array.dtype.str.startswith(">"):
        array = array.byteswap()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def digest_of(tensors: Mapping) -> str:
    """Returns the same for tensors by name, as for `write_tensors`."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        array = _array(tensor)
        sha256.update(f"{name} {array.dtype} {array.shape}\n".encode())
        sha256.update(_bytes(array))
    return sha256.hexdigest()


def check_finite(
    tensors: Mapping[str, np.ndarray], source: str, *, allow_nan: bool = False
) -> None:
    """Raises ValueError naming the weights that have NaN or infinite values.

    Args:
      tensors: weights, and Adam's moments if any, by name.
      source: path of the checkpoint.
      allow_nan: whether to check only that weights are floats.
    """
    wrong = {}
    for name, tensor in tensors.items():
        # bfloat16 is not a float of NumPy's own.
        if tensor.dtype.kind != "f" and tensor.dtype.name != "bfloat16":
            raise ValueError(
                f"{source}: {name} is {tensor.dtype.name}; weights are floats. "
                "Save the model in float32."
            )
        num_wrong = tensor.size - np.count_nonzero(np.isfinite(tensor))
        if num_wrong and not allow_nan:
            wrong[name] = f"{name} ({num_wrong:,} of {tensor.size:,} values)"
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(
            f"{source}: {len(wrong)} of {len(tensors)} tensors have NaN or "
            f"infinite values: {', '.join(list(wrong.values())[:3])}{more}. "
            "Outputs can be NaN. Its training diverged, or the file is "
            "damaged; use an earlier checkpoint. To inspect it nevertheless, "
            "convert it with convert_checkpoint --allow_nan_weights."
        )


def check_partners(
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Raises ValueError with the differences in names and shapes, if any.

    Args:
      shapes: name -> shape of the model's weights.
      tensors: weights of the checkpoint.
      source: path of the checkpoint.
    """
    found = shapes_of(tensors)
    unexpected = [
        f"+ in the checkpoint only: {name} {found[name]}"
        for name in sorted(set(found) - set(shapes))
    ]
    missing = [
        f"- in the model only:      {name} {tuple(shapes[name])}"
        for name in sorted(set(shapes) - set(found))
    ]
    misfits = [
        f"! different shapes:       {name} {found[name]} in the "
        f"checkpoint, {tuple(shapes[name])} in the model"
        for name in sorted(set(shapes) & set(found))
        if found[name] != tuple(shapes[name])
    ]
    groups = [group for group in (unexpected, missing, misfits) if group]
    if groups:
        raise ValueError(
            f"{sum(map(len, groups))} weights do not match ({source}).\n  "
            + "\n  ".join(some(group, "\n  ") for group in groups)
            + "\nUse the bert_config.json that belongs to the checkpoint."
        )
