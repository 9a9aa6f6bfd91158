"""remote_jobs.py: results and user errors are returned, others are raised."""

import errno
import os
import pickle

import pytest

from tfrecords.engines import remote_jobs


def double(job):
    if job == "full":
        raise OSError(errno.ENOSPC, "No space left on device", "/there")
    if job == "lost":
        raise OSError(errno.EIO, "Input/output error", "/there")
    return 2 * job


@pytest.fixture
def marker(tmp_path):
    with remote_jobs.marker_in(str(tmp_path / "work")) as found:
        yield found


def test_a_result_is_returned(marker):
    assert remote_jobs.attempt(double, marker, 3) == 6


def test_a_user_error_is_returned_as_a_value(marker):
    failed = remote_jobs.attempt(int, marker, "x")
    failed = pickle.loads(pickle.dumps(failed))
    assert isinstance(failed.error, ValueError)
    assert "invalid literal" in str(failed.error)


def test_a_full_disk_is_returned_and_other_errors_are_raised(marker):
    failed = remote_jobs.attempt(double, marker, "full")
    failed = pickle.loads(pickle.dumps(failed))
    assert failed.error.errno == errno.ENOSPC
    assert failed.error.filename == "/there"
    with pytest.raises(OSError, match="Input/output error"):
        remote_jobs.attempt(double, marker, "lost")


def test_a_machine_without_the_folder_is_named(marker):
    elsewhere = marker._replace(path="/nowhere/shared-1", driver="host7")
    failed = remote_jobs.attempt(double, elsewhere, 3)
    assert "does not see '/nowhere/shared-1'" in str(failed.error)
    assert "driver on host7" in str(failed.error)


def test_the_marker_is_removed_at_the_end(tmp_path):
    with remote_jobs.marker_in(str(tmp_path)) as marker:
        assert os.listdir(tmp_path) == [os.path.basename(marker.path)]
    assert not os.listdir(tmp_path)
