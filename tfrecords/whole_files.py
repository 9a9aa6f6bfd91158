"""Content being written -> a file or folder under its name, whole or absent."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from typing import IO

# Random bytes in the names of what is not whole yet.
_TOKEN_BYTES = 8


@contextlib.contextmanager
def whole_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Yields a file to write, which gets its name when it is whole.

    Until then it is a hidden file beside, `.<name>.<16 digits>.tmp`.

    Args:
      path: where the file goes; one that is there is replaced.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      OSError: that names `path`, when the disk is full or not writable; what
        was written is removed again.
    """
    aside = _beside(path, "tmp")
    encoding = None if "b" in mode else "utf-8"
    try:
        # "x", as nothing that is there may be written to.
        with open(aside, mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(aside)
        named = _named(error, aside, path)
        if named is error:
            raise
        raise named from error


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which gets its name when it is whole.

    Until then it is a hidden folder beside, `.<name>.<16 digits>.tmp`; one
    that it replaces is `.<name>.<16 digits>.old` for a moment.

    Args:
      path: where the folder goes; one that is there is replaced. Of a link it
        is the folder behind it.

    Raises:
      OSError: as `whole_file`.
    """
    place = os.path.realpath(path)
    aside = _beside(place, "tmp")
    try:
        os.makedirs(aside)
        yield aside
        for folder, _, names in os.walk(aside):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        _put(aside, place)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        named = _named(error, aside, path)
        if named is error:
            raise
        raise named from error


def _beside(path: str, ending: str) -> str:
    """Returns a path that nobody else has: 64 random bits are in its name.

    tempfile is not used, as its files are for their owner alone, whatever the
    umask says.
    """
    folder, name = os.path.split(path)
    name = f".{name}.{secrets.token_hex(_TOKEN_BYTES)}.{ending}"
    return os.path.join(folder, name)


def _put(aside: str, place: str) -> None:
    """Renames a folder; what was in its place comes back if that fails."""
    old = _beside(place, "old")
    was_there = os.path.isdir(place)
    if was_there:
        os.rename(place, old)
    try:
        os.rename(aside, place)
    except BaseException:
        if was_there:
            os.rename(old, place)
        raise
    if was_there:
        shutil.rmtree(old, ignore_errors=True)
    _sync(os.path.dirname(place))


def remove_leftovers(folder: str, prefix: str = "") -> None:
    """Removes what writers that were killed left in a folder.

    Args:
      folder: that no other process writes to now; it need not be there.
      prefix: of the names that they were writing.
    """
    pattern = re.compile(
        rf"\.{re.escape(prefix)}.*\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp"
    )
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if not pattern.fullmatch(name):
            continue
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.remove(path)


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


def digest(path: str) -> str:
    """Returns the sha256 of a file's bytes, read a piece at a time."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha256.update(piece)
    return sha256.hexdigest()


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
