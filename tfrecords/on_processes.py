"""Jobs -> results, on the processes of one machine."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import logging
from tqdm import tqdm

_LOG_SECONDS = 30


def _start_worker():
    """Prepares a worker; runs in it before its first job."""
    # Ctrl-C reaches every process of the terminal; the driver stops workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A driver that is killed cannot, so that workers watch it too.
    threading.Thread(target=_end_with_driver, daemon=True).start()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")


def _end_with_driver():
    multiprocessing.parent_process().join()
    os._exit(1)


class Workers:
    """Runs jobs in a number of processes; with 1, in this one.

    A context manager: however it is left, no worker stays.
    """

    def __init__(self, num_processes: int):
        if num_processes < 1:
            raise ValueError(
                f"num_processes={num_processes} should be 1 or more."
            )
        self._executor = None
        if num_processes > 1:
            # Not fork, which breaks a process that has threads, as TF has.
            self._executor = concurrent.futures.ProcessPoolExecutor(
                num_processes,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_worker,
            )
        self._not_ours = set(multiprocessing.active_children())

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, error, trace):
        if self._executor is None:
            return
        if kind is not None:
            workers = set(multiprocessing.active_children()) - self._not_ours
            for worker in workers:
                worker.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        function: Callable[[Any], Any],
        jobs: Sequence[Any],
        weights: Sequence[int],
        *,
        name: str,
        unit: str,
    ) -> Iterator[tuple[Any, Any]]:
        """Yields (job, its result) as jobs end, and shows progress.

        Args:
          function: of a module, so that a worker finds it.
          jobs: its arguments, one for each call.
          weights: work in each job, in units.
          name: of the stage, for progress lines.
          unit: of the weights, for progress lines.

        Raises:
          ValueError, OSError: what a job raised, with its message.
          ChildProcessError: if a worker died.
        """
        begin = logged = time.monotonic()
        done, total = 0, sum(weights)
        bar = tqdm(
            total=total,
            desc=name,
            unit=f" {unit}",
            unit_scale=True,
            disable=None,
        )
        with bar:
            for place, result in self._results(function, jobs):
                yield jobs[place], result
                done += weights[place]
                bar.update(weights[place])
                now = time.monotonic()
                if now - logged > _LOG_SECONDS or done == total:
                    logged = now
                    seconds = max(now - begin, 1e-6)
                    logging.info(
                        "%s  %s %d of %d  %s/s %.0f  seconds %.1f  "
                        "eta_seconds %.0f",
                        name,
                        unit,
                        done,
                        total,
                        unit,
                        done / seconds,
                        seconds,
                        seconds * (total - done) / max(done, 1),
                    )

    def _results(self, function, jobs):
        if self._executor is None:
            yield from enumerate(map(function, jobs))
            return
        with contextlib.ExitStack() as stack:
            futures = {
                self._executor.submit(function, job): place
                for place, job in enumerate(jobs)
            }
            stack.callback(lambda: [future.cancel() for future in futures])
            for future in concurrent.futures.as_completed(futures):
                try:
                    result = future.result()
                except concurrent.futures.process.BrokenProcessPool as error:
                    raise ChildProcessError(
                        "A worker process died; the machine may be out of "
                        "memory. Lower --num_processes; the same command "
                        "goes on from here."
                    ) from error
                yield futures[future], result
