"""Paths, local or in a store such as gs:// -> files, read or written.

Stores are those of tf.io.gfile: gs://, and with tensorflow-io s3:// and
hdfs://. Local paths do not go through TensorFlow, which takes seconds to
import and does not sync; they use atomic_files.py.
"""

import contextlib
import errno
import glob
import io
import os
import re
import secrets
import shutil
import stat
import types
from collections.abc import Iterator
from typing import IO

import numpy as np

from tfrecords import options
from tfrecords.io import atomic_files

_BUFFER_BYTES = 1 << 20
# Stores with atomic renames: objects of gs and s3 appear when they are
# complete, and the others rename as a disk does. `ram` is for tests.
_ATOMIC = ("gs", "s3", "s3e", "hdfs", "viewfs", "ram")
# In these a folder is part of the names of objects.
_WITHOUT_FOLDERS = ("gs", "s3", "s3e")
_LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.tmp")


def is_local(path: str) -> bool:
    """Returns whether a path is local, mounted disks included."""
    return not options.is_address(path)


def absolute_path(path: str) -> str:
    """Returns the path, made absolute if it is local."""
    return os.path.abspath(path) if is_local(path) else path


def find(pattern: str) -> list[str]:
    """Returns the files that match a name or glob, unsorted.

    Args:
      pattern: may contain `**` only if it is local.

    Raises:
      OSError: if the store cannot be reached.
    """
    if is_local(pattern):
        if os.path.isfile(pattern):  # Perhaps with a [ in its name.
            return [pattern]
        paths = glob.glob(pattern, recursive=True)
        return [path for path in paths if os.path.isfile(path)]
    with _gfile(pattern) as gfile:
        return [path for path in gfile.glob(pattern) if not is_folder(path)]


def is_folder(path: str) -> bool:
    """Returns whether a folder exists."""
    if is_local(path):
        return os.path.isdir(path)
    try:
        return _status(path)[0]
    except FileNotFoundError:
        return False


def version(path: str) -> tuple[int, int]:
    """Returns a file's size in bytes and its modification time in ns.

    Raises:
      OSError: if it cannot be read.
    """
    return _status(path)[1]


def _status(path: str) -> tuple[bool, tuple[int, int]]:
    """Returns whether a path is a folder, and its `version`."""
    if is_local(path):
        status = os.stat(path)
        has_files = stat.S_ISDIR(status.st_mode)
        return has_files, (status.st_size, status.st_mtime_ns)
    with _gfile(path) as gfile:
        # Not isdir, which is also False if the store cannot be reached.
        status = gfile.stat(path)
        return status.is_directory, (status.length, status.mtime_nsec)


def open_bytes(path: str) -> io.BufferedReader:
    """Opens a file for reading.

    Raises:
      FileNotFoundError: if it does not exist; gs:// finds out when it is read.
      OSError: if it cannot be read.
    """
    if is_local(path):
        return open(path, "rb")
    return io.BufferedReader(_StoredFile(path, "rb"), _BUFFER_BYTES)


class _StoredFile(io.RawIOBase):
    """A file in a store, with the interface of Python's files.

    gzip, pyarrow and NumPy call methods that tf.io.gfile.GFile lacks.
    """

    def __init__(self, path: str, mode: str):
        super().__init__()
        self._path = path
        self._is_read = mode == "rb"
        self._file = None  # `close` is called even if opening fails.
        with _gfile(path) as gfile:
            self._file = gfile.GFile(path, mode)
            # Opens the file, which reports a missing one or makes an empty one.
            self._file.seek(0) if self._is_read else self._file.write(b"")

    def readable(self) -> bool:
        return self._is_read

    seekable = readable

    def writable(self) -> bool:
        return not self._is_read

    def readinto(self, buffer) -> int:
        with _gfile(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data) -> int:
        with _gfile(self._path):
            self._file.write(bytes(data))
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _gfile(self._path):
            self._file.seek(offset, whence)
            return self._file.tell()

    def close(self) -> None:
        if self._file and not self.closed:
            with _gfile(self._path):
                self._file.close()
        super().close()


def exists(path: str) -> bool:
    """Returns whether a file or folder exists."""
    if is_local(path):
        return os.path.exists(path)
    with _gfile(path) as gfile:
        return gfile.exists(path)


def names_in(folder: str) -> list[str]:
    """Returns the names in a folder; [] if it does not exist."""
    return [name.rstrip("/") for name in _listed(folder)]


def _listed(folder: str) -> list[str]:
    """Returns `names_in`; in gs://, those of folders end in a slash."""
    if is_local(folder):
        return os.listdir(folder) if is_folder(folder) else []
    try:
        with _gfile(folder) as gfile:
            return list(gfile.listdir(folder))
    except FileNotFoundError:
        if is_folder(folder):  # Raises if the store cannot be reached.
            raise
        return []


