"""Jobs -> results, in processes on one machine."""

import concurrent.futures
import concurrent.futures.process  # Otherwise imported at the first use.
import contextlib
import multiprocessing
import os
import pathlib
import signal
import tempfile
import threading
from multiprocessing import forkserver, resource_tracker

from tfrecords.io import progress

# More than any machine has cores; each is a Python with TensorFlow.
_MAX_PROCESSES = 1_000
# Of all workers: TensorFlow, then TensorFlow Text with it.
_IMPORTS = ["tfrecords.engines.imports", "tfrecords.text.tokenizer"]
_ADVICE = "Lower --num_processes; the same command resumes from here."


def use_one_core() -> None:
    """Limits TensorFlow in this process to one core and no GPU."""
    from tfrecords.engines.imports import tf

    # Raises an error if TensorFlow is initialized already.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.set_visible_devices([], "GPU")


def _start_worker():
    """Prepares a worker process before its first job."""
    # A killed driver cannot stop workers, so they also watch the driver.
    threading.Thread(target=_end_with_driver, daemon=True).start()
    use_one_core()


def _end_with_driver():
    multiprocessing.parent_process().join()
    os._exit(1)


def _start_servers():
    """Starts the process that tracks semaphores, and the one that forks.

    Ctrl-C and the end of a terminal reach all of its processes, and a
    supervisor's SIGTERM those of the group; the driver stops workers. They, and
    these two, inherit that the signals are blocked.
    """
    stops = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        resource_tracker.ensure_running()
        # It unblocks some of them.
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        # Before Python 3.13.1 it looks for modules in the working folder first,
        # where another version may be: then each worker imports by itself.
        found, ours = "tfrecords", pathlib.Path(__file__).parents[1]
        is_other = os.path.isdir(found) and not ours.samefile(found)
        forkserver.set_forkserver_preload([] if is_other else _IMPORTS)
        forkserver.ensure_running()
    except OSError as error:  # Such as a path too long for its socket.
        raise ChildProcessError(
            f"Workers need a socket in TMPDIR={tempfile.gettempdir()!r} "
            f"({error}). Set TMPDIR to a folder that can be written, with a "
            "path of at most 70 bytes."
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers(progress.Engine):
    """Runs jobs in `num_processes` processes; if 1, in this process.

    A context manager; no worker remains after it, even after an error.
    """

    def __init__(self, num_processes: int):
        if not 1 <= num_processes <= _MAX_PROCESSES:
            raise ValueError(
                f"num_processes={num_processes} should be from 1 to "
                f"{_MAX_PROCESSES:,}."
            )
        self._executor = None
        if num_processes > 1:
            _start_servers()
            # Forks of a process that has imported TensorFlow, once for all of
            # them. Not of this one, which may have threads.
            self._executor = concurrent.futures.ProcessPoolExecutor(
                num_processes,
                mp_context=multiprocessing.get_context("forkserver"),
                initializer=_start_worker,
            )
        self._other_children = set(multiprocessing.active_children())

    def __exit__(self, kind, error, trace):
        if self._executor is None:
            return
        if kind is not None:
            children = set(multiprocessing.active_children())
            for worker in children - self._other_children:
                worker.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def results(self, function, jobs, name):
        """Yields (index, result) as jobs finish; see `Engine`."""
        if self._executor is None:
            for index, job in enumerate(jobs):
                with _out_of_memory():
                    result = function(job)
                yield index, result
            return
        with contextlib.ExitStack() as stack:
            futures = {
                self._executor.submit(function, job): index
                for index, job in enumerate(jobs)
            }
            stack.callback(lambda: [future.cancel() for future in futures])
            for future in concurrent.futures.as_completed(futures):
                with _out_of_memory():
                    result = future.result()
                yield futures[future], result


@contextlib.contextmanager
def _out_of_memory():
    """Translates errors from a lack of memory to one with advice."""
    try:
        yield
    except concurrent.futures.process.BrokenProcessPool as error:
        raise ChildProcessError(
            "A worker process died; the machine may be out of memory. "
            + _ADVICE
        ) from error
    except MemoryError as error:
        raise ChildProcessError(
            f"A worker is out of memory ({error}). " + _ADVICE
        ) from error
