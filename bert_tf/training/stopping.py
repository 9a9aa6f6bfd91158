"""Signals -> a checkpoint and an exit code; children end with their parent.

Machines are preempted with a SIGTERM and a grace period of some seconds; a
terminal that closes sends a SIGHUP. On both a run finishes its step, saves a
checkpoint and exits with a code that makes supervisors restart it.
"""

import contextlib
import ctypes
import http.client
import os
import select
import signal
import socket
import sys
import threading
import time
import urllib.request
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
_STOP_SIGNALS = signal.SIGTERM, signal.SIGHUP, signal.SIGINT
# Seconds between questions to the preemption server.
_POLL_SECONDS = 1.0
_SERVER_SECONDS = 2.0  # Until a server that does not answer is given up.


class Stopped(BaseException):
    """A run has stopped before its end, and can resume.

    A BaseException, like KeyboardInterrupt: a signal handler may raise it in
    code of AutoGraph or Keras, which catches every Exception, and would ignore
    or replace it.

    Args:
      message: where and why it stopped, and how to resume.
      exit_code: exit code for the script.
    """

    def __init__(self, message: str, exit_code: int = EXIT_CODE):
        super().__init__(message)
        self.exit_code = exit_code


class EarlyStopped(Stopped):
    """A run has ended before its last step, since it no longer improves."""


class Request:
    """A request to stop this process.

    Args:
      preemption_server: address of a metadata server that makes the request
        when it announces the preemption of this machine, if given.
    """

    def __init__(self, preemption_server: str | None = None):
        self._server = preemption_server
        # Locked once the request is made; a signal may interrupt anything.
        self._made = threading.Lock()
        self._functions: list[Callable] = []

    @property
    def is_made(self) -> bool:
        """Whether the request has been made."""
        return self._made.locked()

    def notify(self, function: Callable[[], object]) -> None:
        """Calls a function when the request is made, or now if it was.

        In another thread: Python calls signal handlers in the main thread,
        after the operation that it executes, and a call of TensorFlow may take
        minutes.
        """
        self._functions.append(function)
        if self.is_made:
            function()

    def _make(self, why: str, more: str = "") -> None:
        if self._made.acquire(blocking=False):
            logging.warning(
                "%s: stopping after this step, with a checkpoint%s", why, more
            )

    def _on_signal(self, number, frame) -> None:
        del frame
        if self._made.locked() and number == signal.SIGINT:
            raise KeyboardInterrupt  # Second Ctrl-C: without a checkpoint.
        again = " (again: immediately)" if number == signal.SIGINT else ""
        self._make(signal.Signals(number).name, again)

    def watch(self, signals: socket.socket) -> None:
        """Notifies when the request is made, or the socket gets a signal.

        Returns when the other end of the socket is closed.
        """
        is_notified = False
        while True:
            polls = self._server and not is_notified
            wait = _POLL_SECONDS if polls else None
            has_signal = False
            if select.select([signals], [], [], wait)[0]:
                number = signals.recv(1)
                if not number:
                    return
                has_signal = number[0] in _STOP_SIGNALS
            if not is_notified and (has_signal or self.is_made):
                is_notified = True
                for function in self._functions:
                    function()

    def ask_server(self, is_over: threading.Event) -> None:
        """Asks the server until it announces the preemption, or it is over."""
        while not (self.is_made or is_over.wait(_POLL_SECONDS)):
            self._ask_once()

    def _ask_once(self) -> None:
        try:
            if is_preempted(self._server):
                self._make(f"preemption announced by {self._server}")
        except OSError as error:
            # It may be restarted; the run resumes, and asks again.
            logging.log_first_n(
                logging.WARNING,
                "--preemption_server=%s does not answer (%s)",
                1,
                self._server,
                error,
            )


