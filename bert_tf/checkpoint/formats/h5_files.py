"""HDF5 file -> its tensors by path, each read when it is asked for."""

import contextlib
import functools
import math
import os
from collections.abc import Iterator

import h5py
import ml_dtypes
import numpy as np
import numpy.typing as npt

from bert_tf.checkpoint import tensor_files

_MAX_COMPRESSION = 1100  # More than deflate's largest ratio, 1,032.


def read(path: str) -> dict[str, tensor_files.StoredTensor]:
    """Returns the tensors of an HDF5 file by their paths in it.

    Raises:
      ValueError: if the file is damaged, also when a tensor is read, or has
        links or data in another file.
    """
    with _faults_named(path), h5py.File(path, "r") as content:
        size, visited = os.path.getsize(path), set()
        return {
            name: _stored(path, data, size)
            for name, data in _datasets(content, visited)
        }


@contextlib.contextmanager
def _faults_named(path: str) -> Iterator[None]:
    """Translates what h5py raises for a damaged file."""
    try:
        yield
    # The last is of groups nested deeper than Python's stack.
    except (
        OSError,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        MemoryError,
        RecursionError,
    ) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{path} cannot be read ({reason}). Copy or download it again, as "
            "one complete file."
        ) from error


def _datasets(
    group: h5py.Group, visited: set[int], name: str = ""
) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields the path and dataset of every weight below a group.

    `visited` has the addresses of objects seen before: one may be in its own
    subgroup, or have many links. Links and data in other files are refused.
    """
    for key in group:
        path = f"{name}/{key}" if name else key
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{path} is a link")
        part = group[key]
        address = h5py.h5o.get_info(part.id).addr
        if address in visited:
            raise ValueError(f"{path} is another path of the same object")
        visited.add(address)
        if isinstance(part, h5py.Group):
            yield from _datasets(part, visited, path)
        elif not isinstance(part, h5py.Dataset):
            raise ValueError(f"{path} is a {type(part).__name__}")
        elif part.is_virtual or part.external:
            raise ValueError(f"{path} has its data in another file")
        else:
            yield path, part


def _stored(
    path: str, dataset: h5py.Dataset, file_bytes: int
) -> tensor_files.StoredTensor:
    """Returns a dataset of numbers, which is read when it is asked for.

    HDF5 would allocate more bytes than the file has, and fill them with zeros.
    """
    # V: bfloat16, which HDF5 does not know.
    if dataset.shape is None or dataset.dtype.kind not in "fiubV":
        raise ValueError(f"{dataset.name} has the dtype {dataset.dtype}")
    num_bytes = math.prod(dataset.shape) * dataset.dtype.itemsize
    stored = min(dataset.id.get_storage_size(), file_bytes)
    if dataset.id.get_create_plist().get_nfilters():
        stored *= _MAX_COMPRESSION
    if num_bytes > stored:
        raise ValueError(
            f"{dataset.name} claims {num_bytes:,} bytes, of which the file has "
            f"at most {stored:,}"
        )
    # saving_lib.py: H5IOStore stores the dtype bfloat16 as an attribute.
    is_bfloat16 = dataset.attrs.get("dtype") == "bfloat16"
    dtype = ml_dtypes.bfloat16 if is_bfloat16 else dataset.dtype
    path = os.path.abspath(path)
    read = functools.partial(_read, path, _state(path), dataset.name, dtype)
    return tensor_files.StoredTensor(dataset.shape, dtype, read)


def _state(path: str) -> tuple[int, int, int]:
    """Returns inode, size and mtime, which change with the content."""
    file = os.stat(path)
    return file.st_ino, file.st_size, file.st_mtime_ns


def _read(
    path: str, opened: tuple[int, ...], name: str, dtype: npt.DTypeLike
) -> np.ndarray:
    # An open file would be locked for those who write it.
    with _faults_named(path), h5py.File(path, "r") as content:
        if _state(path) != opened:
            raise ValueError("it was replaced after it was opened")
        return np.array(content[name], dtype)
