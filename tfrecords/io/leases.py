"""A folder in a store -> the lease of the one process that may write to it.

Stores have no locks. A lease is a file that its holder renews every few
seconds. Another process is refused while it is renewed, and takes over after
60 s without a renewal: the holder was killed.
"""

import contextlib
import json
import os
import secrets
import socket
import threading
import time

from absl import logging

from tfrecords.io import json_files, storage

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
