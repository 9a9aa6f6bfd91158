"""Tensors by name <-> .safetensors file, its sha256, its faults.

Format: https://github.com/huggingface/safetensors, "Format".
"""

import collections
import contextlib
import functools
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import ml_dtypes  # noqa: F401  Registers bfloat16 with NumPy.
import numpy as np
import numpy.typing as npt
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
_NAMES = {letters: name for name, (letters, _) in _TYPES.items()}


class StoredTensor:
    """A tensor that is read from its file each time that it is asked for.

    Attributes:
      shape: its shape.
      dtype: its NumPy dtype.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        read: Callable[[], np.ndarray],
    ):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._read = read

    def numpy(self) -> np.ndarray:
        """Returns the tensor."""
        return self._read()

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        del copy  # It is always one.
        return np.asarray(self.numpy(), dtype)


class Tensors(Mapping):
    """Tensors by name, each read when it is asked for.

    So that a model is in memory once while its variables are assigned or
    another file is written.

    Args:
      stored: name -> StoredTensor or array.
      path: file that all are in, for messages; None if there are several.

    Attributes:
      is_finite: whether all are known to be finite.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredTensor | np.ndarray],
        path: str | None = None,
    ):
        self.stored, self.path = dict(stored), path
        self.is_finite = False

    def __getitem__(self, name: str) -> np.ndarray:
        return _array(self.stored[name])

    def __contains__(self, name: str) -> bool:
        return name in self.stored  # Mapping's own would read the tensor.

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


class TensorFile(Tensors):
    """Tensors of a .safetensors file by name, each read when it is asked for.

    The file is compared with the sha256 in state.json, if any, before the first
    tensor is returned.

    Args:
      path: the file.

    Raises:
      DamagedError: a ValueError, if the file is missing or damaged, also when
        a tensor is read.
    """

    def __init__(self, path: str):
        self._is_checked = False
        with _faults_named(path):
            self._file = safetensors.safe_open(path, framework="numpy")
            stored = {}
            for name in self._file.keys():  # noqa: SIM118  It is no dict.
                part = self._file.get_slice(name)
                dtype = _NAMES[part.get_dtype()]
                read = functools.partial(self._read, name)
                stored[name] = StoredTensor(part.get_shape(), dtype, read)
        super().__init__(stored, path)

    def _read(self, name: str) -> np.ndarray:
        if not self._is_checked:
            folder, file = os.path.split(self.path)
            checksums.check(folder, [file])
            self._is_checked = True
        with _faults_named(self.path):
            return self._file.get_tensor(name)


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


def read_tensor(path: str, name: str) -> np.ndarray:
    """Reads one tensor of a .safetensors file.

    Raises:
      DamagedError: a ValueError, if the file is missing or damaged.
    """
    return TensorFile(path)[name]


def stored(tensors: Mapping) -> dict[str, StoredTensor | np.ndarray]:
    """Returns name -> unread tensor, which has a shape and a dtype."""
    return dict(tensors.stored if isinstance(tensors, Tensors) else tensors)


def only(tensors: Mapping, names: Collection[str]) -> Tensors:
    """Returns the tensors of the given names, without reading them."""
    everything = stored(tensors)
    path = getattr(tensors, "path", None)
    chosen = Tensors({name: everything[name] for name in names}, path)
    chosen.is_finite = getattr(tensors, "is_finite", False)
    return chosen


def merged(*mappings: Mapping) -> Tensors:
    """Returns the tensors of all mappings, without reading them."""
    return Tensors(dict(collections.ChainMap(*map(stored, mappings))))


def shapes_of(tensors: Mapping) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape, without reading tensors from a file."""
    return {name: tuple(x.shape) for name, x in stored(tensors).items()}


def as_float32(tensors: Mapping) -> Tensors:
    """Returns all tensors as float32, converted when they are asked for."""
    converted = stored(tensors)
    for name, tensor in converted.items():
        if tensor.dtype != np.float32:
            read = functools.partial(np.asarray, tensor, np.float32)
            converted[name] = StoredTensor(tensor.shape, np.float32, read)
    return Tensors(converted)


def write_tensors(
    tensors: Mapping, path: str, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors by name to a .safetensors file, one after the other.

    The writer of the safetensors package is not used: it needs two more copies
    of all tensors in memory, and on some file systems it panics if the disk is
    full.

    Args:
      tensors: name -> array, StoredTensor, `keras.Variable` or `tf.Variable`;
        all but arrays are copied one at a time.
      path: path of the file.
      metadata: the header's `__metadata__`, for other programs.

    Raises:
      ValueError: if the format does not support the dtype of a tensor.
      OSError: if the disk is full, for example.
    """
    header = _header(stored(tensors), path)
    start = {"__metadata__": metadata} if metadata else {}
    text = json.dumps(start | header, ensure_ascii=False, separators=(",", ":"))
    line = text.encode()
    line += b" " * (-len(line) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(line)) + line)
        for name in header:
            file.write(_bytes(tensors[name]))


def _header(tensors: Mapping, path: str) -> dict[str, dict]:
    """Returns name -> dtype, shape and offsets, in the order of the file."""
    dtypes = {}
    for name, tensor in tensors.items():
        dtypes[name] = str(getattr(tensor.dtype, "name", tensor.dtype))
        if dtypes[name] not in _TYPES:
            raise ValueError(
                f"{name} is {dtypes[name]}, which {path} cannot store. "
                f"Expected one of {', '.join(_TYPES)}."
            )
    # Wide types first, so that each tensor is aligned to the size of its type.
    header, end = {}, 0
    for name in sorted(
        dtypes, key=lambda name: (-_TYPES[dtypes[name]][1], name)
    ):
        letters, size = _TYPES[dtypes[name]]
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
    """Returns the sha256 of names, types, shapes and bytes of tensors."""
    sha256 = hashlib.sha256()
    for name in sorted(tensors):
        array = _array(tensors[name])
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
        if path := getattr(tensors, "path", None):
            # The header may be damaged, which is no difference.
            folder, file = os.path.split(path)
            checksums.check(folder, [file])
        raise ValueError(
            f"{sum(map(len, groups))} weights do not match ({source}).\n  "
            + "\n  ".join(some(group, "\n  ") for group in groups)
            + "\nUse the bert_config.json that belongs to the checkpoint."
        )
