"""Folder of a run -> an open run: its lock, signals, run.json."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator

import filelock
from absl import logging

from bert_tf.training import stopping
from tfrecords.io import atomic_files

LOCK = "run.lock"
FILE = "run.json"


@contextlib.contextmanager
def open_run(
    output_dir: str, strategy=None, settings: dict | None = None
) -> Iterator[None]:
    """Makes the body the only run in a folder, and its errors a user's.

    The one entrance of everything that writes to a run's folder. A SIGTERM ends
    the body at once, but where `stopping.after_step` waits for a step. A body
    may open the same folder again, as the training loop does within a workflow.

    Args:
      output_dir: of the run; made if it is not there.
      strategy: whose workers run the body, of which the chief takes the lock;
        None for a process by itself.
      settings: what makes this run this run, if known by now; see `check`.

    Raises:
      ValueError: if another process has the folder open, or it holds a run of
        other settings.
      stopping.Stopped: at a SIGTERM; or if another worker is gone.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping.at_once_on_sigterm())
        is_chief = True
        if strategy is not None:
            from bert_tf.training import strategies

            stack.enter_context(strategies.clear_errors(strategy))
            is_chief = strategies.is_chief(strategy)
        stack.enter_context(lock(output_dir, is_chief))
        if settings is not None:
            check(output_dir, settings, is_chief=is_chief)
        yield


@contextlib.contextmanager
def lock(output_dir: str, is_chief: bool = True) -> Iterator[None]:
    """Keeps other processes out of a run's folder while the body runs.

    The lock is the kernel's (flock(2)) on `run.lock` and goes with its process,
    however that ends, so a kill leaves nothing to clear away. The file stays
    and means nothing by itself, but in a new folder that a failed body has left
    empty: that goes. Of a run with several workers the chief alone takes it.

    NFS passes the lock on to its server (Linux since 2.6.12), so it holds
    between machines; Lustre does with its `flock` mount option, and with
    `localflock` within a machine. Where a file system has no locks at all, as
    those that show an object store, a warning says so and the run continues:
    the user has to see to it that there is one run in a folder.

    The thread that has it may take it again.

    Args:
      output_dir: of the run; made if it is not there.
      is_chief: whether this process takes it; else there is nothing to do.

    Raises:
      ValueError: if another process has the lock; names it, and its host.
    """
    if not is_chief:
        yield
        return
    is_new = not os.path.isdir(output_dir)
    held = _take(output_dir)
    try:
        yield
    except BaseException:
        if is_new:
            _remove_if_empty(output_dir)
        raise
    finally:
        held.release()


def _take(output_dir: str) -> filelock.FileLock:
    """Returns the lock of a folder, which is taken if there are locks."""
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(os.path.realpath(output_dir), LOCK)
    held = filelock.FileLock(
        path,
        timeout=0,
        is_singleton=True,  # So that it may be taken again.
        fallback_to_soft=False,  # A file would outlive a kill.
        on_acquired=_write_holder,
    )
    try:
        held.acquire()
    except filelock.Timeout:
        if not os.path.exists(path):
            # Removed meanwhile, with its folder, by a run that was refused.
            return _take(output_dir)
        raise ValueError(
            f"{output_dir} is in use by another run, {_holder(path)}. Wait "
            "for its end or stop it, or choose another --output_dir."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise
        logging.warning(
            "%s is on a file system without locks (%s): see to it that no "
            "other run writes there",
            output_dir,
            error.strerror,
        )
    return held


def _write_holder(handle: int) -> None:
    # Only for messages, so a full disk does not matter here.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        name = f"{os.getpid()} {socket.gethostname()}\n"
        os.pwrite(handle, name.encode(), 0)


def _holder(path: str) -> str:
    """Returns process and host of the run that holds the lock."""
    words = []
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        words = file.read(1000).decode(errors="replace").split()
    # Empty for a moment, between its lock and its name.
    if len(words) != 2:
        return "which has just begun"
    return f"process {words[0]} on host {words[1]}"


def _remove_if_empty(output_dir: str) -> None:
    """Leaves no folder of a run that was refused before it wrote anything."""
    if os.listdir(output_dir) == [LOCK]:
        os.remove(os.path.join(output_dir, LOCK))
        with contextlib.suppress(OSError):
            os.rmdir(output_dir)


def check(output_dir: str, settings: dict, *, is_chief: bool = True) -> None:
    """Writes `run.json` of a new training, or checks it for one that resumes.

    A folder without a checkpoint holds no work: a run.json there is of a run
    that failed at once, and is replaced.

    Args:
      output_dir: of the run.
      settings: what makes this run this run.
      is_chief: whether this process writes; the others only check.

    Raises:
      ValueError: if the folder holds a run with other settings, or files that
        are no run's.
    """
    from bert_tf.training import checkpoints

    has_begun = checkpoints.newest_step(output_dir) > 0
    best = os.path.join(output_dir, checkpoints.BEST)
    if not has_begun and os.path.isdir(best):
        # It would be taken for the best of the new run.
        raise ValueError(
            f"{best} is of a run whose checkpoints are gone. Move it away, or "
            "choose another --output_dir."
        )
    if has_begun or is_chief:
        write_or_check(output_dir, settings, has_begun=has_begun)


def write_or_check(output_dir: str, settings: dict, *, has_begun: bool) -> None:
    """The same for a folder of which the caller knows whether it holds work."""
    path = os.path.join(output_dir, FILE)
    if not has_begun:
        os.makedirs(output_dir, exist_ok=True)
        atomic_files.write_json(path, settings)
        return
    if not os.path.exists(path):
        raise ValueError(
            f"{output_dir} holds a run without a {FILE}. Choose another "
            "--output_dir."
        )
    written = atomic_files.read_json(path)
    differences = [
        f"  {name}: {written.get(name)!r} there, {settings.get(name)!r} now"
        for name in sorted(set(written) | set(settings))
        if written.get(name) != settings.get(name)
    ]
    if differences:
        raise ValueError(
            f"{output_dir} holds another run:\n"
            + "\n".join(differences)
            + "\nChoose another --output_dir, or the settings it began with."
        )


def check_setting(output_dir: str, name: str, value) -> None:
    """Checks one setting of a run that resumes, before all are known.

    Raises:
      ValueError: if the folder holds a run with another value.
    """
    from bert_tf.training import checkpoints

    path = os.path.join(output_dir, FILE)
    if checkpoints.newest_step(output_dir) and os.path.exists(path):
        check(output_dir, atomic_files.read_json(path) | {name: value})
