"""Commands of a plan -> what they leave, each in a process of its own.

A command that is done leaves its flags, the sha256 of its model's config and
its seconds in `done/`, under its name; one that stopped, those so far.
So the same plan again does what is missing, and a larger one what is new. One
that diverged would do so again: its mark says so, and the plan goes on without
what needs it.
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
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

_LAST_LINES = 12  # Of the log of a command that failed.
_POLL_SECONDS = 0.5
_DIVERGED = "diverged"  # In a mark.


def _mark(output_dir: str, job: Job) -> str:
    return os.path.join(output_dir, "done", f"{job.name}.json")


def seconds_of(output_dir: str, job: Job) -> float | None:
    """Returns how long a job took; None if it is not done.

    Raises:
      ValueError: if it was done with other flags, or another config.
    """
    path = _mark(output_dir, job)
    if not os.path.exists(path):
        return None
    found = atomic_files.read_json(path)
    if found["flags"] != job.flags:
        names = [
            name
            for name in sorted(set(found["flags"]) | set(job.flags))
            if found["flags"].get(name) != job.flags.get(name)
        ]
        words = "; ".join(
            f"--{name}={found['flags'].get(name)} then, {job.flags.get(name)} "
            "now"
            for name in names
        )
        raise ValueError(
            f"{job.name} in {output_dir} was done with other flags: {words}. "
            "Choose another --output_dir, or give the flags of then."
        )
    # Marks of old have none.
    sha256 = found.get("config_sha256", job.config_sha256)
    if sha256 != job.config_sha256:
        raise ValueError(
            f"{job.name} in {output_dir} was done with another "
            f"{job.flags['bert_config_file']}: sha256 of its values {sha256} "
            f"then, {job.config_sha256} now. Choose another --output_dir, or "
            "give the flags of then, such as --hidden_dropout_prob."
        )
    return found["seconds"]


def has_diverged(output_dir: str, job: Job) -> bool:
    """Returns whether a job came to its end by a loss that is no number."""
    path = _mark(output_dir, job)
    return os.path.exists(path) and atomic_files.read_json(path).get(
        _DIVERGED, False
    )


def words_of(job: Job) -> list[str]:
    """Returns the flags of a job as words of a command."""
    return [f"--{name}={value}" for name, value in job.flags.items()]


class Clock:
    """How much of a plan is done, and about how long the rest takes.

    Estimates are by arithmetic; the jobs that are done tell by which factor
    they are wrong, for each script by itself.
    """

    def __init__(self, jobs: Sequence[Job], output_dir: str):
        self.jobs = jobs
        self.taken = {job.name: seconds_of(output_dir, job) for job in jobs}
        self.diverged = {
            job.name for job in jobs if has_diverged(output_dir, job)
        }

    def is_lost(self, job: Job) -> bool:
        """Returns whether a job would begin with a model that diverged."""
        begin = job.flags.get("init_checkpoint", "")
        return any(f"/{name}/" in begin for name in self.diverged)

    def factor(self, script: str) -> float:
        """Returns by what to multiply estimates of a script's jobs."""
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
        """Returns about how many seconds the jobs take that are not done."""
        return sum(
            job.seconds * self.factor(job.script)
            for job in self.jobs
            if self.taken[job.name] is None and not self.is_lost(job)
        )

    def line(self) -> str:
        """Returns how far the plan is."""
        done = sum(seconds is not None for seconds in self.taken.values())
        rest = reporting.format_seconds(self.rest())
        return f"{done} of {len(self.jobs)} commands done, about {rest} left"


@contextlib.contextmanager
def _process(job: Job, log: str) -> Iterator[subprocess.Popen]:
    """Yields a job's process, which ends with this one."""
    command = [sys.executable, "-m", f"run_scripts.{job.script}"]
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [*command, *words_of(job)], stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # It saves what it has.
            process.wait()


def _run(job: Job, output_dir: str, clock: Clock, log_every_seconds) -> None:
    """Runs one job to its end, and leaves its mark.

    Its seconds are those of all attempts: one that stops or fails, unless
    killed, leaves the sum so far in `stopped/`.

    Raises:
      ValueError: with the last lines of its log, if it fails otherwise than by
        divergence.
      stopping.Stopped: if it was told to stop.
    """
    attempts = os.path.join(output_dir, "stopped", f"{job.name}.json")
    earlier = 0.0
    if os.path.exists(attempts):
        earlier = atomic_files.read_json(attempts)["seconds"]
    begin = time.monotonic()
    try:
        status = _attempt(job, output_dir, clock, log_every_seconds)
    except BaseException:
        _write(attempts, {"seconds": _since(begin, earlier)})
        raise
    seconds = _since(begin, earlier)
    mark = {"seconds": seconds, "flags": job.flags}
    if job.config_sha256:
        mark["config_sha256"] = job.config_sha256
    if status == common_flags.DIVERGED_EXIT_CODE:
        mark[_DIVERGED] = True
        clock.diverged.add(job.name)
        logging.warning(
            "%s diverged; the report has a dash for what needs it. Remove %s "
            "to try it again.",
            job.name,
            _mark(output_dir, job),
        )
    _write(_mark(output_dir, job), mark)
    if earlier:
        os.remove(attempts)
    clock.taken[job.name] = seconds
    logging.info("%s took %s", job.name, reporting.format_seconds(seconds))


def _since(begin: float, earlier: float) -> float:
    return round(earlier + time.monotonic() - begin, 1)


def _write(path: str, content: dict) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    atomic_files.write_json(path, content)


def _attempt(job: Job, output_dir: str, clock: Clock, log_every_seconds) -> int:
    """Runs one job; returns its exit code, and raises as `_run` does."""
    log = os.path.join(output_dir, "logs", f"{job.name}.log")
    begin = said = time.monotonic()
    with _process(job, log) as process:
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            if now - said >= log_every_seconds:
                said = now
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
            f"in {job.name}; the same command goes on from here"
        )
    if process.returncode not in (0, common_flags.DIVERGED_EXIT_CODE):
        with open(log, encoding="utf-8", errors="replace") as file:
            last = "".join(file.readlines()[-_LAST_LINES:])
        raise ValueError(
            f"{job.name} ended with exit code {process.returncode}:\n{last}"
            f"All of it: {log}. The same command goes on from here."
        )
    return process.returncode


def run(
    jobs: Iterable[Job],
    output_dir: str,
    clock: Clock,
    log_every_seconds: float = 60.0,
) -> Iterator[Job]:
    """Does the jobs that are not done, in order; yields each when it is.

    Args:
      jobs: of the plan.
      output_dir: of the plan; gets `logs/` and `done/`.
      clock: of the plan.
      log_every_seconds: between two lines on a job that is running.

    Raises:
      ValueError: with the last lines of its log, if a job fails.
      stopping.Stopped: at a SIGTERM, after the job has saved what it has.
    """
    for job in jobs:
        if clock.taken[job.name] is None and not clock.is_lost(job):
            logging.info("%s; %s", job.name, clock.line())
            with stopping.at_once_on_sigterm():
                _run(job, output_dir, clock, log_every_seconds)
            yield job
