"""SIGTERM and SIGINT -> a training that stops after its step, saved.

Machines are taken away with a SIGTERM and some seconds of grace. A run that
gets one finishes its step, writes a checkpoint and ends with an exit code
that supervisors take for "start me again".
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

from absl import logging

# sysexits.h: EX_TEMPFAIL, "temporary failure; the user is invited to retry".
# Not 0, after which supervisors do not restart; nor 143, the mark of a SIGTERM
# that nothing handled, which systemd takes for a clean end.
EXIT_CODE = 75
# Of a training whose loss or weights became NaN or infinite.
DIVERGED_EXIT_CODE = 3


class Stopped(Exception):
    """A run has stopped before its end, and can resume.

    Args:
      message: where and why, and what to do.
      exit_code: that a script should end with.
    """

    def __init__(self, message: str, exit_code: int = EXIT_CODE):
        super().__init__(message)
        self.exit_code = exit_code


class Request:
    """Whether this process was asked to stop.

    Attributes:
      is_made: whether so.
    """

    def __init__(self):
        self.is_made = False

    def _make(self, number, frame) -> None:
        del frame
        if self.is_made and number == signal.SIGINT:
            raise KeyboardInterrupt  # Twice: at once, without a checkpoint.
        self.is_made = True
        logging.warning(
            "%s: stops after this step, with a checkpoint%s",
            signal.Signals(number).name,
            " (once more: at once)" if number == signal.SIGINT else "",
        )


@contextlib.contextmanager
def at_once_on_sigterm() -> Iterator[None]:
    """Raises Stopped at a SIGTERM, where there is no step to finish.

    For what a script does before and after its training: it is done anew by
    the next start.
    """

    def stop(number, frame):
        del number, frame
        raise Stopped("by a SIGTERM; the same command resumes from here")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def after_step() -> Iterator[Request]:
    """Yields the request to stop that SIGTERM and SIGINT make in its body.

    In a thread that is not the main one, where Python delivers no signals, it
    yields a request that is never made.
    """
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {
        number: signal.signal(number, request._make)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
