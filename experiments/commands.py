"""Jobs of a plan -> their output folders, each job in a separate process.

A finished job writes `done/NAME.json` with its flags and its seconds; a stopped
job writes `stopped/NAME.json` with its seconds so far. So a rerun of a plan, or
a larger plan, runs only the missing jobs. A job that diverged would diverge
again: this is recorded in its file, and the plan continues without the jobs
that depend on it.
"""

import collections
import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

from bert_tf.training import reporting, run_folder, stopping
from tfrecords.io import json_files
from tfrecords.options import REQUIRED, Options, option

_LAST_LINES = 12  # Lines of the log of a failed command that are shown.
_POLL_SECONDS = 0.5


class Job(NamedTuple):
    """A command of a plan.

    Attributes:
      name: name of the job, and of its folder in the output folder.
      script: a module of run_scripts, or the full name of another.
      flags: flag name -> value.
      seconds: estimated time.
      needs: names of the jobs whose output it reads.
    """

    name: str
    script: str
    flags: dict
    seconds: float
    needs: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Full name of the module."""
        script = self.script
        return script if "." in script else f"run_scripts.{script}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """Where and how the jobs of a plan run: flags of its command."""

    output_dir: str = option(
        REQUIRED,
        "Folder for all runs and the report. The same command resumes.",
        on_disk=True,
    )
    num_processes: int = option(
        1,
        "Number of commands that run at a time, each on its own cores.",
        at_least=1,
    )
    dry_run: bool = option(
        False, "Print the commands and their estimated time, and exit."
    )
    log_every_seconds: float = option(
        60.0, "Seconds between progress lines.", at_least=1.0
    )


def _done_file(output_dir: str, job: Job) -> str:
    return os.path.join(output_dir, "done", f"{job.name}.json")


def read_done(output_dir: str, job: Job) -> dict | None:
    """Returns the record of a job in `done/`; None if it is not done.

    Raises:
      ValueError: if it was run with other flags.
    """
    path = _done_file(output_dir, job)
    if not os.path.exists(path):
        return None
    done = json_files.read(path)
    changed = run_folder.differences(done["flags"], job.flags)
    if changed:
        raise ValueError(
            f"{job.name} in {output_dir} was done with other flags: "
            f"{'; '.join(changed)}. Choose another --output_dir, or give "
            "the earlier flags."
        )
    return done


def format_command(module: str, arguments: Sequence[str]) -> str:
    """Returns the command of a module, with one argument per line."""
    command = shlex.join(["python", "-m", module])
    return command + "".join(f" \\\n  {shlex.quote(x)}" for x in arguments)


def job_arguments(job: Job) -> list[str]:
    """Returns the flags of a job as arguments of a command."""
    return [f"--{name}={value}" for name, value in job.flags.items()]


class Progress:
    """Progress of a plan, and the estimated time of the rest.

    Estimates are corrected, for each script, by the ratio of actual to
    estimated time of its finished jobs.

    Attributes:
      jobs: jobs of the plan.
      options: where and how they run.
      taken: seconds of each job by its name; None if it is not done.
      diverged: names of jobs that diverged.
    """

    def __init__(self, jobs: Sequence[Job], options: PlanOptions):
        self.jobs = jobs
        self.options = options
        done = {job.name: read_done(options.output_dir, job) for job in jobs}
        self.taken = {
            name: one["seconds"] if one else None for name, one in done.items()
        }
        self.diverged = {
            name for name, one in done.items() if one and one["diverged"]
        }

    def is_lost(self, job: Job) -> bool:
        """Returns whether a job needs the output of a job that diverged."""
        return not self.diverged.isdisjoint(job.needs)

    def is_ready(self, job: Job) -> bool:
        """Returns whether all jobs that a job needs are done."""
        return all(self.taken[name] is not None for name in job.needs)

    def factor(self, script: str) -> float:
        """Returns the factor that corrects estimates of a script's jobs."""
        done = [
            job
            for job in self.jobs
            if job.script == script and self.taken[job.name] is not None
        ]
        if not done:
            return 1.0
        taken = sum(self.taken[job.name] for job in done)
        return taken / sum(job.seconds for job in done)

    def rest(self) -> float:
        """Returns the estimated seconds until all jobs are done."""
        seconds = [
            job.seconds * self.factor(job.script)
            for job in self.jobs
            if self.taken[job.name] is None and not self.is_lost(job)
        ]
        num_processes = self.options.num_processes
        return max(sum(seconds) / num_processes, max(seconds, default=0))

    def line(self) -> str:
        """Returns the progress of the plan, for the log."""
        done = sum(seconds is not None for seconds in self.taken.values())
        rest = reporting.format_seconds(self.rest())
        return f"{done} of {len(self.jobs)} commands done, about {rest} left"


def print_plan(progress: Progress) -> None:
    """Prints each command with its estimated time, and the total."""
    for job in progress.jobs:
        taken = progress.taken[job.name]
        seconds = taken or job.seconds * progress.factor(job.script)
        words = "took" if taken else "about"
        print(f"# {job.name}: {words} {reporting.format_seconds(seconds)}")
        command = ["python", "-m", job.module]
        print(shlex.join([*command, *job_arguments(job)]))
    counts = collections.Counter(job.script for job in progress.jobs)
    parts = ", ".join(f"{n} {script}" for script, n in counts.items())
    print(f"# {len(progress.jobs)} commands: {parts}; {progress.line()}")