def files_in(folder: str) -> dict[str, tuple[int, int]]:
    """Returns path in the folder -> `version` of all files, at any depth.

    Temporary files of `atomic_file` are left out.
    """
    found = {}
    for listed in _listed(folder):
        name = listed.rstrip("/")
        path = f"{folder}/{name}"
        if _LEFTOVER.fullmatch(listed) and not is_folder(path):
            continue
        has_files, state = (True, ()) if listed != name else _status(path)
        if has_files:
            inside = files_in(path)
            found |= {f"{name}/{file}": inside[file] for file in inside}
        else:
            found[name] = state
    return found


def copy(source: str, target: str) -> None:
    """Copies a file; the target is seen incomplete if it is on a disk."""
    make_folder(os.path.dirname(target))
    with _gfile(target) as gfile:
        gfile.copy(source, target, overwrite=True)


def move(source: str, target: str) -> None:
    """Renames a file in a store; an existing target is replaced."""
    make_folder(os.path.dirname(target))
    with _gfile(target) as gfile:
        gfile.rename(source, target, overwrite=True)


def make_folder(path: str) -> None:
    """Creates a folder and its missing parents, where files need them."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    elif path.partition(":")[0] not in _WITHOUT_FOLDERS:
        with _gfile(path) as gfile:
            gfile.makedirs(path)


def remove(path: str) -> None:
    """Removes a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        if is_local(path):
            os.remove(path)
        else:
            with _gfile(path) as gfile:
                gfile.remove(path)


def remove_folder(path: str) -> None:
    """Removes a folder and its contents, if it exists."""
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    elif is_folder(path):
        with _gfile(path) as gfile:
            gfile.rmtree(path)


def remove_leftovers(folder: str) -> None:
    """Removes the temporary files of killed writers."""
    if is_local(folder):
        atomic_files.remove_leftovers(folder)
    else:
        for name in filter(_LEFTOVER.fullmatch, names_in(folder)):
            remove(f"{folder}/{name}")


def check_writable(path: str) -> None:
    """Raises ValueError for a store without atomic renames."""
    scheme = path.partition(":/")[0]
    if not is_local(path) and "://" not in path:
        raise ValueError(
            f"{path} is not a local path; an address begins with {scheme}://."
        )
    if not is_local(path) and scheme not in _ATOMIC:
        raise ValueError(
            f"{path} cannot be written to: {scheme}:// has no atomic renames, "
            "so a file may be seen half written. Give a local folder, "
            "which may be a mounted store, or one in "
            f"{', '.join(f'{name}://' for name in _ATOMIC[:-1])}."
        )


@contextlib.contextmanager
def atomic_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Yields a file to write, as `atomic_files.atomic_file` does."""
    if is_local(path):
        with atomic_files.atomic_file(path, mode) as file:
            yield file
        return
    folder, _, name = path.rpartition("/")
    aside = f"{folder}/.{name}.{secrets.token_hex(8)}.tmp"
    try:
        with io.BufferedWriter(_StoredFile(aside, "wb"), _BUFFER_BYTES) as file:
            if "b" in mode:
                yield file
            else:
                text = io.TextIOWrapper(file, "utf-8")
                yield text
                text.flush()
                text.detach()
        with _gfile(path) as gfile:
            gfile.rename(aside, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(aside)
        raise


def read_array(
    path: str, dtype: np.dtype, begin: int = 0, end: int | None = None
) -> np.ndarray:
    """Returns numbers begin to end of a raw binary file, [end - begin].

    Args:
      path: path of the file.
      dtype: dtype of the numbers.
      begin: index of the first number.
      end: index after the last number; None for the end of the file.
    """
    itemsize = np.dtype(dtype).itemsize
    count = -1 if end is None else int(end - begin)
    with open_bytes(path) as file:
        file.seek(int(begin) * itemsize)
        if is_local(path):
            return np.fromfile(file, dtype, count)
        return np.frombuffer(file.read(max(-1, count * itemsize)), dtype)


@contextlib.contextmanager
def _gfile(path: str) -> Iterator[types.ModuleType]:
    """Yields tf.io.gfile; turns its errors into OSErrors that name the path."""
    import tensorflow as tf  # Needed only for stores.

    try:
        yield tf.io.gfile
    except tf.errors.NotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, os.strerror(errno.ENOENT), path
        ) from None
    except tf.errors.OpError as error:
        reason = error.message.partition("\n")[0]
        if reason.startswith("File system scheme"):
            raise ValueError(
                f"{path} is an address of a kind that TensorFlow does not read "
                "here. Download the files, and give their path; a model of "
                "Hugging Face's hub by: hf download OWNER/NAME --local-dir DIR"
            ) from error
        raise OSError(
            errno.EIO,
            f"cannot be reached ({reason}). Check the address, the network and "
            "that this machine has access, then run the same command again",
            path,
        ) from error
