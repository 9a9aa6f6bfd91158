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

# A process that has the lock until it is killed; without TensorFlow.
_HOLDER = """
import sys, time
import run_scripts  # Keras waits.
from bert_tf.training import run_folder
assert "tensorflow" not in sys.modules
with run_folder.lock(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_until_the_first_is_killed(tmp_path):
    folder = str(tmp_path / "run")
    command = [sys.executable, "-c", _HOLDER, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"locked\n"
            with pytest.raises(ValueError) as raised:
                with run_folder.lock(folder):
                    pytest.fail("two have it")
            assert str(raised.value) == (
                f"{folder} is in use by another run, process {first.pid} on "
                f"host {socket.gethostname()}. Wait for its end or stop it, or "
                "choose another --output_dir."
            )
        finally:
            first.send_signal(signal.SIGKILL)
    # Nothing is to be cleared away.
    with run_folder.lock(folder):
        pass


def test_a_thread_has_it_alone_and_lets_go_after_an_error(tmp_path):
    folder = str(tmp_path)
    faults = []

    def take():
        try:
            with run_folder.lock(folder):
                faults.append("taken twice")
        except ValueError as error:
            faults.append(str(error))

    with pytest.raises(KeyError):
        with run_folder.lock(folder):
            thread = threading.Thread(target=take)
            thread.start()
            thread.join()
            raise KeyError
    assert len(faults) == 1 and f"process {os.getpid()} on" in faults[0]
    with run_folder.lock(folder):
        assert os.listdir(tmp_path) == [run_folder.LOCK]
    with (
        run_folder.lock(str(tmp_path / "a")),
        run_folder.lock(str(tmp_path / "b")),
    ):
        pass


def test_who_has_it_may_take_it_again(tmp_path):
    """As the training loop does within a script."""
    folder = str(tmp_path / "run")
    with run_folder.lock(folder):
        with run_folder.lock(os.path.relpath(folder)):
            pass
        command = [sys.executable, "-c", _HOLDER, folder]
        second = subprocess.run(command, capture_output=True, text=True)
        assert f"process {os.getpid()} on" in second.stderr


def test_who_is_not_the_chief_takes_none(tmp_path):
    folder = tmp_path / "run"
    with (
        run_folder.lock(str(folder)),
        run_folder.lock(str(folder), is_chief=False),
    ):
        pass
    with run_folder.lock(str(tmp_path / "other"), is_chief=False):
        assert os.listdir(tmp_path) == ["run"]


def test_a_holder_that_has_not_said_its_name_yet(tmp_path):
    with open(tmp_path / run_folder.LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="run, which has just begun. Wait"):
            with run_folder.lock(str(tmp_path)):
                pytest.fail("two have it")


def test_a_file_system_without_locks_is_named_and_used(
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
        "supported): see to it that no other run writes there"
    ]


def test_a_folder_that_cannot_be_made_is_an_error_of_its_own(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        with run_folder.lock(str(tmp_path / "file")):
            pytest.fail("no folder")


def test_an_open_run_is_locked_and_ends_at_a_sigterm(tmp_path):
    folder = str(tmp_path / "run")
    with pytest.raises(stopping.Stopped, match="by a SIGTERM"):
        with run_folder.open_run(folder):
            with run_folder.open_run(folder), stopping.after_step() as request:
                os.kill(os.getpid(), signal.SIGTERM)
                assert request.is_made
            assert os.listdir(folder) == [run_folder.LOCK]
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("nothing stopped this")
    # Nothing was written: no folder stays.
    assert not os.path.exists(folder)


def test_an_open_run_translates_a_lost_worker(tmp_path, monkeypatch):
    strategy = strategies.make_strategy("one_device")
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    monkeypatch.setattr(strategies, "is_chief", lambda strategy: False)
    message = "Collective ops is aborted by: /job:worker/replica:0/task:1"
    with pytest.raises(stopping.Stopped, match="another worker is gone"):
        with run_folder.open_run(str(tmp_path), strategy):
            raise tf.errors.UnavailableError(None, None, message)
    assert not os.listdir(tmp_path)  # The chief alone locks.


@pytest.fixture
def begun(tmp_path):
    """A folder that holds a checkpoint, and a run.json from before."""
    run_folder.check(str(tmp_path), {"task": "glue", "seed": 1})
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    return str(tmp_path)


def test_a_run_of_other_settings_is_refused(begun):
    run_folder.check(begun, {"task": "glue", "seed": 1})
    match = "holds another run:\n  optimizer: None there, 'lamb' now\nChoose"
    with pytest.raises(ValueError, match=match):
        run_folder.check(
            begun, {"task": "glue", "seed": 1, "optimizer": "lamb"}
        )


def test_one_setting_is_checked_alone(begun):
    run_folder.check_setting(begun, "seed", 1)
    with pytest.raises(ValueError, match="seed: 1 there, 2 now"):
        run_folder.check_setting(begun, "seed", 2)


def test_a_folder_without_work_is_taken(tmp_path):
    run_folder.check(str(tmp_path), {"seed": 1})
    run_folder.check(str(tmp_path), {"seed": 2})
    run_folder.check_setting(str(tmp_path), "seed", 3)


def test_only_the_chief_writes(tmp_path):
    run_folder.check(str(tmp_path), {"seed": 1}, is_chief=False)
    assert not os.listdir(tmp_path)


def test_a_folder_without_run_json_is_refused(begun):
    os.remove(os.path.join(begun, run_folder.FILE))
    with pytest.raises(ValueError, match="holds a run without a run.json"):
        run_folder.check(begun, {"seed": 1})


def test_a_best_model_without_checkpoints_is_of_another_run(tmp_path):
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match="best is of a run whose checkpoints"):
        run_folder.check(str(tmp_path), {"seed": 1})
    assert os.listdir(tmp_path) == ["best"]