@contextlib.contextmanager
def _on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Lets processes that begin in this block run on these cores only.

    A process inherits them: set after its start, it may have seen all.
    """
    if not hasattr(os, "sched_setaffinity"):  # Not Linux.
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Process:
    """A job that is running.

    Its seconds include all attempts: one that stops or fails, unless killed,
    writes the sum so far to `stopped/`.
    """

    def __init__(self, job: Job, output_dir: str, cores: Sequence[int]):
        self.job = job
        self.cores = cores
        self.output_dir = output_dir
        self.log = os.path.join(output_dir, "logs", f"{job.name}.log")
        self.attempts = os.path.join(output_dir, "stopped", f"{job.name}.json")
        self.earlier = 0.0
        if os.path.exists(self.attempts):
            self.earlier = json_files.read(self.attempts)["seconds"]
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        command = [sys.executable, "-m", job.module]
        self.begin = time.monotonic()
        with open(self.log, "ab") as file, _on_cores(cores):
            self.process = subprocess.Popen(
                [*command, *job_arguments(job)],
                stdout=file,
                stderr=file,
                env=stopping.child_environment(),
            )

    def seconds(self) -> float:
        """Returns the seconds of this and all earlier attempts."""
        return round(self.earlier + time.monotonic() - self.begin, 3)

    def write_attempt(self) -> None:
        """Writes the seconds so far of a job that is not done."""
        _write(self.attempts, {"seconds": self.seconds()})

    def is_done(self) -> bool:
        """Returns whether it has ended with a result, or diverged.

        Raises:
          ValueError: with the last lines of its log, if it failed.
          stopping.Stopped: if it received a signal.
        """
        status = self.process.poll()
        if status is None:
            return False
        if status == stopping.EXIT_CODE:
            raise stopping.Stopped(
                f"in {self.job.name}; the same command resumes from here"
            )
        if status not in (0, stopping.DIVERGED_EXIT_CODE):
            with open(self.log, encoding="utf-8", errors="replace") as file:
                last = "".join(file.readlines()[-_LAST_LINES:])
            raise ValueError(
                f"{self.job.name} ended with exit code {status}:\n{last}"
                f"Complete log: {self.log}. The same command resumes from here."
            )
        return True

    def write_done(self, progress: Progress) -> None:
        """Writes its file in `done/`."""
        job, seconds = self.job, self.seconds()
        done_file = _done_file(self.output_dir, job)
        has_diverged = self.process.returncode == stopping.DIVERGED_EXIT_CODE
        if has_diverged:
            progress.diverged.add(job.name)
            logging.warning(
                "%s diverged; the report has a dash for all results that "
                "depend on it. Remove %s to try it again.",
                job.name,
                done_file,
            )
        done = {
            "seconds": seconds,
            "flags": job.flags,
            "diverged": has_diverged,
        }
        _write(done_file, done)
        if self.earlier:
            os.remove(self.attempts)
        progress.taken[job.name] = seconds
        logging.info("%s took %s", job.name, reporting.format_seconds(seconds))


def _write(path: str, content: dict) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    json_files.write(path, content)


def _stop(processes: Sequence[_Process]) -> None:
    """Stops jobs; each saves a checkpoint first."""
    for one in processes:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
    for one in processes:
        one.process.wait()
        one.write_attempt()


def _shares(num_processes: int) -> list[list[int]]:
    """Returns the cores of each process: disjoint sets if there are enough."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * num_processes
    cores = sorted(os.sched_getaffinity(0))
    if num_processes > len(cores):
        return [cores] * num_processes
    return [cores[first::num_processes] for first in range(num_processes)]


def run(progress: Progress) -> Iterator[Job]:
    """Runs the missing jobs; yields each job when it is done.

    Jobs start in order, except that one waits until those it needs are done.

    Args:
      progress: progress of the plan, whose jobs follow those that they need.
        The `output_dir` of its options gets `logs/` and `done/`.

    Raises:
      ValueError: with the last lines of its log, if a job fails.
      stopping.Stopped: on SIGTERM, after the jobs have saved checkpoints.
    """
    options, taken = progress.options, progress.taken
    waiting = [job for job in progress.jobs if taken[job.name] is None]
    free = _shares(options.num_processes)
    running: list[_Process] = []
    logged = time.monotonic()
    try:
        while True:
            waiting = [job for job in waiting if not progress.is_lost(job)]
            ready = [job for job in waiting if progress.is_ready(job)]
            for job in ready[: len(free)]:
                logging.info("%s; %s", job.name, progress.line())
                running.append(_Process(job, options.output_dir, free.pop(0)))
                waiting.remove(job)
            if not running:
                return
            time.sleep(_POLL_SECONDS)
            if time.monotonic() - logged >= options.log_every_seconds:
                logged = time.monotonic()
                _log(running, progress)
            for one in [one for one in running if one.is_done()]:
                one.write_done(progress)
                running.remove(one)
                free.append(one.cores)
                yield one.job
    finally:
        _stop(running)


def _log(running: Sequence[_Process], progress: Progress) -> None:
    for one in running:
        expected = one.job.seconds * progress.factor(one.job.script)
        logging.info(
            "%s  %s of about %s; %s",
            one.job.name,
            reporting.format_seconds(one.seconds()),
            reporting.format_seconds(expected),
            progress.line(),
        )
