"""Content -> a file or folder that is complete or absent, even after a kill.

Implemented here because no available library syncs files and their folders to
the disk, keeps the umask and replaces a folder atomically.

A process that is killed leaves its temporary file or folder. While it lives it
locks it, with flock(2); the next writer of the same path removes those that
nobody locks. It removes none on file systems without locks of folders, such as
NFS.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import IO

from tfrecords.io import streams

# Random bytes in the names of temporary files and folders.
_TOKEN_BYTES = 8
_MAX_TRIES = 100  # Then without a lock, where files have no stable numbers.
_ADVICE = (
    "; nothing half-written is left. Make room and run the same command again"
)
# Arguments of renameat2(2).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def atomic_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Yields a file to write, which is renamed to `path` when complete.

    Until then it is a hidden file in the same folder,
    `.<name>.<16 hex digits>.tmp`.

    Args:
      path: path of the file; an existing one is replaced. If it is a symbolic
        link, its target is replaced. "-" is stdout; it, a pipe or a device
        is written to directly, see `streams.is_stream`.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      ValueError: if `path` is a disk.
      OSError: naming `path`, if the disk is full or not writable; no partial
        file remains.
    """
    if streams.is_stream(path):
        with naming(path), streams.open_output(path, mode) as file:
            yield file
        return
    encoding = None if "b" in mode else "utf-8"
    with _temporary(path, _make_file) as (aside, target):
        with open(aside, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
        _sync(os.path.dirname(target))


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which is renamed to `path` when complete.

    Until then it is a hidden folder, named as in `atomic_file`. Its contents
    are synced before the rename, and the rename is synced before the replaced
    folder is removed. At every moment `path` is the old folder or the new one,
    even after a kill.

    On file systems that cannot exchange two names atomically (some network file
    systems), the old folder is briefly `.<name>.<16 hex digits>.old`; if the
    writer is killed then, the next writer or `remove_leftovers` restores it.

    Args:
      path: path of the folder; an existing one is replaced. If it is a
        symbolic link, its target is replaced.

    Raises:
      OSError: as in `atomic_file`.
    """
    with _temporary(path, _make_folders) as (aside, target):
        yield aside
        for folder, _, names in os.walk(aside):
            for name in names:
                _sync(os.path.join(folder, name))
            _sync(folder)
        _replace(aside, target)


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Yields a folder that is removed after the body, like that of tempfile.

    If the process is killed, the next call removes it.
    """
    path = os.path.join(tempfile.gettempdir(), "bert_tf")
    with _temporary(path, _make_private_folder, is_named=False) as (aside, _):
        yield aside
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _temporary(
    path: str, make: Callable[[str], None], is_named: bool = True
) -> Iterator[tuple[str, str]]:
    """Yields a locked temporary file or folder, and what it is to replace.

    First, what killed writers of the path have left is removed. After an error
    the temporary file or folder is removed. Links are followed; errors name the
    path if `is_named`.
    """
    target = os.path.realpath(path)
    aside = _sibling(target, "tmp")
    _remove_dead(target)
    with naming(path, aside) if is_named else contextlib.nullcontext():
        try:
            with _locked_new(aside, make):
                yield aside, target
        except BaseException:
            with contextlib.suppress(OSError):
                _remove_leftover(aside, target)
            raise


def append(path: str, text: str) -> None:
    """Appends text to a UTF-8 file and syncs it.

    Raises:
      OSError: as in `atomic_file`; the file is then unchanged.
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
    """Renames a file or folder and syncs the rename."""
    os.rename(source, target)
    for folder in {os.path.dirname(source), os.path.dirname(target)}:
        _sync(folder)


def remove_folder(path: str) -> None:
    """Removes a folder; first hides it, so that it is never seen incomplete."""
    aside = _sibling(path, "tmp")
    move(path, aside)
    # Another writer of the path may remove it at the same time.
    shutil.rmtree(aside, ignore_errors=True)


def _sibling(path: str, ending: str) -> str:
    """Returns a hidden path in the same folder; tempfile ignores the umask."""
    folder, name = os.path.split(path)
    name = f".{name}.{secrets.token_hex(_TOKEN_BYTES)}.{ending}"
    return os.path.join(folder, name)


def _make_folders(path: str) -> None:
    """Creates a folder and its missing parents, and syncs each."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        _make_folders(above)
    # Another process may have created it in the meantime.
    os.makedirs(path, exist_ok=True)
    _sync(above)


def _make_private_folder(path: str) -> None:
    os.makedirs(path, 0o700, exist_ok=True)


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Locks an existing file or folder, for `_remove_dead`.

    Raises:
      BlockingIOError: if another process has locked it.
      FileNotFoundError: if it is removed at this moment.
      OSError: if the file system has no such locks.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, flags)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.lstat(path)):
            raise FileNotFoundError(path)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked_new(path: str, make: Callable[[str], None]) -> Iterator[None]:
    """Makes a file or folder, and locks it if the file system can."""
    with contextlib.ExitStack() as stack:
        for _ in range(_MAX_TRIES):
            make(path)
            try:
                stack.enter_context(_locked(path))
            except (BlockingIOError, FileNotFoundError):
                continue  # Another process removes it, as it was not locked.
            except OSError:
                pass
            break
        yield


