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

    Attributes:
      is_made: whether it has been made.
    """

    def __init__(self):
        self.is_made = False

    def _make(self, number, frame) -> None:
        del frame
        if self.is_made and number == signal.SIGINT:
            raise KeyboardInterrupt  # Second Ctrl-C: without a checkpoint.
        self.is_made = True
        logging.warning(
            "%s: stopping after this step, with a checkpoint%s",
            signal.Signals(number).name,
            " (again: immediately)" if number == signal.SIGINT else "",
        )


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
def after_step() -> Iterator[Request]:
    """Yields a Request that SIGTERM, SIGHUP and SIGINT make.

    Outside the main thread the request is never made.
    """
    request = Request()
    numbers = signal.SIGTERM, signal.SIGHUP, signal.SIGINT
    with _handling(request._make, *numbers):
        yield request
