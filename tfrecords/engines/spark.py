"""Jobs -> results, on the executors of an Apache Spark cluster.

Each job is a Spark job with one task. Spark retries a task whose executor dies.
A shard is renamed when complete and its bytes depend only on the job, so a task
that runs twice, even on two machines at once, does no harm.
"""

import concurrent.futures
import contextlib
import functools
import os
import pathlib
import re
import sys

from tfrecords import libraries
from tfrecords.engines import remote_jobs
from tfrecords.io import progress

# Jobs submitted to Spark at a time: more than it has cores, to keep it busy.
_JOBS_IN_SPARK = 256
# The last line of a Python traceback in Spark's message.
_PYTHON_ERROR = re.compile(r"(?!org\.)[\w.]*(?:Error|Exception)\b.*")


class Cluster(progress.Engine):
    """A context manager that starts a Spark application and runs jobs on it.

    Executors need this package, the same version of Python and the same paths
    as the driver, on a shared file system.

    Args:
      master: URL of the master, such as "spark://host:7077" or "local[2]".
      shared_dir: a folder for small files, visible to every machine.
      conf: Spark settings, name to value.
    """

    def __init__(self, master: str, shared_dir: str, conf: dict[str, str]):
        self._master = master
        self._shared_dir = shared_dir
        self._conf = conf

    def __enter__(self) -> "Cluster":
        self._context = _start(self._master, self._conf)
        return self

    def __exit__(self, *error):
        self._context.stop()

    def results(self, function, jobs, name):
        """Yields (index, result) as jobs finish; see `Engine`."""
        with remote_jobs.marker_in(self._shared_dir) as marker:
            do = functools.partial(remote_jobs.attempt, function, marker)
            yield from self._run(do, jobs, name)

    def _run(self, do, jobs, name):
        def run_one(index, job):
            description = f"{name} {index + 1} of {len(jobs)}"
            self._context.setLocalProperty("spark.job.description", description)
            return self._context.parallelize([job], 1).map(do).collect()[0]

        waiting = max(_JOBS_IN_SPARK, 2 * self._context.defaultParallelism)
        pool = concurrent.futures.ThreadPoolExecutor(waiting)
        futures = {
            pool.submit(run_one, index, job): index
            for index, job in enumerate(jobs)
        }
        try:
            for future in concurrent.futures.as_completed(futures):
                result = remote_jobs.checked(_result(future))
                yield futures[future], result
        finally:
            # Even after an error, starts no more jobs and stops running ones.
            pool.shutdown(wait=False, cancel_futures=True)
            if not all(future.done() for future in futures):
                with contextlib.suppress(Exception):  # Spark may be gone.
                    self._context.cancelAllJobs()
            pool.shutdown()


def _start(master, conf):
    """Returns a SparkContext whose executors find this package."""
    # On every machine of the cluster.
    with libraries.extra("spark", "--runner=spark"):
        import pyspark
    # Executors use the driver's Python, and import packages that are not
    # installed from the driver's paths.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folders = [str(pathlib.Path(__file__).resolve().parents[2])]
    folders += filter(None, [os.environ.get("PYTHONPATH")])
    settings = pyspark.SparkConf().setMaster(master).setAppName("bert_tf")
    # Spark's progress bar would overwrite ours.
    settings.set("spark.ui.showConsoleProgress", "false")
    settings.setExecutorEnv("PYTHONPATH", os.pathsep.join(folders))
    settings.setAll(list(conf.items()))
    try:
        return pyspark.SparkContext(conf=settings)
    except Exception as error:  # Java's, via py4j: no common base class.
        raise ChildProcessError(
            f"Spark does not start with --spark_master={master} "
            f"({_reason(error)}). It requires Java 17 or later on this machine "
            "and a running master: spark://HOST:7077 as on its web page, or "
            "local[*]."
        ) from error


def _result(future):
    try:
        return future.result()
    except Exception as error:  # Java's, via py4j: no common base class.
        raise ChildProcessError(
            f"A Spark job failed ({_reason(error)}). If executors die, they "
            "may be out of memory: give them fewer cores "
            "(--spark_conf=spark.executor.cores=1) or more memory. The same "
            "command resumes from here."
        ) from error


def _reason(error) -> str:
    """Returns one line: the Python error on an executor, or Spark's message."""
    lines = str(getattr(error, "java_exception", error)).splitlines()
    errors = [
        match[0] for line in lines if (match := _PYTHON_ERROR.fullmatch(line))
    ]
    return (errors or lines or [repr(error)])[0][:500]
