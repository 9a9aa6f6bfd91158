"""Leases of folders in a store: one holder, and what a killed one leaves."""

import os
import subprocess
import sys
import time

import folder_store
import pytest

from tfrecords.io import leases, storage


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in a store, in which leases expire soon."""
    monkeypatch.setattr(leases, "RENEWAL_SECONDS", 0.1)
    monkeypatch.setattr(leases, "EXPIRY_SECONDS", 1.0)
    monkeypatch.setattr(storage, "_gfile", storage._gfile)
    folder_store.use(tmp_path)
    return "gs://bucket/run"


def test_a_lease_is_removed_at_the_end(folder):
    with leases.Lease(folder) as lease:
        lease.check()
        assert storage.exists(f"{folder}/{leases.NAME}")
    assert not storage.exists(f"{folder}/{leases.NAME}")


def test_a_folder_in_use_is_refused_by_name(folder):
    with leases.Lease(folder):
        expected = f"in use by another run, process {os.getpid()} on host"
        with pytest.raises(ValueError, match=expected):
            leases.Lease(folder).__enter__()


def test_the_lease_of_a_killed_process_expires(folder):
    dead = leases.Lease(folder)
    dead._entries["machine"] = "another"
    dead._write()
    started = time.monotonic()
    with leases.Lease(folder) as lease:
        assert time.monotonic() - started >= leases.EXPIRY_SECONDS
        lease.check()
    with pytest.raises(ValueError, match=r"was removed.*resumes"):
        dead.check()


def test_a_process_of_this_machine_that_has_ended_is_not_waited_for(
    folder, monkeypatch
):
    monkeypatch.setattr(leases, "EXPIRY_SECONDS", 1000.0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = leases.Lease(folder)
    dead._entries["process"] = ended.pid
    dead._write()
    with leases.Lease(folder) as lease:
        lease.check()


def test_a_holder_notices_that_its_lease_was_taken(folder):
    with leases.Lease(folder) as lease:
        leases.Lease(folder)._write()
        time.sleep(3 * leases.RENEWAL_SECONDS)  # It does not take it back.
        with pytest.raises(ValueError, match=f"taken by process {os.getpid()}"):
            lease.check()
    assert storage.exists(f"{folder}/{leases.NAME}")  # That of the other.


def slow_down(monkeypatch, seconds):
    """Writing to the store takes some seconds from now on."""
    atomic_file = storage.atomic_file

    def slow(path):
        time.sleep(seconds)
        return atomic_file(path)

    monkeypatch.setattr(storage, "atomic_file", slow)


def test_a_renewal_that_took_too_long_may_have_ended_the_lease_of_another(
    folder, monkeypatch
):
    with leases.Lease(folder) as lease:
        slow_down(monkeypatch, 1.2 * leases.EXPIRY_SECONDS)
        time.sleep(2 * leases.RENEWAL_SECONDS)
        lease.check()
        end = time.monotonic() + 30.0
        while not lease._is_late and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(ValueError, match=r"renewed too late.*resumes"):
            lease.check()


def test_a_slow_renewal_before_the_lease_expires_is_not_late(
    folder, monkeypatch
):
    monkeypatch.setattr(leases, "EXPIRY_SECONDS", 1000.0)
    with leases.Lease(folder) as lease:
        slow_down(monkeypatch, 2 * leases.RENEWAL_SECONDS)
        begun = lease._entries["renewals"]
        end = time.monotonic() + 30.0
        while lease._entries["renewals"] < begun + 3 and not lease._is_late:
            assert time.monotonic() < end
            time.sleep(0.05)
        lease.check()
