"""Jobs -> results, by an Apache Beam pipeline on any Beam runner.

An element of the pipeline is the index of a job: index -> file of the job ->
file of its result. The files are in a folder that all machines share, so that
the pipeline stays small (services limit its size) and the driver sees each
result when its job ends. Runners may process an element twice: a finished job
is not repeated, and its bytes do not depend on the worker. A job without a
result at the end of the pipeline is an error, so that no runner loses one
silently.
"""

import contextlib
import functools
import logging as python_logging
import os
import pickle
import re
import secrets
import threading
from collections.abc import Sequence

from tfrecords import libraries
from tfrecords.engines import remote_jobs
from tfrecords.io import progress, storage

_POLL_SECONDS = 0.5
# The last line of a Python traceback, or gRPC's message about a lost peer.
_ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception)\b|\s*details = ")


class Pipelines(progress.Engine):
    """Runs jobs on Beam.

    Workers need this package and the same paths as the driver, on a shared
    file system.

    Args:
      flags: Beam flags, such as "--runner=FlinkRunner".
      shared_dir: a folder for jobs and results, visible to every machine.

    Raises:
      ValueError: if Beam is missing, or the runner loses elements.
    """

    def __init__(self, flags: Sequence[str], shared_dir: str):
        self._flags = list(flags)
        self._shared_dir = shared_dir
        check(_options(self._flags))

    def __exit__(self, *error):
        """Does nothing, as `results` ends its pipeline."""

    def results(self, function, jobs, name):
        """Yields (index, result) as jobs finish; see `Engine`."""
        if not jobs:
            return
        with contextlib.ExitStack() as stack:
            marker = stack.enter_context(
                remote_jobs.marker_in(self._shared_dir)
            )
            folder = os.path.join(
                os.path.dirname(marker.path), f"jobs-{secrets.token_hex(8)}"
            )
            storage.make_folder(folder)
            stack.callback(storage.remove_folder, folder)
            for index, job in enumerate(jobs):
                _write(_path(folder, index, "job"), job)
            do = functools.partial(_do, function, marker, folder)
            pipeline = _Pipeline(self._flags, do, len(jobs))
            stack.callback(pipeline.close)
            missing = set(range(len(jobs)))
            while missing:
                is_done = pipeline.wait(_POLL_SECONDS)
                # Listed after `is_done`, when every result has been written.
                for index in sorted(_indices_done(folder) & missing):
                    result = _read(_path(folder, index, "result"))
                    missing.remove(index)
                    yield index, remote_jobs.checked(result)
                if is_done and missing:
                    pipeline.fail(len(missing), len(jobs))
            pipeline.join()


class _Pipeline:
    """A pipeline that runs in its own thread, because some runners block."""

    def __init__(self, flags, do, num_jobs):
        self._ended = threading.Event()
        self._result = self._error = None
        self._thread = threading.Thread(
            target=self._run, args=(flags, do, num_jobs), daemon=True
        )
        self._thread.start()

    def _run(self, flags, do, num_jobs):
        import apache_beam as beam

        try:
            pipeline = beam.Pipeline(options=_options(flags))
            # Without Reshuffle one worker would run all jobs in sequence.
            _ = (
                pipeline
                | "Jobs" >> beam.Create(range(num_jobs))
                | "Spread" >> beam.Reshuffle()
                | "Do" >> beam.Map(do)
            )
            self._result = pipeline.run()
            self._result.wait_until_finish()
        except Exception as error:  # Each runner raises its own types.
            self._error = error
        finally:
            self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds`; returns whether the pipeline has ended."""
        return self._ended.wait(seconds)

    def join(self) -> None:
        """Waits for the end, when every result has been read."""
        self._thread.join()

    def close(self) -> None:
        """Cancels a running pipeline, if the runner can."""
        if not self._ended.is_set() and self._result is not None:
            with contextlib.suppress(Exception):
                self._result.cancel()

    def fail(self, num_missing: int, num_jobs: int) -> None:
        """Raises ChildProcessError for missing results."""
        reason = "it reported no error"
        if self._error is not None:
            reason = _reason(self._error)
        raise ChildProcessError(
            f"The Beam pipeline ended without {num_missing} of {num_jobs} "
            f"results ({reason}). If workers die, they may be out of memory: "
            "give them more, or run fewer on each machine. The same command "
            "resumes from here."
        ) from self._error


def _reason(error) -> str:
    """Returns one line: the Python error in a worker, or Beam's message."""
    lines = str(error).strip().splitlines()
    errors = [line.strip() for line in lines if _ERROR_LINE.match(line)]
    return (errors[-1:] or lines[:1] or [repr(error)])[0][:500]


def _options(flags):
    """Returns Beam's PipelineOptions."""
    # Here and where Beam's workers run.
    with libraries.extra("beam", "--runner=beam"):
        from apache_beam.options import pipeline_options
    return pipeline_options.PipelineOptions(flags)


def check(options) -> None:
    """Rejects PipelineOptions of runners that lose elements.

    Measured with Beam 2.77: 2 of 14 runs of the DirectRunner in threads
    silently wrote too few records; the DaskRunner wrote 940 of 1,000.

    Raises:
      ValueError: naming the runner or the setting.
    """
    from apache_beam.options import pipeline_options

    runner = options.view_as(pipeline_options.StandardOptions).runner or ""
    direct = options.view_as(pipeline_options.DirectOptions)
    if runner.rpartition(".")[2].lower() in ("daskrunner", "dask"):
        raise ValueError(
            f"Beam's --runner={runner} silently loses records. Use another, "
            "such as DirectRunner with --direct_running_mode=multi_processing."
        )
    if direct.direct_running_mode == "multi_threading":
        raise ValueError(
            "Beam's --direct_running_mode=multi_threading silently loses "
            "records. Use multi_processing."
        )


def _do(function, marker, folder, index):
    """Runs one job in a worker, unless its result already exists."""
    # Beam logs many lines in a worker, none about the jobs.
    python_logging.getLogger("apache_beam").setLevel(python_logging.WARNING)
    marker.check()
    path = _path(folder, index, "result")
    if not storage.exists(path):
        job = _read(_path(folder, index, "job"))
        _write(path, remote_jobs.attempt(function, marker, job))


def _path(folder, index, kind):
    return os.path.join(folder, f"{index}.{kind}")


def _indices_done(folder):
    return {
        int(name.removesuffix(".result"))
        for name in storage.names_in(folder)
        if name.endswith(".result") and not name.startswith(".")
    }


def _write(path, value):
    with storage.atomic_file(path, "wb") as file:
        pickle.dump(value, file)


def _read(path):
    with storage.open_bytes(path) as file:
        return pickle.load(file)
