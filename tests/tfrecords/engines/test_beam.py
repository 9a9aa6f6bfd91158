"""beam.py: the same results as processes; lossy runners are rejected."""

import math
import os
import sys
import types

import pytest

from tfrecords.engines import beam as on_beam


class FakePipeline:
    """Runs each job in this process, except those in `lost`."""

    lost: tuple = ()

    def __init__(self, flags, do, num_jobs):
        self._error = None
        for index in set(range(num_jobs)) - set(self.lost):
            do(index)
            do(index)  # As a runner may when it retries a bundle.

    def wait(self, seconds):
        return True

    def join(self):
        pass

    def close(self):
        pass

    fail = on_beam._Pipeline.fail


calls = []


def count_calls(job):
    calls.append(job)
    return 2 * job


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setattr(on_beam, "_options", lambda flags: None)
    monkeypatch.setattr(on_beam, "check", lambda options: None)
    monkeypatch.setattr(on_beam, "_Pipeline", FakePipeline)
    return on_beam.Pipelines([], str(tmp_path / "work"))


def run(pipelines, function, jobs):
    with pipelines:
        return dict(
            pipelines.run(function, jobs, [1] * len(jobs), name="n", unit="u")
        )


def test_results_are_returned_and_no_files_remain(fake, tmp_path):
    assert run(fake, math.sqrt, [1, 4, 9]) == {1: 1, 4: 2, 9: 3}
    assert os.listdir(tmp_path / "work") == []


def test_no_jobs_need_no_pipeline(fake, monkeypatch):
    monkeypatch.setattr(on_beam, "_Pipeline", None)
    assert run(fake, math.sqrt, []) == {}


def test_a_finished_job_is_not_repeated(fake):
    calls.clear()
    assert run(fake, count_calls, [5, 6]) == {5: 10, 6: 12}
    assert calls == [5, 6]


def test_a_user_error_in_a_worker_is_raised_in_the_driver(fake, tmp_path):
    with pytest.raises(ValueError, match="math domain error"):
        run(fake, math.sqrt, [4, -1])
    assert os.listdir(tmp_path / "work") == []


def test_a_job_that_a_runner_loses_is_an_error(fake, monkeypatch):
    monkeypatch.setattr(FakePipeline, "lost", (1,))
    with pytest.raises(ChildProcessError, match="without 1 of 3 results"):
        run(fake, math.sqrt, [1, 4, 9])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Traceback (most recent call last):\n  File x\nOSError: no [while "
            "running 'Do']\n\n",
            "OSError: no [while running 'Do']",
        ),
        (
            'lost:\n\tstatus = 4\n\tdetails = "Stream removed"\n\tmore\n>',
            'details = "Stream removed"',
        ),
        ("Pipeline failed in state FAILED", "Pipeline failed in state FAILED"),
        ("", "RuntimeError('')"),
    ],
)
def test_the_reason_of_a_failed_pipeline_is_one_line(text, reason):
    assert on_beam._reason(RuntimeError(text)) == reason


def test_without_beam_the_extra_is_named(tmp_path, monkeypatch):
    for name in ("apache_beam", "apache_beam.options"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"pip install 'bert_tf\[beam\]'"):
        on_beam.Pipelines([], str(tmp_path))


def options(runner=None, mode="in_memory"):
    """The parts of Beam's options that `check` reads."""
    return types.SimpleNamespace(
        view_as=lambda _: types.SimpleNamespace(
            runner=runner, direct_running_mode=mode
        )
    )


@pytest.fixture
def fake_names(monkeypatch):
    """Beam's options module, with the names that `check` needs."""
    names = types.SimpleNamespace(StandardOptions=None, DirectOptions=None)
    package = types.SimpleNamespace(pipeline_options=names)
    monkeypatch.setitem(sys.modules, "apache_beam", types.ModuleType("x"))
    monkeypatch.setitem(sys.modules, "apache_beam.options", package)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (options("DaskRunner"), "DaskRunner silently loses records"),
        (options("apache_beam.runners.dask.dask_runner.DaskRunner"), "loses"),
        (options(mode="multi_threading"), "multi_threading silently loses"),
    ],
)
def test_runners_that_lose_records_are_rejected(fake_names, given, message):
    with pytest.raises(ValueError, match=message):
        on_beam.check(given)


def test_other_runners_are_accepted(fake_names):
    on_beam.check(options())
    on_beam.check(options("DirectRunner", "multi_processing"))
    on_beam.check(options("PortableRunner"))


@pytest.fixture
def beam(tmp_path):
    pytest.importorskip("apache_beam", reason="no Beam: the extra beam")
    return on_beam.Pipelines(["--runner=DirectRunner"], str(tmp_path / "work"))


def root_or_fail(job):
    if job == "gone":
        raise RuntimeError("this element cannot be done")
    return math.sqrt(job)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_beam_gives_the_same_results_and_errors(beam):
    assert run(beam, root_or_fail, [1, 4, 9]) == {1: 1, 4: 2, 9: 3}
    with pytest.raises(ValueError, match="math domain error"):
        run(beam, root_or_fail, [4, -1])
    with pytest.raises(ChildProcessError, match="this element cannot be done"):
        run(beam, root_or_fail, [4, "gone"])
