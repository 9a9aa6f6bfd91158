"""Content being written -> a file or folder under its name, whole or absent."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import IO


@contextlib.contextmanager
def whole_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Yields a file to write, which gets its name when it is whole.

    Args:
      path: where the file goes; one that is there is replaced.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      OSError: that names `path`, when the disk is full or not writable; what
        was written is removed again.
    """
    aside = f"{path}.tmp"
    encoding = None if "b" in mode else "utf-8"
    try:
        with open(aside, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(aside)
        raise _named(error, aside, path) from error


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which gets its name when it is whole.

    Args:
      path: where the folder goes; one that is there is replaced.

    Raises:
      OSError: as `whole_file`.
    """
    aside = f"{path}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        os.makedirs(aside)
        yield aside
        for folder, _, names in os.walk(aside):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        old = f"{path}.old"
        if os.path.isdir(path):
            shutil.rmtree(old, ignore_errors=True)
            os.rename(path, old)
        os.rename(aside, path)
        _sync(os.path.dirname(os.path.abspath(path)))
        shutil.rmtree(old, ignore_errors=True)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise _named(error, aside, path) from error


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _named(error: BaseException, aside: str, path: str) -> BaseException:
    """Returns an error that names the file a user knows, and what to do."""
    if not isinstance(error, OSError):
        return error
    # A full disk names no file; another's, such as an input's, is kept.
    if not str(error.filename or aside).startswith(aside):
        return error
    message = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message += (
            "; nothing half-written is left. Make room and run the same "
            "command again"
        )
    return OSError(error.errno, message, path)


def write_json(path: str, values: Mapping) -> None:
    """Writes a JSON file, whole or not at all."""
    with whole_file(path) as file:
        json.dump(values, file, indent=2)
        file.write("\n")


def read_json(path: str) -> dict:
    """Reads a JSON object.

    Raises:
      ValueError: that names the file, if it holds none.
    """
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON: {error}.") from error
