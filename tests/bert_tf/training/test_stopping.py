import contextlib
import hashlib
import http.server
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from bert_tf.training import stopping

# Imported from its folder, so that child processes start without TensorFlow.
FOLDER = str(pathlib.Path(stopping.__file__).parent)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
)
def test_a_signal_makes_the_request(number):
    with stopping.after_step() as request:
        assert not request.is_made
        os.kill(os.getpid(), number)
        assert request.is_made


@pytest.fixture
def metadata_server():
    """Address and answers of a server like that of Google Cloud."""
    answers = {"/computeMetadata/v1/instance/preempted": b"FALSE"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_known = self.path in answers
            is_asked_well = self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200 if is_known and is_asked_well else 403)
            self.end_headers()
            self.wfile.write(answers.get(self.path, b""))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", answers
        server.shutdown()


def test_a_metadata_server_makes_the_request(
    metadata_server, monkeypatch, caplog
):
    monkeypatch.setattr(stopping, "_POLL_SECONDS", 0.05)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # Not used.
    address, answers = metadata_server
    assert not stopping.is_preempted(address)
    notified = threading.Event()
    with stopping.after_step(preemption_server=address) as request:
        request.notify(notified.set)
        assert not notified.wait(0.3) and not request.is_made
        answers.clear()  # An error is not an announcement.
        assert not notified.wait(0.3) and not request.is_made
        answers["/computeMetadata/v1/instance/preempted"] = b"TRUE\n"
        assert notified.wait(30) and request.is_made
    assert caplog.messages == [
        f"--preemption_server={address} does not answer (HTTP Error 403: "
        "Forbidden)",
        f"preemption announced by {address}: stopping after this step, with a "
        "checkpoint",
    ]


@pytest.mark.parametrize(
    "answer", [b"", b"NONE", b"TRUE or FALSE", b"<html>TRUE</html>", b"false"]
)
def test_only_true_announces_a_preemption(metadata_server, answer):
    address, answers = metadata_server
    answers["/computeMetadata/v1/instance/preempted"] = answer
    assert not stopping.is_preempted(address)


def test_a_signal_notifies_while_the_main_thread_is_in_a_long_call():
    """Python calls the handler only after that call."""
    notified = []
    with stopping.after_step() as request:
        request.notify(lambda: notified.append(time.monotonic()))
        arguments = os.getpid(), signal.SIGTERM
        timer = threading.Timer(0.1, os.kill, arguments)
        timer.start()
        # About a second in C, without the lock of the interpreter.
        hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)
        end = time.monotonic()
        timer.join()  # No signal after the handler is gone.
        assert request.is_made
    assert len(notified) == 1
    assert notified[0] < end - 0.1


def test_a_request_that_was_made_before_notifies_at_once():
    with stopping.after_step() as request:
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.is_made
        time.sleep(0.2)  # The thread has seen it, too.
        notified = []
        request.notify(lambda: notified.append(1))
        assert notified


def test_other_signals_do_not_notify():
    notified = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with stopping.after_step() as request:
            request.notify(notified.set)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not notified.wait(0.3) and not request.is_made
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT,)]
)
def test_only_a_sigint_after_another_signal_stops_immediately(signals):
    with pytest.raises(KeyboardInterrupt):
        with stopping.after_step() as request:
            for number in signals:
                os.kill(os.getpid(), number)
            assert request.is_made
            os.kill(os.getpid(), signal.SIGINT)


def test_previous_signal_handlers_are_restored():
    numbers = signal.SIGTERM, signal.SIGINT
    before = [signal.getsignal(number) for number in numbers]
    with stopping.after_step():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_outside_of_training_a_signal_stops_immediately(number):
    before = signal.getsignal(number)
    name = signal.Signals(number).name
    with pytest.raises(stopping.Stopped, match=f"by {name}") as info:
        with stopping.at_once_on_signal():
            os.kill(os.getpid(), number)
            raise AssertionError("not stopped")
    assert info.value.exit_code == 75
    assert signal.getsignal(number) is before


def test_no_library_ignores_or_changes_a_stop(caplog):
    numbers = signal.SIGTERM, signal.SIGINT
    for number, error in zip(
        numbers, (stopping.Stopped, KeyboardInterrupt), strict=True
    ):
        with pytest.raises(error), stopping.at_once_on_signal():
            with contextlib.suppress(Exception):  # As AutoGraph and Keras.
                os.kill(os.getpid(), number)
        with pytest.raises(error), stopping.at_once_on_signal():
            try:
                os.kill(os.getpid(), number)
            except BaseException:  # As the import of a library in C++.
                raise ImportError("initialization failed\nat 0") from None
    shown = "ImportError after the signal: initialization failed"
    assert caplog.messages == [shown, shown]
    with pytest.raises(ImportError), stopping.at_once_on_signal():
        raise ImportError("of its own")


def test_an_ignored_sigint_stays_ignored_outside_of_training():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping.at_once_on_signal():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_sighup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping.at_once_on_signal(), stopping.after_step() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not request.is_made
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_child_ends_with_its_killed_parent(tmp_path, is_late):
    # The child may ask for the signal only after its parent has ended.
    child = f"""
import os, signal, sys, time
sys.path.insert(0, {FOLDER!r})
import stopping
parent = os.getppid()
open("started", "w").close()
while {is_late} and os.getppid() == parent:
    time.sleep(0.01)
stopping.end_with_parent()
open("ready", "w").close()
time.sleep(60)
"""
    parent = f"""
import subprocess, sys
sys.path.insert(0, {FOLDER!r})
import stopping
subprocess.Popen(
    [sys.executable, "-c", {child!r}], env=stopping.child_environment()
).wait()
"""
    # The pipe is closed when both have ended.
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE
    ) as process:
        while not (tmp_path / ("started" if is_late else "ready")).exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        begin = time.monotonic()
        process.stdout.read()
        assert time.monotonic() - begin < 30
    assert (tmp_path / "ready").exists() != is_late


def test_without_that_environment_the_parent_does_not_matter():
    assert "BERT_TF_PARENT" not in os.environ
    stopping.end_with_parent()
