"""spark.py: the same results as processes, and errors in the driver."""

import math
import os
import shutil
import signal
import sys

import pytest

from tfrecords.engines import spark as on_spark


class FakeContext:
    """Runs tasks in this process instead of on a cluster."""

    defaultParallelism = 2  # Spark's name.

    def __init__(self):
        self.is_cancelled = False

    def setLocalProperty(self, name, value):
        assert name == "spark.job.description"

    def parallelize(self, jobs, num_tasks):
        assert num_tasks == len(jobs) == 1
        return FakeRows(jobs)

    def cancelAllJobs(self):
        self.is_cancelled = True

    def stop(self):
        pass


class FakeRows(list):
    def map(self, function):
        return FakeRows(map(function, self))

    def collect(self):
        return self


class JavaError(Exception):
    """Like an error of py4j, with the text of a Java exception."""

    def __init__(self, text):
        super().__init__("An error occurred while calling o1.x.")
        self.java_exception = text


def run(cluster, function, jobs):
    with cluster:
        return dict(
            cluster.run(function, jobs, [1] * len(jobs), name="n", unit="u")
        )


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setattr(on_spark, "_start", lambda *_: FakeContext())
    return on_spark.Cluster("local", str(tmp_path / "work"), {})


def test_results_are_returned_and_no_files_remain(fake, tmp_path):
    assert run(fake, math.sqrt, [1, 4, 9]) == {1: 1, 4: 2, 9: 3}
    assert os.listdir(tmp_path / "work") == []


def test_a_user_error_in_a_task_is_raised_in_the_driver(fake):
    with pytest.raises(ValueError, match="math domain error"):
        run(fake, math.sqrt, [4, -1])


def lose_executor(job):
    raise JavaError(
        "org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Task 0 in stage 1.0 failed 4 times\nDriver stacktrace:\n\tat x"
    )


def test_a_task_that_fails_too_often_is_reported(fake):
    with pytest.raises(ChildProcessError, match="failed 4 times.*memory"):
        run(fake, lose_executor, [1])


def test_the_message_of_a_python_error_is_shown():
    text = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent "
        'call last):\n  File "worker.py", line 1, in main\n'
        "    process()\nOSError: [Errno 5] Input/output error: 'x'\n\n\tat y"
    )
    assert on_spark._reason(JavaError(text)) == (
        "OSError: [Errno 5] Input/output error: 'x'"
    )


def test_without_pyspark_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ValueError, match=r"pip install 'bert_tf\[spark\]'"):
        run(on_spark.Cluster("local", str(tmp_path), {}), math.sqrt, [1])


@pytest.fixture
def spark(tmp_path):
    pytest.importorskip("pyspark", reason="no PySpark: the extra spark")
    if shutil.which("java") is None:
        pytest.skip("no Java, which Spark needs")
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    return on_spark.Cluster("local[2]", str(tmp_path / "work"), conf)


def root_or_fail(job):
    if job == "gone":
        raise RuntimeError("this task cannot be done")
    if job == "killed":  # As the kernel does when memory is full.
        os.kill(os.getpid(), signal.SIGKILL)
    return math.sqrt(job)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Sockets that PySpark leaves open.
def test_spark_gives_the_same_results_and_errors(spark):
    with spark:
        for jobs, error, message in (
            ([1, 4, 9], None, ""),
            ([4, -1], ValueError, "math domain error"),
            ([4, "gone"], ChildProcessError, "RuntimeError: this task cannot"),
            (["killed", 4], ChildProcessError, "may be out of memory"),
            ([16], None, ""),
        ):
            shown = spark.run(
                root_or_fail, jobs, [1] * len(jobs), name="n", unit="u"
            )
            if error is None:
                assert dict(shown) == {job: math.sqrt(job) for job in jobs}
            else:
                with pytest.raises(error, match=message):
                    list(shown)
