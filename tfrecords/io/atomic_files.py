"""Content -> a file or folder that is complete or absent, even after a kill.

Implemented here because no available library syncs files and their folders to
the disk, keeps the umask and replaces a folder atomically.
"""

import contextlib
import ctypes
import errno
import functools
import hashlib
import json
import os
import re
import reprlib
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

# Random bytes in the names of temporary files and folders.
_TOKEN_BYTES = 8
_ADVICE = (
    "; nothing half-written is left. Make room and run the same command again"
)
# Most symbolic links that Linux follows.
_MAX_LINKS = 40
_NULL = os.stat(os.devnull).st_rdev  # An empty input.
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
        link, its target is replaced. A pipe or a device, such as /dev/stdout,
        is written to directly, see `is_stream`.
      mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
      ValueError: if `path` is a disk.
      OSError: naming `path`, if the disk is full or not writable; no partial
        file remains.
    """
    encoding = None if "b" in mode else "utf-8"
    if is_stream(path):
        with naming(path), _open_stream(path, mode, encoding) as file:
            yield file
        return
    target = os.path.realpath(path)
    aside = _sibling(target, "tmp")
    with naming(path, aside):
        try:
            # "x" never opens an existing file.
            with open(aside, mode.replace("w", "x"), encoding=encoding) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, target)
            _sync(os.path.dirname(target))
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(aside)
            raise


def is_stream(path: str) -> bool:
    """Returns whether an output must be written to directly, not replaced.

    Renaming a file to /dev/null or /dev/stdout would, as root, remove the
    device for all programs of this machine.

    Args:
      path: path of a named pipe, a character device, a socket, an open file of
        this process (/dev/stdout, /dev/fd/3); or of a regular file, which need
        not exist.

    Raises:
      ValueError: if it is a block device, a disk.
      OSError: naming `path`, if it is a folder or cannot be looked up.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISBLK(mode):
        raise ValueError(
            f"{path} is a block device, and writing would destroy the data on "
            "it. Give a file."
        )
    return not stat.S_ISREG(mode) or _descriptor(path) is not None


def _descriptor(path: str) -> int | None:
    """Returns the number of the open file of this process that a path names."""
    own = re.compile(rf"/proc/{os.getpid()}(/task/\d+)?/fd")
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        if own.fullmatch(os.path.realpath(folder)) and name.isdecimal():
            return int(name)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None


def _open_stream(path: str, mode: str, encoding: str | None) -> IO:
    """Opens a path for which `is_stream` is true."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return open(path, mode, encoding=encoding)
    # Opening it again would truncate a file that stdout appends to.
    if sys.stdout is not None:
        sys.stdout.flush()
    return open(os.dup(descriptor), mode, encoding=encoding)


def check_output(
    name: str, path: str, inputs: Iterable[tuple[str, str | None]]
) -> None:
    """Checks the output of a command, before it begins.

    Args:
      name: flag of the output.
      path: path of a file; "-" for stdout.
      inputs: pairs of a flag and the path of an input, "-" for stdin; None and
        files that do not exist are skipped.

    Raises:
      ValueError: if the output is one of the inputs, or a disk.
      OSError: naming `path`, if it is a folder, or its folder does not exist.
    """
    output = "/dev/stdout" if path == "-" else path
    if path != "-" and not is_stream(path):
        folder = os.path.dirname(os.path.realpath(path))
        with naming(path, folder):
            os.stat(folder)
    if not os.path.isfile(output):  # A terminal or pipe may be both.
        return
    for flag, given in inputs:
        other = "/dev/stdin" if given == "-" else given
        if other and os.path.exists(other) and os.path.samefile(output, other):
            raise ValueError(
                f"--{name}={path} is the same file as --{flag}={given}, and "
                "would destroy this input. Choose another file."
            )


def check_is_finite(path: str) -> None:
    """Raises ValueError for an input without an end, such as /dev/zero."""
    with contextlib.suppress(OSError):  # Opening it reports the error.
        status = os.stat(path)
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev == _NULL:
            return
        with open(path, "rb", buffering=0) as file:
            if file.isatty():
                return
        raise ValueError(
            f"{path} is a device, which may have no end, and not a file. Give "
            "a file."
        )


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """Yields a folder to fill, which is renamed to `path` when complete.

    Until then it is a hidden folder, named as in `atomic_file`. Its contents
    are synced before the rename, and the rename is synced before the replaced
    folder is removed. At every moment `path` is the old folder or the new one,
    even after a kill.

    On file systems that cannot exchange two names atomically (some network
    file systems), the old folder is briefly `.<name>.<16 hex digits>.old`; if
    the writer is killed then, `remove_leftovers` restores it.

    Args:
      path: path of the folder; an existing one is replaced. If it is a
        symbolic link, its target is replaced.

    Raises:
      OSError: as in `atomic_file`.
    """
    target = os.path.realpath(path)
    aside = _sibling(target, "tmp")
    with naming(path, aside):
        try:
            _make_folders(aside)
            yield aside
            for folder, _, names in os.walk(aside):
                for name in names:
                    _sync(os.path.join(folder, name))
                _sync(folder)
            _replace(aside, target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
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
    shutil.rmtree(aside)


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
    pattern = re.compile(
        rf"\.({re.escape(prefix)}.*)\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.(tmp|old)"
    )
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        match = pattern.fullmatch(name)
        if not match:
            continue
        target = os.path.join(folder, match[1])
        if match[2] == "old" and not os.path.lexists(target):
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


def digest(path: str) -> str:
    """Returns the sha256 of a file's bytes."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def write_json(path: str, content: Mapping) -> None:
    """Writes a JSON file atomically."""
    with atomic_file(path) as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def read_json(path: str, expected: type = dict):
    """Returns the content of a JSON file, which in our files is an object.

    Args:
      path: path of the file.
      expected: type of the content; `object` for any.

    Raises:
      ValueError: naming the file, if it is not JSON or of another type.
    """
    check_is_finite(path)
    with open(path, "rb") as file:
        content = parse_json(file.read(), path)
    if not isinstance(content, expected):
        wanted = {dict: "one JSON object, {...}", list: "a JSON list, [...]"}
        raise ValueError(
            f"{path} should hold {wanted[expected]}; it holds "
            f"{reprlib.repr(content)}. Copy or make it again."
        )
    return content


def parse_json(content: bytes, source: str):
    """Returns the value of a JSON text in UTF-8, with or without a BOM.

    Raises:
      ValueError: naming `source`, if it is not JSON.
    """
    try:
        return json.loads(content.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{source} is not JSON: {error}.") from error
    except RecursionError:
        raise ValueError(
            f"{source} has JSON with brackets nested deeper than Python reads; "
            "none of its values should be. Copy or make it again."
        ) from None
