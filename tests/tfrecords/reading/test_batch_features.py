"""batch_features.py: a process can exit while batches are being read."""

import subprocess
import sys
import threading
import time

import pytest

from tfrecords.reading import batch_features

# Fails while batches are prefetched; the traceback keeps the iterator alive.
FAILS = """
import sys
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches
found = records.Records.open(sys.argv[1])
sizes = {"max_seq_length": 8, "max_predictions_per_seq": 2}
def train():
    made = iter(batches.training_batches(
        found, schema.PRETRAINING, sizes, batch_size=200, seed=1))
    for _ in range(3):
        next(made)
    raise FloatingPointError("the loss is nan")
train()
"""


@pytest.mark.slow
def test_a_failing_process_exits(tmp_path, samples):
    samples.write_folder(str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-c", FAILS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,  # Only a process that hangs takes as long.
    )
    assert ended.returncode == 1
    assert "FloatingPointError: the loss is nan" in ended.stderr


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(batch_features, "_QUIET_SECONDS", 0.01)


def test_the_exit_waits_for_reads_in_progress(quiet):
    reads, ended = batch_features._Reads(), []
    is_reading = threading.Event()

    def read():
        with reads:
            is_reading.set()
            time.sleep(0.1)
            ended.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    is_reading.wait()
    reads.wait()
    assert ended == [True]
    reader.join()


def test_the_exit_does_not_wait_forever(quiet, monkeypatch):
    monkeypatch.setattr(batch_features, "_MAX_SECONDS", 0.05)
    reads = batch_features._Reads()
    with reads:
        reads.wait()
