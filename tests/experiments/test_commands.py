import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from experiments import commands
from experiments.commands import Job
from tfrecords.io import json_files

ROOT = str(pathlib.Path(__file__).parents[2])
# Ends when the other one has begun too.
_MEETS = """
import os, sys, time
name, other = (word.partition("=")[2] for word in sys.argv[1:])
print(sorted(os.sched_getaffinity(0)))
open(name, "w").close()
end = time.monotonic() + 60.0
while not os.path.exists(other):
    assert time.monotonic() < end
    time.sleep(0.05)
"""
# Ends with a signal only, as if it had saved a checkpoint.
_WAITS = """
import signal, sys, time
def save(number, frame):
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
open("waits", "w").close()
time.sleep(600)
"""
_SCRIPTS = {
    "__init__": "",
    "good": "import sys; print(sys.argv[1:])\n",
    "bad": "raise SystemExit('the disk is full')\n",
    "diverged": "raise SystemExit(3)\n",
    "stopped": "raise SystemExit(75)\n",
    "meets": _MEETS,
    "waits": _WAITS,
}


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Makes a package in place of run_scripts; returns a folder for runs."""
    folder = tmp_path / "python" / "run_scripts"
    folder.mkdir(parents=True)
    for name, code in _SCRIPTS.items():
        (folder / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def jobs_of(*scripts):
    return [
        Job(f"part/{name}-{i}", name, {"steps": 5, "name": "a b"}, 10.0)
        for i, name in enumerate(scripts)
    ]


def run(jobs, folder, **options):
    options = commands.PlanOptions(output_dir=str(folder), **options)
    progress = commands.Progress(jobs, options)
    done = commands.run(progress)
    return [job.name for job in done], progress


def test_jobs_run_once_and_leave_flags_seconds_and_a_log(scripts):
    jobs = jobs_of("good", "good")
    done, progress = run(jobs, scripts)
    assert done == ["part/good-0", "part/good-1"]
    assert progress.line().startswith("2 of 2 commands done, about 0:00 left")
    log = (scripts / "logs/part/good-0.log").read_text()
    assert log == "['--steps=5', '--name=a b']\n"
    left = json_files.read(scripts / "done/part/good-0.json")
    assert left["flags"] == jobs[0].flags and left["seconds"] > 0
    assert run(jobs, scripts)[0] == []
    more = [*jobs, Job("part/new", "good", {}, 1.0)]
    assert run(more, scripts)[0] == ["part/new"]


def test_a_failed_job_shows_its_log_and_is_not_done(scripts):
    jobs = jobs_of("good", "bad", "good")
    message = "bad-1 ended with exit code 1:\nthe disk is full\n.*bad-1.log"
    with pytest.raises(ValueError, match=message):
        run(jobs, scripts)
    assert commands.read_done(str(scripts), jobs[0])
    assert commands.read_done(str(scripts), jobs[1]) is None
    assert not (scripts / "logs/part/good-2.log").exists()


def test_the_plan_continues_without_diverged_jobs(scripts, caplog):
    jobs = [
        Job("pretrained/x", "diverged", {}, 10.0),
        Job("fine_tuned/x", "good", {}, 10.0, needs=("pretrained/x",)),
        Job("pretrained/xy", "good", {}, 10.0),
    ]
    done, progress = run(jobs, scripts)
    assert done == ["pretrained/x", "pretrained/xy"]
    assert progress.line() == "2 of 3 commands done, about 0:00 left"
    assert "pretrained/x diverged; the report has a dash" in caplog.text
    # It would diverge again; without its file, it is tried again.
    assert run(jobs, scripts)[0] == []
    (scripts / "done/pretrained/x.json").unlink()
    assert run(jobs, scripts)[0] == ["pretrained/x"]


def test_a_job_done_with_other_flags_is_refused(scripts):
    job = jobs_of("good")[0]
    run([job], scripts)
    other = job._replace(flags={"steps": 6, "name": "a b"})
    with pytest.raises(ValueError, match="other flags: steps: was 5, is now 6"):
        run([other], scripts)


def test_seconds_include_all_attempts(scripts, monkeypatch):
    (job,) = jobs_of("stopped")
    now, started = [0.0], []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    def sleep(seconds):
        # Until the job has ended; it is left for the poll.
        os.waitid(os.P_PID, started[-1].pid, os.WEXITED | os.WNOWAIT)
        now[0] += 14.0

    monkeypatch.setattr(commands.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(commands.time, "sleep", sleep)
    monkeypatch.setattr(commands.subprocess, "Popen", Popen)
    # Scripts of the same size, written in the same second, share byte code.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def attempt(code):
        script = pathlib.Path("python/run_scripts/stopped.py")
        script.write_text(f"raise SystemExit({code})\n")
        run([job], scripts)

    left = scripts / f"stopped/{job.name}.json"
    for number, code, error, message in (
        (1, 75, commands.stopping.Stopped, "stopped-0; the"),
        (2, 1, ValueError, "stopped-0 ended with exit code 1"),
    ):
        with pytest.raises(error, match=message):
            attempt(code)
        assert commands.read_done(str(scripts), job) is None
        assert json_files.read(left)["seconds"] == number * 14.0
    attempt(0)
    assert commands.read_done(str(scripts), job)["seconds"] == 3 * 14.0
    assert not left.exists()


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="needs CPU affinity (Linux)"
)
def test_two_jobs_at_a_time_have_their_own_cores(scripts):
    cores = sorted(os.sched_getaffinity(0))
    jobs = [
        Job(f"meet/{name}", "meets", {"own": name, "other": other}, 1.0)
        for name, other in (("a", "b"), ("b", "a"))
    ]
    done, _ = run(jobs, scripts, num_processes=2)
    assert sorted(done) == ["meet/a", "meet/b"]
    first, second = (
        json.loads((scripts / f"logs/{job.name}.log").read_text())
        for job in jobs
    )
    both = sorted(first + second)
    assert both == (cores if len(cores) > 1 else cores * 2)


def test_a_job_waits_for_those_it_needs(scripts):
    flags = {"own": "a", "other": "b"}
    jobs = [
        Job("meet/a", "meets", flags, 1.0),
        Job("after", "good", {}, 1.0, needs=("meet/a",)),
        Job("meet/b", "meets", {"own": "b", "other": "a"}, 1.0),
    ]
    done, _ = run(jobs, scripts, num_processes=2)
    assert done.index("after") > done.index("meet/a")


def test_a_failure_stops_the_other_jobs(scripts):
    jobs = [
        Job("long", "waits", {}, 1.0),
        Job("meet", "meets", {"own": "a", "other": "waits"}, 1.0),
        Job("bad", "bad", {}, 1.0, needs=("meet",)),
    ]
    with pytest.raises(ValueError, match="bad ended with exit code 1"):
        run(jobs, scripts, num_processes=2)
    assert json_files.read(scripts / "stopped/long.json")["seconds"] > 0
    assert not (scripts / "done/long.json").exists()


def test_estimates_are_corrected_by_finished_jobs(scripts):
    jobs = jobs_of("good", "good", "bad")
    path = scripts / "done/part/good-0.json"
    path.parent.mkdir(parents=True)
    left = {"seconds": 30.0, "flags": jobs[0].flags, "diverged": False}
    json_files.write(path, left)
    options = commands.PlanOptions(output_dir=str(scripts))
    progress = commands.Progress(jobs, options)
    assert progress.factor("good") == 3.0
    assert progress.factor("bad") == 1.0
    assert progress.rest() == 30.0 + 10.0
    assert progress.line() == "1 of 3 commands done, about 0:40 left"
    both = dataclasses.replace(options, num_processes=2)
    # The first of two jobs takes 30 seconds.
    assert commands.Progress(jobs, both).rest() == 30.0
    more = [*jobs, jobs[0]._replace(name="one"), jobs[0]._replace(name="two")]
    assert commands.Progress(more, both).rest() == (30 + 10 + 30 + 30) / 2


@pytest.mark.slow
def test_a_sigterm_reaches_the_job_and_the_plan_stops(scripts):
    """A plan in a separate process, whose job saves before it ends."""
    plan = (
        "import sys\n"
        "from experiments import commands\n"
        "from bert_tf.training import stopping\n"
        "jobs = [commands.Job('slow', 'waits', {}, 60.0)]\n"
        "options = commands.PlanOptions(output_dir='out')\n"
        "try:\n"
        "    with stopping.at_once_on_signal():\n"
        "        list(commands.run(commands.Progress(jobs, options)))\n"
        "except stopping.Stopped as stopped:\n"
        "    sys.exit(stopped.exit_code)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[0] = {ROOT!r}\n{plan}"]
    )
    deadline = time.monotonic() + 600
    while not os.path.exists("waits"):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 75
    assert (scripts / "logs/slow.log").read_text() == "saved\n"
    assert not (scripts / "done").exists()
    assert json_files.read(scripts / "stopped/slow.json")["seconds"] > 0
