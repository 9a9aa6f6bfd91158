"""Folder of a run -> a lock on it, so that no second run writes there."""

import contextlib
import errno
import fcntl
import os
import socket
import threading
from collections.abc import Iterator

from absl import logging

FILE = "run.lock"

# Folders that this process has locked -> the thread that did.
_held: dict[str, int] = {}


@contextlib.contextmanager
def lock(output_dir: str, is_chief: bool = True) -> Iterator[None]:
    """Keeps other processes out of a run's folder while the body runs.

    The lock is the kernel's (flock(2)) on `run.lock` and goes with its process,
    however that ends, so a kill leaves nothing to clear away. The file stays
    and means nothing by itself, but in a new folder that a failed body has left
    empty: that goes. Of a run with several workers the chief alone takes it.

    NFS passes the lock on to its server (Linux since 2.6.12), so it holds
    between machines; Lustre does with its `flock` mount option, and with
    `localflock` within a machine. Where a file system has no locks at all, as
    those that show an object store, a warning says so and the run goes on:
    there it is on the user to start one run in a folder.

    A body may lock the same folder once more, as a script does around the
    training loop.

    Args:
      output_dir: of the run; made if it is not there.
      is_chief: whether this process takes it; else there is nothing to do.

    Raises:
      ValueError: if another process has the lock; names it, and its host.
    """
    place = os.path.realpath(output_dir)
    if not is_chief or _held.get(place) == threading.get_ident():
        yield
        return
    is_new = not os.path.isdir(output_dir)
    handle = _open(output_dir)
    try:
        _held[place] = threading.get_ident()
        yield
    except BaseException:
        if is_new:
            _remove_if_empty(output_dir)
        raise
    finally:
        del _held[place]
        os.close(handle)


def _open(output_dir: str) -> int:
    """Returns the handle of a lock file that this process has locked."""
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, FILE)
    # Not inherited by programs that are started, which may live longer.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _take(handle, output_dir)
        # Somebody may have removed it between its opening and the lock.
        if os.path.exists(path) and os.path.samestat(
            os.stat(path), os.fstat(handle)
        ):
            return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return _open(output_dir)


def _remove_if_empty(output_dir: str) -> None:
    """Leaves no folder of a run that was refused before it wrote anything."""
    if os.listdir(output_dir) == [FILE]:
        os.remove(os.path.join(output_dir, FILE))
        with contextlib.suppress(OSError):
            os.rmdir(output_dir)


def _take(handle: int, output_dir: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"{output_dir} is in use by another run, {_holder(handle)}. Wait "
            "for its end or stop it, or choose another --output_dir."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise
        logging.warning(
            "%s is on a file system without locks (%s): see to it that no "
            "other run writes there",
            output_dir,
            error.strerror,
        )
        return
    # Only for messages, so a full disk does not matter here.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        name = f"{os.getpid()} {socket.gethostname()}\n"
        os.pwrite(handle, name.encode(), 0)


def _holder(handle: int) -> str:
    """Returns who has the lock, as it says in the file."""
    words = os.pread(handle, 1000, 0).decode(errors="replace").split()
    # Empty for a moment, between its lock and its name.
    if len(words) != 2:
        return "which has just begun"
    return f"process {words[0]} on host {words[1]}"
