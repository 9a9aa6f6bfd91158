"""Folder of a run -> its lock, its settings in run.json, and clean stops."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from bert_tf.checkpoint import run_models
from bert_tf.training import stopping
from tfrecords.io import json_files, leases

FILE = run_models.SETTINGS
RESULTS = run_models.RESULTS
# Which step was evaluated, and its results.
EVALUATED = (os.path.join("logs", "evaluated.json"), RESULTS, "report.html")
# Entries of run.json from which others were computed: a run that has only the
# others is the same.
_ORIGINS = ("train_hours",)


def rank(score: float | None) -> float:
    """Returns a score for comparisons: an undefined one is below all others."""
    return -sys.float_info.max if score is None else score


class RunFolder:
    """What a run's folder holds; `open_run` yields it, and it is handed down.

    Args:
      path: folder of the run.
      is_chief: whether this process writes; the others only read.

    Attributes:
      best: folder of the best model, if there is one.
    """

    def __init__(self, path: str, is_chief: bool = True):
        self.path, self.is_chief = path, is_chief
        self.best = os.path.join(path, run_models.BEST)

    def newest_step(self) -> int:
        """Returns the step of the newest checkpoint, 0 for a new run.

        It is read anew: checkpoints are written, and damaged ones renamed.
        """
        return run_models.newest_step(self.path)

    def newest_model(self) -> str:
        """Returns the newest checkpoint, see `run_models.find_newest`."""
        return run_models.find_newest(self.path)

    def model(self) -> str:
        """Returns the best model or newest checkpoint: `run_models.find`."""
        return run_models.find(self.path)

    def settings(self) -> dict:
        """Returns the content of `run.json`: `run_models.read_settings`."""
        return run_models.read_settings(self.path)

    def check(self, settings: dict) -> None:
        """Writes `run.json` of a new run, or checks it if the run resumes.

        Without a checkpoint there is nothing to resume: an existing run.json is
        from a run that failed early, or whose checkpoints were removed, and is
        replaced; its evaluation results are deleted.

        Args:
          settings: settings that identify the run.

        Raises:
          ValueError: if the folder contains a run with other settings, or an
            incomplete run.
        """
        has_begun = self.newest_step() > 0
        if not has_begun and os.path.isdir(self.best):
            # It would be used as the best model of the new run.
            raise ValueError(
                f"{self.best} belongs to a run whose checkpoints are missing. "
                "Move it, or choose another --output_dir."
            )
        if self.is_chief and not has_begun:
            for name in EVALUATED:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self.path, name))
        if has_begun or self.is_chief:
            write_or_check(self.path, settings, has_begun=has_begun)

    def check_setting(self, name: str, value) -> None:
        """Checks one setting of a run that resumes, before all are known.

        Raises:
          ValueError: if the folder contains a run with a different value.
        """
        if self.newest_step() and (before := self.settings()):
            self.check(before | {name: value})


@contextlib.contextmanager
def open_run(output_dir: str, strategy=None) -> Iterator[RunFolder]:
    """Locks a run's folder; translates signals and lost workers to Stopped.

    Everything that writes to a run's folder runs in this context. A SIGTERM
    or SIGHUP stops the body immediately, or after the current step within
    `stopping.after_step`. The context can be nested, as the training loop does
    within a workflow.

    Args:
      output_dir: folder of the run; created if missing.
      strategy: strategy of the worker processes, whose chief acquires the
        lock; None for a single process.

    Yields:
      The folder.

    Raises:
      ValueError: if another process has locked the folder.
      stopping.Stopped: on a signal, or if another worker is lost.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping.at_once_on_signal())
        is_chief = True
        if strategy is not None:
            from bert_tf.training import strategies

            stack.enter_context(strategies.translate_worker_errors(strategy))
            is_chief = strategies.is_chief(strategy)
        stack.enter_context(lock(output_dir, is_chief))
        yield RunFolder(output_dir, is_chief)


@contextlib.contextmanager
def lock(output_dir: str, is_chief: bool = True) -> Iterator[None]:
    """Locks a run's folder against other processes while the body runs.

    It is a kernel lock (flock(2)) on `run.lock`, released when the process
    ends, even if killed; a remaining `run.lock` file has no effect. If the
    body fails and leaves a new folder empty, the folder is removed. With
    several workers only the chief acquires the lock.

    On NFS (Linux since 2.6.12) and on Lustre with the `flock` mount option the
    lock is valid across machines; on Lustre with `localflock` only within one.
    If a file system has no locks, like some mounted object stores, a warning is
    logged and the run continues: the user has to ensure that there is one run
    per folder.

    The thread that holds the lock can acquire it again.

    Args:
      output_dir: folder of the run; created if missing.
      is_chief: whether this process acquires the lock; otherwise this does
        nothing.

    Raises:
      ValueError: if another process holds the lock. The message has its id and
        host.
    """
    if not is_chief:
        yield
        return
    is_new = not os.path.isdir(output_dir)
    held = leases.take(output_dir)
    try:
        yield
    except BaseException:
        if is_new:
            _remove_if_empty(output_dir)
        raise
    finally:
        held.release()


def _remove_if_empty(output_dir: str) -> None:
    """Removes the folder of a run that failed before it wrote anything."""
    with contextlib.suppress(OSError):
        if os.listdir(output_dir) == [leases.LOCK]:
            os.remove(os.path.join(output_dir, leases.LOCK))
        os.rmdir(output_dir)


def write_or_check(output_dir: str, settings: dict, *, has_begun: bool) -> None:
    """Writes `run.json`, or checks it if the run has begun."""
    if not has_begun:
        os.makedirs(output_dir, exist_ok=True)
        json_files.write(os.path.join(output_dir, FILE), settings)
        return
    before = run_models.read_settings(output_dir)
    if not before:
        raise ValueError(
            f"{output_dir} contains a run without {FILE}. Choose another "
            "--output_dir."
        )
    kept = {name: before[name] for name in _ORIGINS if name in before}
    changed = differences(before, kept | settings)
    if changed:
        raise ValueError(
            f"{output_dir} contains a run with other settings:\n  "
            + "\n  ".join(changed)
            + "\nChoose another --output_dir, or the settings of that run."
        )


def differences(before: Mapping, now: Mapping) -> list[str]:
    """Returns a text for each name whose value differs or is only in one."""
    return [
        f"{name}: was {before.get(name)!r}, is now {now.get(name)!r}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
