"""Jobs of a plan -> their output folders, each job in a separate process.

A finished job writes `done/NAME.json` with its flags, the sha256 of its model's
config and its seconds; a stopped job writes `stopped/NAME.json` with its
seconds so far. So a rerun of a plan, or a larger plan, runs only the missing
jobs. A job that diverged would diverge again: this is recorded in its file, and
the plan continues without the jobs that depend on it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from bert_tf.training import reporting, stopping
from experiments.ablations.jobs import Job
from tfrecords.io import json_files

_LAST_LINES = 12  # Of the log of a failed command.
_POLL_SECONDS = 0.5


def _done_file(output_dir: str, job: Job) -> str:
    return os.path.join(output_dir, "done", f"{job.name}.json")


def read_done(output_dir: str, job: Job) -> dict | None:
    """Returns the record of a job in `done/`; None if it is not done.

    Raises:
      ValueError: if it was run with other flags, or another config.
    """
    path = _done_file(output_dir, job)
    if not os.path.exists(path):
        return None
    done = json_files.read(path)
    flags, sha256 = done["flags"], done["config_sha256"]
    differences = [
        f"--{name} was {flags.get(name)}, is now {job.flags.get(name)}"
        for name in sorted(set(flags) | set(job.flags))
        if flags.get(name) != job.flags.get(name)
    ]
    if differences:
        raise ValueError(
            f"{job.name} in {output_dir} was done with other flags: "
            f"{'; '.join(differences)}. Choose another --output_dir, or give "
            "the earlier flags."
        )
    if sha256 != job.config_sha256:
        raise ValueError(
            f"{job.name} in {output_dir} was done with another "
            f"{job.flags['bert_config_file']}: the sha256 of its values was "
            f"{sha256}, is now {job.config_sha256}. Choose another "
            "--output_dir, or give the earlier flags, such as "
            "--hidden_dropout_prob."
        )
    return done


def arguments_of(job: Job) -> list[str]:
    """Returns the flags of a job as arguments of a command."""
    return [f"--{name}={value}" for name, value in job.flags.items()]


class Clock:
    """Progress of a plan, and the estimated time of the rest.

    Estimates are corrected, for each script, by the ratio of actual to
    estimated time of its finished jobs.

    Attributes:
      jobs: jobs of the plan.
      taken: seconds of each job by its name; None if it is not done.
      diverged: names of jobs that diverged.
    """

    def __init__(self, jobs: Sequence[Job], output_dir: str):
        self.jobs = jobs
        done = {job.name: read_done(output_dir, job) for job in jobs}
        self.taken = {
            name: one["seconds"] if one else None for name, one in done.items()
        }
        self.diverged = {
            name for name, one in done.items() if one and one["diverged"]
        }

    def is_lost(self, job: Job) -> bool:
        """Returns whether a job needs the weights of a job that diverged."""
        begin = job.flags.get("init_checkpoint", "")
        return any(f"/{name}/" in begin for name in self.diverged)

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
        """Returns the estimated seconds of the jobs that are not done."""
        return sum(
            job.seconds * self.factor(job.script)
            for job in self.jobs
            if self.taken[job.name] is None and not self.is_lost(job)
        )

    def line(self) -> str:
        """Returns the progress of the plan, for the log."""
        done = sum(seconds is not None for seconds in self.taken.values())
        rest = reporting.format_seconds(self.rest())
        return f"{done} of {len(self.jobs)} commands done, about {rest} left"


@contextlib.contextmanager
def _process(job: Job, log: str) -> Iterator[subprocess.Popen]:
    """Yields a job's process; stops it on exit."""
    command = [sys.executable, "-m", f"run_scripts.{job.script}"]
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [*command, *arguments_of(job)],
            stdout=file,
            stderr=file,
            env=stopping.child_environment(),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # It saves a checkpoint.
            process.wait()


def _run(job: Job, output_dir: str, clock: Clock, log_every_seconds) -> None:
    """Runs one job to its end, and writes its file in `done/`.

    Its seconds include all attempts: one that stops or fails, unless killed,
    writes the sum so far to `stopped/`.

    Raises:
      ValueError: with the last lines of its log, if it fails for a reason other
        than divergence.
      stopping.Stopped: if it received a signal.
    """
    attempts = os.path.join(output_dir, "stopped", f"{job.name}.json")
    earlier = 0.0
    if os.path.exists(attempts):
        earlier = json_files.read(attempts)["seconds"]
    begin = time.monotonic()
    try:
        status = _attempt(job, output_dir, clock, log_every_seconds)
    except BaseException:
        _write(attempts, {"seconds": _since(begin, earlier)})
        raise
    seconds = _since(begin, earlier)
    has_diverged = status == stopping.DIVERGED_EXIT_CODE
    if has_diverged:
        clock.diverged.add(job.name)
        logging.warning(
            "%s diverged; the report has a dash for all results that depend "
            "on it. Remove %s to try it again.",
            job.name,
            _done_file(output_dir, job),
        )
    done = {
        "seconds": seconds,
        "flags": job.flags,
        "config_sha256": job.config_sha256,
        "diverged": has_diverged,
    }
    _write(_done_file(output_dir, job), done)
    if earlier:
        os.remove(attempts)
    clock.taken[job.name] = seconds
    logging.info("%s took %s", job.name, reporting.format_seconds(seconds))


def _since(begin: float, earlier: float) -> float:
    return round(earlier + time.monotonic() - begin, 3)


def _write(path: str, content: dict) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    json_files.write(path, content)


def _attempt(job: Job, output_dir: str, clock: Clock, log_every_seconds) -> int:
    """Runs one job; returns its exit code. Raises the errors of `_run`."""
    log = os.path.join(output_dir, "logs", f"{job.name}.log")
    begin = logged = time.monotonic()
    with _process(job, log) as process:
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            if now - logged >= log_every_seconds:
                logged = now
                logging.info(
                    "%s  %s of about %s; %s",
                    job.name,
                    reporting.format_seconds(now - begin),
                    reporting.format_seconds(
                        job.seconds * clock.factor(job.script)
                    ),
                    clock.line(),
                )
    if process.returncode == stopping.EXIT_CODE:
        raise stopping.Stopped(
            f"in {job.name}; the same command resumes from here"
        )
    if process.returncode not in (0, stopping.DIVERGED_EXIT_CODE):
        with open(log, encoding="utf-8", errors="replace") as file:
            last = "".join(file.readlines()[-_LAST_LINES:])
        raise ValueError(
            f"{job.name} ended with exit code {process.returncode}:\n{last}"
            f"Complete log: {log}. The same command resumes from here."
        )
    return process.returncode


def run(
    jobs: Iterable[Job],
    output_dir: str,
    clock: Clock,
    log_every_seconds: float = 60.0,
) -> Iterator[Job]:
    """Runs the missing jobs in order; yields each job when it is done.

    Args:
      jobs: jobs of the plan.
      output_dir: folder of the plan; gets `logs/` and `done/`.
      clock: progress of the plan.
      log_every_seconds: seconds between two progress lines of a job.

    Raises:
      ValueError: with the last lines of its log, if a job fails.
      stopping.Stopped: on SIGTERM, after the job has saved a checkpoint.
    """
    for job in jobs:
        if clock.taken[job.name] is None and not clock.is_lost(job):
            logging.info("%s; %s", job.name, clock.line())
            _run(job, output_dir, clock, log_every_seconds)
            yield job
