"""Signals -> a checkpoint and an exit code; children end with their parent.

Machines are preempted with a SIGTERM and a grace period of some seconds; a
terminal that closes sends a SIGHUP. On both a run finishes its step, saves a
checkpoint and exits with a code that makes supervisors restart it.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from absl import logging

# sysexits.h: EX_TEMPFAIL, "temporary failure; the user is invited to retry".
# Not 0, after which supervisors do not restart; nor 143, the code of an
# unhandled SIGTERM, which systemd regards as a clean exit.
EXIT_CODE = 75
# For a run whose loss or weights became NaN or infinite.
DIVERGED_EXIT_CODE = 3
# Environment variable: process id of the script that started this one.
_PARENT = "BERT_TF_PARENT"
# linux/prctl.h
_PR_SET_PDEATHSIG = 1


class Stopped(Exception):
    """A run has stopped before its end, and can resume.

    Args:
      message: where and why it stopped, and how to resume.
      exit_code: exit code for the script.
    """

    def __init__(self, message: str, exit_code: int = EXIT_CODE):
        super().__init__(message)
        self.exit_code = exit_code


class Request:
    """A request to stop this process.

    Args:
      preemption_file: a file that makes the request when it appears, if given.
    """

    def __init__(self, preemption_file: str | None = None):
        self._file = preemption_file
        self._is_made = False

    @property
    def is_made(self) -> bool:
        """Whether the request has been made."""
        if self._file and not self._is_made and os.path.exists(self._file):
            self._make(self._file)
        return self._is_made

    def _make(self, why: str, more: str = "") -> None:
        self._is_made = True
        logging.warning(
            "%s: stopping after this step, with a checkpoint%s", why, more
        )

    def _on_signal(self, number, frame) -> None:
        del frame
        if self._is_made and number == signal.SIGINT:
            raise KeyboardInterrupt  # Second Ctrl-C: without a checkpoint.
        again = " (again: immediately)" if number == signal.SIGINT else ""
        self._make(signal.Signals(number).name, again)


def child_environment() -> dict[str, str]:
    """Returns the environment of a script that ends when this process does."""
    return os.environ | {_PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """Makes the kernel send SIGTERM when the parent ends, even if killed.

    Only in a process with a `child_environment`, and only on Linux. The child
    does this itself, since code between fork and exec may hang if the parent
    has threads.
    """
    parent = os.environ.pop(_PARENT, None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # It ended before.
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _handling(handler: Callable, *numbers: int) -> Iterator[None]:
    """Handles signals while the body runs, in the main thread.

    Elsewhere Python delivers no signals.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not (number == signal.SIGHUP and ignored):  # By nohup.
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextlib.contextmanager
def at_once_on_signal() -> Iterator[None]:
    """Raises Stopped immediately on a SIGTERM or SIGHUP.

    For all work outside of training steps, which the next start repeats.
    """

    def stop(number, frame):
        del frame
        name = signal.Signals(number).name
        raise Stopped(f"by {name}; the same command resumes or repeats it")

    with _handling(stop, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def after_step(preemption_file: str | None = None) -> Iterator[Request]:
    """Yields a Request that SIGTERM, SIGHUP and SIGINT make, or a file.

    Outside the main thread signals do not make it.
    """
    request = Request(preemption_file)
    numbers = signal.SIGTERM, signal.SIGHUP, signal.SIGINT
    with _handling(request._on_signal, *numbers):
        yield request
