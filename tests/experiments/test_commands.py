import dataclasses
import json
import os
import pathlib

import pytest

from experiments import commands
from experiments.commands import Job
from tfrecords.io import json_files

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
    # Scripts of the same size, written in the same second, share byte code.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
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
    return [job.name for job in commands.run(progress)], progress


def test_jobs_run_once_with_their_flags_and_leave_a_log(scripts):
    jobs = jobs_of("good", "good")
    done, progress = run(jobs, scripts)
    assert done == ["part/good-0", "part/good-1"]
    assert progress.line().startswith("2 of 2 commands done, about 0:00 left")
    log = (scripts / "logs/part/good-0.log").read_text()
    assert log == "['--steps=5', '--name=a b']\n"
    more = [*jobs, Job("part/new", "good", {}, 1.0)]
    assert run(more, scripts)[0] == ["part/new"]
    other = jobs[0]._replace(flags={"steps": 6, "name": "a b"})
    with pytest.raises(ValueError, match="other flags: steps: was 5, is now 6"):
        run([other], scripts)


def test_the_plan_continues_without_diverged_jobs(scripts):
    jobs = [
        Job("pretrained/x", "diverged", {}, 10.0),
        Job("fine_tuned/x", "good", {}, 10.0, needs=("pretrained/x",)),
        Job("pretrained/xy", "good", {}, 10.0),
    ]
    assert run(jobs, scripts)[0] == ["pretrained/x", "pretrained/xy"]
    # It would diverge again; without its file, it is tried again.
    assert run(jobs, scripts)[0] == []
    (scripts / "done/pretrained/x.json").unlink()
    assert run(jobs, scripts)[0] == ["pretrained/x"]


def test_seconds_include_stopped_and_failed_attempts(scripts):
    (job,) = jobs_of("stopped")
    left = scripts / f"stopped/{job.name}.json"
    seconds = [0.0]
    for code, error, message in (
        (75, commands.stopping.Stopped, "stopped-0; the"),
        (
            "'the disk is full'",
            ValueError,
            "code 1:\nthe disk is full\n.*0.log",
        ),
    ):
        script = pathlib.Path("python/run_scripts/stopped.py")
        script.write_text(f"raise SystemExit({code})\n")
        with pytest.raises(error, match=message):
            run([job], scripts)
        assert commands.read_done(str(scripts), job) is None
        seconds.append(json_files.read(left)["seconds"])
    script.write_text("")
    run([job], scripts)
    seconds.append(commands.read_done(str(scripts), job)["seconds"])
    # Each attempt waits for half a second.
    assert all(b - a > 0.4 for a, b in zip(seconds, seconds[1:], strict=False))
    assert not left.exists()


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="needs CPU affinity (Linux)"
)
def test_two_jobs_have_their_own_cores_and_a_third_waits_for_one(scripts):
    cores = sorted(os.sched_getaffinity(0))
    jobs = [
        Job("meet/a", "meets", {"own": "a", "other": "b"}, 1.0),
        Job("after", "good", {}, 1.0, needs=("meet/a",)),
        Job("meet/b", "meets", {"own": "b", "other": "a"}, 1.0),
    ]
    done, _ = run(jobs, scripts, num_processes=2)
    assert done.index("after") > done.index("meet/a")
    first, second = (
        json.loads((scripts / f"logs/meet/{name}.log").read_text())
        for name in "ab"
    )
    both = sorted(first + second)
    assert both == (cores if len(cores) > 1 else cores * 2)


def test_a_failure_stops_the_other_jobs_which_save_first(scripts):
    jobs = [
        Job("long", "waits", {}, 1.0),
        Job("meet", "meets", {"own": "a", "other": "waits"}, 1.0),
        Job("bad", "bad", {}, 1.0, needs=("meet",)),
    ]
    with pytest.raises(ValueError, match="bad ended with exit code 1"):
        run(jobs, scripts, num_processes=2)
    assert (scripts / "logs/long.log").read_text() == "saved\n"
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
    assert progress.line() == "1 of 3 commands done, about 0:40 left"
    both = dataclasses.replace(options, num_processes=2)
    # The first of two jobs takes 30 seconds.
    assert commands.Progress(jobs, both).rest() == 30.0
    more = [*jobs, jobs[0]._replace(name="one"), jobs[0]._replace(name="two")]
    assert commands.Progress(more, both).rest() == (30 + 10 + 30 + 30) / 2