def _replace(aside: str, target: str) -> None:
    """Renames `aside` to `target` and removes the folder that it replaces."""
    if not os.path.isdir(target):
        move(aside, target)
        return
    if _exchange(aside, target):
        _sync(os.path.dirname(target))
        shutil.rmtree(aside, ignore_errors=True)
        return
    old = _sibling(target, "old")
    with contextlib.ExitStack() as stack:
        # So that no other writer takes it for that of a killed one.
        with contextlib.suppress(OSError):
            stack.enter_context(_locked(target))
        try:
            os.rename(target, old)
            move(aside, target)
        except BaseException:
            if not os.path.isdir(target):
                os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


@functools.cache
def _renameat2():
    """Returns the C library's renameat2, or None if it has none."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    folder, name = ctypes.c_int, ctypes.c_char_p
    function.argtypes = [folder, name, folder, name, ctypes.c_uint]
    return function


def _exchange(first: str, second: str) -> bool:
    """Exchanges the names of two folders atomically with Linux's renameat2(2).

    Between two separate renames, neither folder would have the name.

    Returns:
      False if the system or the file system does not support it.
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
    """Removes the temporary files and folders of killed writers.

    A `.old` folder is restored if its original name is not in use: the new
    folder was never renamed.

    Args:
      folder: the folder to clean up, to which no other process is writing; it
        need not exist.
      prefix: start of the names of the files and folders that were written.
    """
    for path, target in _leftovers(folder, f"{re.escape(prefix)}.*"):
        _remove_leftover(path, target)


def _remove_dead(target: str) -> None:
    """Removes what killed writers of a path have left, see `remove_leftovers`.

    What another process writes at this moment is locked, and stays.
    """
    folder, name = os.path.split(target)
    with contextlib.suppress(OSError):  # A folder that cannot be listed.
        for path, _ in _leftovers(folder, re.escape(name)):
            with contextlib.suppress(OSError), _locked(path):
                _remove_leftover(path, target)


def _leftovers(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """Yields temporary paths in a folder, and the paths that they were for."""
    digits = f"[0-9a-f]{{{2 * _TOKEN_BYTES}}}"
    pattern = re.compile(rf"\.({name})\.{digits}\.(?:tmp|old)")
    for found in os.listdir(folder) if os.path.isdir(folder) else ():
        if match := pattern.fullmatch(found):
            yield os.path.join(folder, found), os.path.join(folder, match[1])


def _remove_leftover(path: str, target: str) -> None:
    """Removes a temporary file or folder, or restores that of `target`."""
    if path.endswith(".old") and not os.path.lexists(target):
        move(path, target)
    elif os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.remove(path)


def _sync(path: str) -> None:
    """Syncs the bytes of a file, or the names in a folder, to the disk."""
    handle = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(path: str, aside: str | None = None) -> Iterator[None]:
    """Makes I/O errors name `path` instead of the temporary file `aside`.

    Errors of a full disk also say what to do. Errors about other files, such as
    inputs, pass through.
    """
    aside = path if aside is None else aside
    try:
        yield
    except OSError as error:
        # Errors of a full disk name no file.
        if not str(error.filename or aside).startswith(aside):
            raise
        message = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            # A nested atomic_file has already added the advice.
            message = message.removesuffix(_ADVICE) + _ADVICE
        raise OSError(error.errno, message, path) from error


def digest(*paths: str) -> str:
    """Returns the sha256 of a file's bytes, or those of several files."""
    sha256 = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                sha256.update(block)
    return sha256.hexdigest()
