"""A folder -> the lock or lease of the one process that may write to it.

On a disk it is a kernel lock. Stores have none: a lease is a file that its
holder renews every few seconds. Another process is refused while it is renewed,
and takes over after 60 s without a renewal: the holder was killed.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator

import filelock
from absl import logging

from tfrecords.io import json_files, storage

LOCK = "run.lock"
NAME = "run.lease"
RENEWAL_SECONDS = 10.0
# The holder may be unable to reach the store for some time.
EXPIRY_SECONDS = 60.0
# Forms of its entries, see `json_files.check`.
_ENTRIES = {
    "token": str,
    "process": int,
    "host": str,
    "machine": str,
    "renewals": int,
}


class Lease(contextlib.AbstractContextManager):
    """The lease of a folder, which is renewed until the body ends.

    Raises:
      ValueError: on entering, if another process has it.
      OSError: likewise, if the store cannot be reached.
    """

    def __init__(self, folder: str):
        self.folder = folder
        self._path = f"{folder}/{NAME}"
        self._entries = {
            "token": secrets.token_hex(8),
            "process": os.getpid(),
            "host": socket.gethostname(),
            "machine": _machine(),
            "renewals": 0,
        }
        self._written = 0.0  # When the last renewal began.
        self._is_late = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> "Lease":
        """Waits until no other process has the lease, and writes this one."""
        before = self._read()
        if before and not _has_ended(before):
            self._wait(before)
        self._write()
        # Of two processes that write at the same time, the later one has it.
        time.sleep(min(1.0, RENEWAL_SECONDS / 10))
        self.check()
        self._thread.start()
        return self

    def _wait(self, before: dict) -> None:
        """Waits until a lease expires."""
        holder = f"process {before['process']} on host {before['host']}"
        logging.warning(
            "%s is in use by %s, or that was killed: waiting %g s to see "
            "whether it renews its lease",
            self.folder,
            holder,
            EXPIRY_SECONDS,
        )
        end = time.monotonic() + EXPIRY_SECONDS
        while time.monotonic() < end:
            time.sleep(RENEWAL_SECONDS / 10)
            now = self._read()
            if now is None:
                return
            if now != before:
                raise ValueError(
                    f"{self.folder} is in use by another run, {holder}. Wait "
                    "until it ends, stop it, or choose another folder."
                )
        logging.warning("%s did not renew its lease", holder)

    def check(self) -> None:
        """Raises ValueError if another process may have taken the lease."""
        now = self._read()
        is_other = now is None or now["token"] != self._entries["token"]
        if is_other or self._is_late:
            taken = "was removed"
            if not is_other:
                taken = "was renewed too late, as the store was not reached"
            elif now:
                taken = (
                    f"was taken by process {now['process']} on {now['host']}"
                )
            raise ValueError(
                f"The lease of this run, {self._path}, {taken}, so that "
                "nothing more is written there. Start the command again when "
                "no other run uses the folder; it resumes from the last "
                "checkpoint."
            )

    def __exit__(self, *_) -> None:
        """Ends the lease."""
        self._ends.set()
        self._thread.join()
        now = self._read()
        if now and now["token"] == self._entries["token"]:
            storage.remove(self._path)

    def _renew(self) -> None:
        while not self._ends.wait(RENEWAL_SECONDS):
            # If the store cannot be reached, or another process has the lease,
            # the next `check` reports it.
            with contextlib.suppress(OSError, ValueError):
                self.check()
                self._entries["renewals"] += 1
                self._write()

    def _read(self) -> dict | None:
        for is_last in (False, True):
            try:
                with storage.open_bytes(self._path) as file:
                    return json_files.parse(file.read(), self._path, _ENTRIES)
            except FileNotFoundError:
                # hdfs:// replaces a file by removing it first.
                if not is_last:
                    time.sleep(min(1.0, RENEWAL_SECONDS / 10))
        return None

    def _write(self) -> None:
        begin = time.monotonic()
        storage.make_folder(self.folder)
        try:
            with storage.atomic_file(self._path) as file:
                json.dump(self._entries, file)
        finally:
            # TensorFlow repeats failed requests for minutes. Meanwhile another
            # process may have taken the lease, and this write took it back.
            end = time.monotonic()
            is_slow = end - begin > RENEWAL_SECONDS
            if is_slow and end - self._written > EXPIRY_SECONDS:
                self._is_late |= self._thread.is_alive()  # It is no new lease.
        self._written = begin


def _machine() -> str:
    """Identifies this boot of this machine, and the container on it, if any.

    Names of hosts may be the same on several. "" if unknown.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _has_ended(entries: dict) -> bool:
    """Returns whether the holder is known to have ended: on this machine."""
    if not entries["machine"] or entries["machine"] != _machine():
        return False
    try:
        os.kill(entries["process"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


@contextlib.contextmanager
def lock_folder(folder: str, file: str | None = None) -> Iterator[None]:
    """Locks a folder while files are made in it, on a disk or in a store.

    `run.lock` is removed at the end, as records are copied and published.

    Args:
      folder: folder or address; created if missing.
      file: the file that is made of them, for the message.

    Raises:
      ValueError, OSError: as `take` and `Lease`.
    """
    storage.check_writable(folder)
    if not storage.is_local(folder):
        with Lease(folder.rstrip("/")):
            yield
        return
    is_new = not os.path.isdir(folder)
    held = take(folder, file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(folder, LOCK))
            # From here on another process may lock it: only an empty one goes.
            if is_new:
                os.rmdir(folder)
        held.release()


def take(folder: str, file: str | None = None) -> filelock.FileLock:
    """Returns the lock of a folder, acquired if the file system has locks.

    Args:
      folder: folder on a disk; created if missing.
      file: as in `lock_folder`.

    Raises:
      ValueError: if another process holds the lock. The message has its id and
        host.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(os.path.realpath(folder), LOCK)
    held = filelock.FileLock(
        path,
        timeout=0,
        is_singleton=True,  # Makes it reentrant.
        fallback_to_soft=False,  # A soft lock would remain after a kill.
        on_acquired=_write_holder,
    )
    try:
        held.acquire()
    except filelock.Timeout:
        if not os.path.exists(path):
            # A run that failed has removed it in the meantime.
            return take(folder, file)
        raise ValueError(
            f"{file or folder} is in use by another run, {_holder(path)}. Wait "
            "until it ends, stop it, or choose another "
            f"{'file' if file else 'folder'}."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise
        logging.warning(
            "%s is on a file system without locks (%s): make sure that no "
            "other run writes to it",
            file or folder,
            error.strerror,
        )
    return held


def _write_holder(handle: int) -> None:
    # Only for messages, so ignore a full disk.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        name = f"{os.getpid()} {socket.gethostname()}\n"
        os.pwrite(handle, name.encode(), 0)


def _holder(path: str) -> str:
    """Returns a description of the process that holds the lock."""
    words = []
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        words = file.read(1000).decode(errors="replace").split()
    # The file is briefly empty, between acquiring the lock and writing to it.
    if len(words) != 2:
        return "which has just started"
    return f"process {words[0]} on host {words[1]}"
