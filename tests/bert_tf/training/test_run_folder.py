import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from bert_tf.training import run_folder, stopping, strategies

# A process, without TensorFlow, that holds the lock until it is killed.
_HOLDER = """
import sys, time
from bert_tf.training import run_folder
assert "tensorflow" not in sys.modules
with run_folder.lock(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_rejected_until_the_first_is_killed(tmp_path):
    folder = str(tmp_path / "run")
    command = [sys.executable, "-c", _HOLDER, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"locked\n"
            with pytest.raises(ValueError) as raised:
                with run_folder.lock(folder):
                    pytest.fail("locked twice")
            assert str(raised.value) == (
                f"{folder} is in use by another run, process {first.pid} on "
                f"host {socket.gethostname()}. Wait until it ends, stop it, or "
                "choose another folder."
            )
        finally:
            first.send_signal(signal.SIGKILL)
    # No cleanup is needed.
    with run_folder.lock(folder):
        pass


def test_another_thread_is_rejected_and_an_error_releases_the_lock(tmp_path):
    folder = str(tmp_path)
    messages = []

    def acquire():
        try:
            with run_folder.lock(folder):
                messages.append("locked twice")
        except ValueError as error:
            messages.append(str(error))

    with pytest.raises(KeyError):
        with run_folder.lock(folder):
            thread = threading.Thread(target=acquire)
            thread.start()
            thread.join()
            raise KeyError
    assert len(messages) == 1 and f"process {os.getpid()} on" in messages[0]
    with run_folder.lock(folder):
        assert os.listdir(tmp_path) == [run_folder.LOCK]
    with (
        run_folder.lock(str(tmp_path / "a")),
        run_folder.lock(str(tmp_path / "b")),
    ):
        pass


def test_the_lock_is_reentrant(tmp_path):
    """The training loop locks the folder again within a script."""
    folder = str(tmp_path / "run")
    with run_folder.lock(folder):
        with run_folder.lock(os.path.relpath(folder)):
            pass
        command = [sys.executable, "-c", _HOLDER, folder]
        second = subprocess.run(command, capture_output=True, text=True)
        assert f"process {os.getpid()} on" in second.stderr


def test_only_the_chief_acquires_the_lock(tmp_path):
    folder = tmp_path / "run"
    with (
        run_folder.lock(str(folder)),
        run_folder.lock(str(folder), is_chief=False),
    ):
        pass
    with run_folder.lock(str(tmp_path / "other"), is_chief=False):
        assert os.listdir(tmp_path) == ["run"]


def test_a_file_system_without_locks_is_used_with_a_warning(
    tmp_path, monkeypatch, caplog
):
    def flock(handle, how):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level("WARNING", logger="absl"):
        with run_folder.lock(str(tmp_path)):
            pass
    assert caplog.messages == [
        f"{tmp_path} is on a file system without locks (Operation not "
        "supported): make sure that no other run writes to it"
    ]


def test_an_open_run_is_locked_and_stops_on_sigterm(tmp_path):
    folder = str(tmp_path / "run")
    with pytest.raises(stopping.Stopped, match="by SIGTERM"):
        with run_folder.open_run(folder):
            with run_folder.open_run(folder), stopping.after_step() as request:
                os.kill(os.getpid(), signal.SIGTERM)
                assert request.is_made
            assert os.listdir(folder) == [run_folder.LOCK]
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("not stopped")
    # Nothing was written, so the folder is removed.
    assert not os.path.exists(folder)


def test_an_open_run_translates_a_lost_worker(tmp_path, monkeypatch):
    strategy = strategies.make_strategy("one_device")
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    monkeypatch.setattr(strategies, "is_chief", lambda strategy: False)
    message = "Collective ops is aborted by: /job:worker/replica:0/task:1"
    with pytest.raises(stopping.Stopped, match="another worker has ended"):
        with run_folder.open_run(str(tmp_path), strategy):
            raise tf.errors.UnavailableError(None, None, message)
    assert not os.listdir(tmp_path)  # Only the chief locks.


@pytest.fixture
def begun(tmp_path):
    """A run's folder with run.json and a checkpoint."""
    run_folder.check(str(tmp_path), {"task": "glue", "seed": 1})
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    return str(tmp_path)


def test_a_run_with_other_settings_is_rejected(begun):
    same = {"task": "glue", "seed": 1}
    run_folder.check(begun, same)
    match = "other settings:\n  optimizer: was None, is now 'lamb'\nChoose"
    with pytest.raises(ValueError, match=match):
        run_folder.check(begun, same | {"optimizer": "lamb"})
    run_folder.check_setting(begun, "seed", 1)
    with pytest.raises(ValueError, match="seed: was 1, is now 2"):
        run_folder.check_setting(begun, "seed", 2)


def test_a_folder_without_checkpoints_accepts_other_settings(tmp_path):
    run_folder.check(str(tmp_path), {"seed": 1})
    run_folder.check(str(tmp_path), {"seed": 2})
    run_folder.check_setting(str(tmp_path), "seed", 3)


def test_only_the_chief_writes_run_json(tmp_path):
    run_folder.check(str(tmp_path), {"seed": 1}, is_chief=False)
    assert not os.listdir(tmp_path)


def test_a_run_without_run_json_is_rejected(begun):
    os.remove(os.path.join(begun, run_folder.FILE))
    for read in (run_folder.read_settings, lambda x: run_folder.check(x, {})):
        with pytest.raises(ValueError, match="a run without run.json"):
            read(begun)


def test_a_best_model_without_checkpoints_is_rejected(tmp_path):
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match="best belongs to a run whose check"):
        run_folder.check(str(tmp_path), {"seed": 1})
    assert os.listdir(tmp_path) == ["best"]
