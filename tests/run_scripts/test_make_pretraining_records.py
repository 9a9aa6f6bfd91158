"""make_pretraining_records: its processes, killed and in error."""

import os
import signal
import subprocess
import sys
import time

import pytest
import run_processes

from run_scripts import make_pretraining_records
from tfrecords.io import records

TEXT = run_processes.DATA / "sentences.txt"


@pytest.fixture
def argv(tmp_path):
    words = run_processes.record_arguments(tmp_path / "out", dupe_factor=10)
    return ["make_pretraining_records", *words, "--held_out_prob=0"]


def test_token_files_left_by_a_kill_are_removed(argv, tmp_path):
    make_pretraining_records.main(argv)
    work = tmp_path / "out/work"
    work.mkdir()
    (work / "a.tokens").touch()
    make_pretraining_records.main(argv)
    assert not work.exists()


@pytest.mark.parametrize("flag", ["num_processes=2", "runner=spark"])
def test_the_original_needs_one_process(argv, flag):
    argv = [word for word in argv if "num_processes" not in word]
    words = [*argv, "--compat=original", f"--{flag}"]
    with pytest.raises(ValueError, match=f"{flag} cannot be combined with"):
        make_pretraining_records.main(words)


@pytest.fixture
def big_text(tmp_path):
    """Files that keep two workers busy for some seconds."""
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.txt").write_text(TEXT.read_text() * 40)
    return f"--input_file={folder}/*.txt"


def _start(argv):
    return subprocess.Popen(
        [sys.executable, "-m", "run_scripts.make_pretraining_records"]
        + argv[1:],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A background job of a shell inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        cwd=run_processes.ROOT,
    )


def _wait_for(folder, pattern, seconds=600):
    for _ in range(seconds * 100):
        if list(folder.glob(pattern)):
            return
        time.sleep(0.01)
    raise TimeoutError(pattern)


def _group_is_gone(group, seconds=600):
    for _ in range(seconds * 10):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, to_group, code",
    [
        (signal.SIGINT, True, 130),  # As a terminal does it.
        (signal.SIGTERM, True, 75),
        (signal.SIGHUP, True, 75),
        (signal.SIGTERM, False, 75),
        (signal.SIGKILL, False, -signal.SIGKILL),
    ],
)
def test_a_stopped_run_leaves_no_process_and_resumes(
    argv, big_text, tmp_path, kind, to_group, code
):
    argv = [*argv, big_text, "--num_processes=2", "--num_shards=24"]
    argv.append("--dupe_factor=6")
    process = _start(argv)
    _wait_for(tmp_path / "out", "train/*.tfrecord")
    (os.killpg if to_group else os.kill)(process.pid, kind)
    _, errors = process.communicate(timeout=600)
    assert _group_is_gone(process.pid)
    assert process.returncode == code
    if kind != signal.SIGKILL:
        assert "the same command resumes" in errors
        assert "Traceback" not in errors
        assert "leaked semaphore" not in errors
        assert not list((tmp_path / "out").rglob("*.tmp"))
    assert not (tmp_path / "out" / "train" / "manifest.json").exists()
    make_pretraining_records.main([*argv, "--num_processes=1"])
    assert len(records.Records.open(str(tmp_path / "out" / "train"))) > 0
    assert not list((tmp_path / "out").rglob("*.tmp"))


@pytest.mark.slow
def test_an_input_error_in_a_worker_is_printed_in_one_line(argv, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes(b"\xff\xfeT\0h\0e\0")
    argv = [*argv, f"--input_file={tmp_path}/*.txt", "--num_processes=2"]
    process = _start(argv)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "error: " in errors and "the file is UTF-16" in errors
    assert "Traceback" not in errors
    assert _group_is_gone(process.pid)
