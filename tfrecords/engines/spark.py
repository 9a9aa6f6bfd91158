"""Jobs -> results, on the executors of an Apache Spark cluster.

A job is a Spark job of one task. Spark retries a task whose executor dies. A
shard is renamed when complete and its bytes depend on the job alone, so a task
that ran twice, or on two machines at once, does no harm.
"""

import concurrent.futures
import contextlib
import functools
import os
import pathlib
import re
import sys

from tfrecords.engines import remote_jobs
from tfrecords.io import progress

# Jobs that wait in Spark: always more than it has cores, since they are the
# queue that it takes from.
_JOBS_IN_SPARK = 256
# The last line of a Python traceback, as Spark hands it on.
_PYTHON_ERROR = re.compile(r"(?!org\.)[\w.]*(?:Error|Exception)\b.*")


class Cluster(progress.Engine):
    """Runs jobs on Spark. A context manager: inside it the application runs.

    Executors need this package, Python of the same version, and the same paths
    as the driver, on a file system that all share.

    Args:
      master: such as "spark://host:7077" or "local[2]".
      shared_dir: a folder for small files that every machine has to see.
      conf: Spark's own settings, name to value.
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
        """Yields index and result of each job as it ends; see `Engine`."""
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
            # In any case: no further job is begun, and running ones stop.
            pool.shutdown(wait=False, cancel_futures=True)
            if not all(future.done() for future in futures):
                with contextlib.suppress(Exception):  # Spark may be gone.
                    self._context.cancelAllJobs()
            pool.shutdown()


def _start(master, conf):
    """Returns a SparkContext whose executors find this package."""
    try:
        import pyspark
    except ImportError as error:
        raise ValueError(
            "--runner=spark needs PySpark, which is not installed: pip "
            "install 'bert_tf[spark]', on every machine of the cluster."
        ) from error
    # On every machine the same Python, and these packages from where the
    # driver has them; installed ones are there anyway.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folders = [str(pathlib.Path(__file__).resolve().parents[2])]
    folders += filter(None, [os.environ.get("PYTHONPATH")])
    settings = pyspark.SparkConf().setMaster(master).setAppName("bert_tf")
    # Its bar would write over ours.
    settings.set("spark.ui.showConsoleProgress", "false")
    settings.setExecutorEnv("PYTHONPATH", os.pathsep.join(folders))
    settings.setAll(list(conf.items()))
    try:
        return pyspark.SparkContext(conf=settings)
    except Exception as error:  # Of Java, through py4j: no common name.
        raise ChildProcessError(
            f"Spark does not start with --spark_master={master} "
            f"({_reason(error)}). It needs Java 17 or later here, and a master "
            "that runs: spark://HOST:7077 as its page shows it, or local[*]."
        ) from error


def _result(future):
    try:
        return future.result()
    except Exception as error:  # Of Java, through py4j: no common name.
        raise ChildProcessError(
            f"Spark gave a job up ({_reason(error)}). If executors die, they "
            "may be out of memory: give them fewer cores "
            "(--spark_conf=spark.executor.cores=1) or more memory. The same "
            "command resumes from here."
        ) from error


def _reason(error) -> str:
    """Returns one line: what Python raised on an executor, or Spark itself."""
    lines = str(getattr(error, "java_exception", error)).splitlines()
    errors = [
        match[0] for line in lines if (match := _PYTHON_ERROR.fullmatch(line))
    ]
    return (errors or lines or [repr(error)])[0][:500]
