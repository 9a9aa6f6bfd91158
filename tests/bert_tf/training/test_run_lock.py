import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from bert_tf.training import run_lock

# A process that has the lock until it is killed; without TensorFlow.
_HOLDER = """
import importlib.util, sys, time
found = importlib.util.spec_from_file_location("run_lock", sys.argv[1])
run_lock = importlib.util.module_from_spec(found)
found.loader.exec_module(run_lock)
with run_lock.lock(sys.argv[2]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_until_the_first_is_killed(tmp_path):
    folder = str(tmp_path / "run")
    command = [sys.executable, "-c", _HOLDER, run_lock.__file__, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"locked\n"
            with pytest.raises(ValueError) as raised:
                with run_lock.lock(folder):
                    pytest.fail("two have it")
            assert str(raised.value) == (
                f"{folder} is in use by another run, process {first.pid} on "
                f"host {socket.gethostname()}. Wait for its end or stop it, or "
                "choose another --output_dir."
            )
        finally:
            first.send_signal(signal.SIGKILL)
    # Nothing is to be cleared away.
    with run_lock.lock(folder):
        pass


def test_a_thread_has_it_alone_and_lets_go_after_an_error(tmp_path):
    folder = str(tmp_path)
    faults = []

    def take():
        try:
            with run_lock.lock(folder):
                faults.append("taken twice")
        except ValueError as error:
            faults.append(str(error))

    with pytest.raises(KeyError):
        with run_lock.lock(folder):
            thread = threading.Thread(target=take)
            thread.start()
            thread.join()
            raise KeyError
    assert len(faults) == 1 and f"process {os.getpid()} on" in faults[0]
    with run_lock.lock(folder):
        assert os.listdir(tmp_path) == [run_lock.FILE]
    with run_lock.lock(str(tmp_path / "a")), run_lock.lock(str(tmp_path / "b")):
        pass


def test_who_has_it_may_take_it_again(tmp_path):
    """As the training loop does within a script."""
    folder = str(tmp_path / "run")
    with run_lock.lock(folder):
        with run_lock.lock(os.path.relpath(folder)):
            pass
        command = [sys.executable, "-c", _HOLDER, run_lock.__file__, folder]
        second = subprocess.run(command, capture_output=True, text=True)
        assert f"process {os.getpid()} on" in second.stderr


def test_who_is_not_the_chief_takes_none(tmp_path):
    folder = tmp_path / "run"
    with run_lock.lock(str(folder)), run_lock.lock(str(folder), is_chief=False):
        pass
    with run_lock.lock(str(tmp_path / "other"), is_chief=False):
        assert os.listdir(tmp_path) == ["run"]


def test_a_holder_that_has_not_said_its_name_yet(tmp_path):
    with open(tmp_path / run_lock.FILE, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="run, which has just begun. Wait"):
            with run_lock.lock(str(tmp_path)):
                pytest.fail("two have it")


def test_a_file_system_without_locks_is_named_and_used(
    tmp_path, monkeypatch, caplog
):
    def flock(handle, how):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level("WARNING", logger="absl"):
        with run_lock.lock(str(tmp_path)):
            pass
    assert caplog.messages == [
        f"{tmp_path} is on a file system without locks (Operation not "
        "supported): see to it that no other run writes there"
    ]


def test_a_folder_that_cannot_be_made_is_an_error_of_its_own(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        with run_lock.lock(str(tmp_path / "file")):
            pytest.fail("no folder")