def is_preempted(server: str, attempts: int = 1) -> bool:
    """Returns whether a metadata server of Google Cloud announces preemption.

    Args:
      server: its address, such as metadata.google.internal.
      attempts: how often to ask a server that does not answer.

    Raises:
      OSError: if it cannot be asked, or does not know.
    """
    try:
        return _ask(server)
    except OSError:
        if attempts == 1:
            raise
    time.sleep(_POLL_SECONDS)
    return is_preempted(server, attempts - 1)


def _ask(server: str) -> bool:
    url = f"http://{server}/computeMetadata/v1/instance/preempted"
    headers = {"Metadata-Flavor": "Google"}
    # It is on this machine's own network, never behind a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(url, headers=headers)
        with opener.open(request, timeout=_SERVER_SECONDS) as response:
            return response.read(16).strip().upper() == b"TRUE"
    except (http.client.HTTPException, ValueError) as error:  # Not an address.
        raise OSError(str(error)) from error


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
    """Raises Stopped on SIGTERM or SIGHUP, KeyboardInterrupt on SIGINT.

    For all work outside of training steps, which the next start repeats. An
    ignored SIGINT stays ignored, as in a shell's background. If another error
    follows the signal, such as the ImportError of an interrupted import, it is
    logged, and the stop is raised instead.
    """
    made: list[BaseException] = []

    def stop(number, frame):
        del frame
        name = signal.Signals(number).name
        text = f"by {name}; the same command resumes or repeats it"
        is_interrupt = number == signal.SIGINT
        made.append(KeyboardInterrupt() if is_interrupt else Stopped(text))
        raise made[-1]

    numbers = list(_STOP_SIGNALS)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        numbers.remove(signal.SIGINT)
    with _handling(stop, *numbers):
        try:
            yield
        except Exception as error:
            if not made:
                raise
            # It may be of its own, if a library has ignored the signal.
            text = str(error).partition("\n")[0]
            name = type(error).__name__
            logging.warning("%s after the signal: %s", name, text)
            raise made[0] from None


def _ignore(number, frame) -> None:
    """Handles a signal after the work, until its status is known."""


@contextlib.contextmanager
def ignored_after(handler: Callable) -> Iterator[None]:
    """After the body, ignores the signals that `handler` is installed for.

    All has been written; `end_on_signal` follows.
    """
    try:
        yield
    finally:
        _replace(handler, _ignore)


def end_on_signal(status: int) -> None:
    """Makes signals that `ignored_after` ignores end this process at once.

    The end of Python waits for threads, which may hang.

    Args:
      status: status of the process, which a signal does not change.
    """
    _replace(_ignore, lambda *_: os._exit(status))


def _replace(old: Callable, new: Callable) -> None:
    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is old:
            signal.signal(number, new)


@contextlib.contextmanager
def after_step(preemption_server: str | None = None) -> Iterator[Request]:
    """Yields a Request that SIGTERM, SIGHUP and SIGINT make.

    Or a server, see Request. Outside the main thread signals do not make it.
    """
    request = Request(preemption_server)
    own, other = socket.socketpair()
    watcher = threading.Thread(target=request.watch, args=(other,), daemon=True)
    is_over = threading.Event()
    if preemption_server:
        # A thread of its own, which is not waited for: an answer may take long.
        threading.Thread(
            target=request.ask_server, args=(is_over,), daemon=True
        ).start()
    handling = _handling(request._on_signal, *_STOP_SIGNALS)
    with other, handling, _copied_to(own):
        watcher.start()
        try:
            yield request
        finally:
            is_over.set()
            own.shutdown(socket.SHUT_WR)
            watcher.join()


@contextlib.contextmanager
def _copied_to(wakeup: socket.socket) -> Iterator[None]:
    """Writes the number of each signal to a socket, in the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    with wakeup:
        wakeup.setblocking(False)  # As Python requires.
        if not is_main:
            yield
            return
        before = signal.set_wakeup_fd(
            wakeup.fileno(), warn_on_full_buffer=False
        )
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
