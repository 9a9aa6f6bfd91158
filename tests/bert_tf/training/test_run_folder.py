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
from bert_tf.training.run_folder import RunFolder
from tfrecords.io import leases

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
        assert os.listdir(tmp_path) == [leases.LOCK]
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
            assert os.listdir(folder) == [leases.LOCK]
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
    folder = RunFolder(str(tmp_path))
    folder.check({"task": "glue", "seed": 1})
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    return folder


def test_a_run_with_other_settings_is_rejected(begun):
    same = {"task": "glue", "seed": 1}
    begun.check(same)
    match = "other settings:\n  optimizer: was None, is now 'lamb'\nChoose"
    with pytest.raises(ValueError, match=match):
        begun.check(same | {"optimizer": "lamb"})
    begun.check_setting("seed", 1)
    with pytest.raises(ValueError, match="seed: was 1, is now 2"):
        begun.check_setting("seed", 2)


def test_an_open_folder_says_what_it_holds(begun, tmp_path):
    with run_folder.open_run(begun.path) as folder:
        assert (folder.path, folder.is_chief) == (str(tmp_path), True)
        assert folder.newest_step() == 10
        assert folder.settings() == {"task": "glue", "seed": 1}
        assert folder.best == str(tmp_path / "best")
        # As it is now, not as it was when the run was opened.
        (tmp_path / "checkpoints" / "step-00000020").mkdir()
        assert folder.newest_step() == 20
    assert RunFolder(str(tmp_path / "none")).settings() == {}


def test_a_folder_without_checkpoints_accepts_other_settings(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.check({"seed": 1})
    folder.check({"seed": 2})
    folder.check_setting("seed", 3)


def test_only_the_chief_writes_run_json(tmp_path):
    RunFolder(str(tmp_path), is_chief=False).check({"seed": 1})
    assert not os.listdir(tmp_path)


def test_a_run_without_run_json_is_rejected(begun):
    os.remove(os.path.join(begun.path, run_folder.FILE))
    with pytest.raises(ValueError, match="a run without run.json"):
        begun.check({})


def test_a_best_model_without_checkpoints_is_rejected(tmp_path):
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match="best belongs to a run whose check"):
        RunFolder(str(tmp_path)).check({"seed": 1})
    assert os.listdir(tmp_path) == ["best"]


def test_only_a_run_that_begins_anew_loses_its_results(begun, tmp_path):
    results = tmp_path / run_folder.RESULTS
    results.write_text("{}")
    begun.check({"task": "glue", "seed": 1})
    assert results.exists()
    (tmp_path / "checkpoints" / "step-00000010").rmdir()
    begun.check({"task": "glue", "seed": 2})
    assert not results.exists()
