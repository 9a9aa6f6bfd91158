"""processes.py: results and errors of workers reach the driver."""

import math
import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from tfrecords.engines import processes


def run(num_processes, function, jobs):
    with processes.Workers(num_processes) as workers:
        return dict(
            workers.run(function, jobs, [1] * len(jobs), name="n", unit="u")
        )


def test_one_process_is_this_process():
    assert run(1, lambda job: job + os.getpid(), [1]) == {1: 1 + os.getpid()}


def test_no_jobs_give_no_results():
    assert run(1, math.sqrt, []) == {}


def test_an_error_of_a_job_is_raised():
    with pytest.raises(ValueError, match="math domain error"):
        run(1, math.sqrt, [4, -1])


def test_an_error_of_the_first_job_is_not_hidden():
    """In a process that has not yet imported what other processes need."""
    code = """
import math
from tfrecords.engines import processes
with processes.Workers(1) as workers:
    list(workers.run(math.sqrt, [-1], [1], name="n", unit="u"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines()[-1] == "ValueError: math domain error"


def take_all_memory(job):
    raise MemoryError("Unable to allocate 7 TiB")


def test_a_worker_without_memory_is_reported():
    with pytest.raises(ChildProcessError, match="7 TiB.*Lower --num_proc"):
        run(1, take_all_memory, [1])


def test_zero_processes_are_rejected():
    with pytest.raises(
        ValueError, match="num_processes=0 should be from 1 to 1,"
    ):
        processes.Workers(0)


def test_after_an_error_only_own_workers_are_killed():
    other = multiprocessing.get_context("spawn").Process(
        target=time.sleep, args=(60,)
    )
    other.start()
    try:
        with pytest.raises(KeyError), processes.Workers(2):
            raise KeyError
        other.join(0.2)
        assert other.is_alive()
    finally:
        other.kill()
        other.join()


@pytest.mark.slow
def test_workers_give_the_same_results_and_errors():
    with pytest.raises(ValueError, match="math domain error"):
        with processes.Workers(2) as workers:
            for jobs in ([1, 4, 9], [4, -1, 9]):
                found = dict(
                    workers.run(math.sqrt, jobs, [1, 1, 1], name="n", unit="u")
                )
                assert found == {1: 1, 4: 2, 9: 3}
    assert not multiprocessing.active_children()


def state_of_worker(job):
    time.sleep(1)  # So that another worker takes the other job.
    names = ("tensorflow_text", "keras", "sklearn")
    threads = len(os.listdir("/proc/self/task"))
    loaded = [name for name in names if name in sys.modules]
    return os.getpid(), os.getppid(), threads, loaded


@pytest.mark.slow
def test_workers_are_forks_of_a_process_that_imported_tensorflow_alone():
    first, second = run(2, state_of_worker, [1, 2]).values()
    assert first[0] != second[0]
    assert first[1] == second[1] != os.getpid()
    # Of Python, that watches the driver, and that reads jobs: none was forked.
    assert first[2:] == second[2:] == (2, ["tensorflow_text"])


@pytest.mark.slow
def test_workers_ignore_another_version_in_the_working_folder(tmp_path):
    (tmp_path / "tfrecords").mkdir()
    (tmp_path / "tfrecords/__init__.py").write_text("raise SystemExit('other')")
    script = tmp_path / "script" / "run.py"
    script.parent.mkdir()
    script.write_text(
        "from tfrecords.engines import processes\n"
        "if __name__ == '__main__':\n"
        "    with processes.Workers(2) as workers:\n"
        "        print(*workers.results(len, ['ab'], 'n'))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "(0, 2)\n", done.stderr


def test_a_folder_too_deep_for_a_socket_is_named(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    code = "from tfrecords.engines import processes; processes.Workers(2)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ChildProcessError: Workers need a socket in TMPDIR")
    assert str(folder) in last


@pytest.mark.slow
def test_a_worker_that_dies_is_reported():
    with pytest.raises(ChildProcessError, match="Lower --num_processes"):
        run(2, os._exit, [1, 1])
    assert not multiprocessing.active_children()
