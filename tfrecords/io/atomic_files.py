"""Content being written -> a file or folder under its name, whole or absent."""

import contextlib
import ctypes
import errno
import functools
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
_ADVICE = (
    "; nothing half-written is left. Make room and run the same command again"
)
# Of renameat2(2).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def atomic_file(path: str, mode: str = "w") -> Iterator[IO]:
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
    with naming(path, aside):
        try:
            # "x", as nothing that is there may be written to.
            with open(aside, mode.replace("w", "x"), encoding=encoding) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            _sync(os.path.dirname(path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(aside)
            raise


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which gets its name when it is whole.

    Until then it is a hidden folder beside, `.<name>.<16 digits>.tmp`. All in
    it is on the disk before it gets its name, and its name before what it
    replaces is removed. At every moment the old folder or the new one stands
    under the name, also after a kill.

    Where a file system cannot exchange two names at once (some of the network),
    the old folder is `.<name>.<16 digits>.old` for a moment; if the writer is
    killed then, `remove_leftovers` puts it back.

    Args:
      path: where the folder goes; one that is there is replaced. Of a link it
        is the folder behind it.

    Raises:
      OSError: as `atomic_file`.
    """
    place = os.path.realpath(path)
    aside = _beside(place, "tmp")
    with naming(path, aside):
        try:
            _make_folders(aside)
            yield aside
            for folder, _, names in os.walk(aside):
                for name in names:
                    _sync(os.path.join(folder, name))
                _sync(folder)
            _put(aside, place)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def append(path: str, text: str) -> None:
    """Adds text to the end of a UTF-8 file; it is on the disk afterwards.

    Raises:
      OSError: as `atomic_file`; the file holds what it held before.
    """
    size = os.path.getsize(path) if os.path.exists(path) else 0
    with naming(path):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.truncate(path, size)
            raise


def move(source: str, target: str) -> None:
    """Renames a file or folder; a lost power cannot undo it any more."""
    os.rename(source, target)
    for folder in {os.path.dirname(source), os.path.dirname(target)}:
        _sync(folder)


def remove_folder(path: str) -> None:
    """Removes a folder such that none of it stands half under its name.

    It is hidden first, as what `remove_leftovers` removes after a kill.
    """
    aside = _beside(path, "tmp")
    move(path, aside)
    shutil.rmtree(aside)


def _beside(path: str, ending: str) -> str:
    """Returns a path that nobody else has: 64 random bits are in its name.

    tempfile is not used, as its files are for their owner alone, whatever the
    umask says.
    """
    folder, name = os.path.split(path)
    name = f".{name}.{secrets.token_hex(_TOKEN_BYTES)}.{ending}"
    return os.path.join(folder, name)


def _make_folders(path: str) -> None:
    """Makes a folder and those above it, each safe from a lost power."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        _make_folders(above)
    # Another process may have been quicker; of `path` itself there is none.
    os.makedirs(path, exist_ok=True)
    _sync(above)


def _put(aside: str, place: str) -> None:
    """Gives a folder its name; removes what had the name before."""
    if not os.path.isdir(place):
        move(aside, place)
        return
    if _exchange(aside, place):
        _sync(os.path.dirname(place))
        shutil.rmtree(aside, ignore_errors=True)
        return
    old = _beside(place, "old")
    try:
        os.rename(place, old)
        move(aside, place)
    except BaseException:
        if not os.path.isdir(place):
            os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


@functools.cache
def _renameat2():
    """Returns the C library's function, None where it has none."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    folder, name = ctypes.c_int, ctypes.c_char_p
    function.argtypes = [folder, name, folder, name, ctypes.c_uint]
    return function


def _exchange(first: str, second: str) -> bool:
    """Exchanges the names of two folders at once.

    Two renames would leave a moment without either under its name. Python has
    no call for it; rename(2) of Linux has, since 3.15, as renameat2.

    Returns:
      Whether it was done: not where the system or file system cannot.
    """
    function = _renameat2()
    if function is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    arguments = _AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE
    if function(*arguments) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), first)


def remove_leftovers(folder: str, prefix: str = "") -> None:
    """Removes what writers that were killed left in a folder.

    A `.old` without its folder is put back: the new one was about to get its
    name, and did not.

    Args:
      folder: that no other process writes to now; it need not be there.
      prefix: of the names that they were writing.
    """
    pattern = re.compile(
        rf"\.({re.escape(prefix)}.*)\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.(tmp|old)"
    )
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        match = pattern.fullmatch(name)
        if not match:
            continue
        place = os.path.join(folder, match[1])
        if match[2] == "old" and not os.path.lexists(place):
            move(path, place)
        elif os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.remove(path)


def _sync(path: str) -> None:
    """Waits until a file's bytes, or the names in a folder, are on the disk."""
    handle = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems of the network cannot do it for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(path: str, aside: str | None = None) -> Iterator[None]:
    """Turns errors of a disk into ones that name the file a user knows.

    Those of a full disk say what to do, too; of another file, such as an
    input, they are let through.

    Args:
      path: what is written.
      aside: under which name it is written; None for its own.

    Raises:
      OSError: that names `path`.
    """
    aside = path if aside is None else aside
    try:
        yield
    except OSError as error:
        # A full disk names no file; another's, such as an input's, is kept.
        if not str(error.filename or aside).startswith(aside):
            raise
        message = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            # A file in a folder has said it already.
            message = message.removesuffix(_ADVICE) + _ADVICE
        raise OSError(error.errno, message, path) from error


def digest(path: str) -> str:
    """Returns the sha256 of a file's bytes, read a piece at a time."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha256.update(piece)
    return sha256.hexdigest()


def write_json(path: str, values: Mapping) -> None:
    """Writes a JSON file, whole or not at all."""
    with atomic_file(path) as file:
        json.dump(values, file, indent=2)
        file.write("\n")


def read_json(path: str) -> dict:
    """Returns what JSON holds: in all files of ours, an object.

    Raises:
      ValueError: that names the file, if it is no JSON.
    """
    with open(path, encoding="utf-8-sig") as file:
        try:
            return json.load(file)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no JSON: {error}.") from error
