"""streaming.py: the batches of Python's pipeline, without Python."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfrecords import schema
from tfrecords.io import records, stored_folders
from tfrecords.reading import batches, streaming

SIZES = {"max_seq_length": 8, "max_predictions_per_seq": 2}
PACKED_SIZES = {
    "max_seq_length": 16,
    "max_examples_per_row": 2,
    "max_predictions_per_row": 4,
}


@pytest.fixture
def ten(tmp_path, samples):
    """Ten numbered records, in three shards."""
    samples.write_folder(str(tmp_path / "ten"))
    return records.Records.open(str(tmp_path / "ten"))


def write_rows(path, features, sizes, count=300, rename=lambda name: name):
    """Writes random rows of random lengths to one shard without manifest."""
    rng = np.random.default_rng(3)
    renamed = {rename(name): feature for name, feature in features.items()}
    rows, tokens = [], np.arange(sizes["max_seq_length"])
    for _ in range(count):
        row = {
            name: rng.integers(0, 50, schema.shape_of(feature, sizes)).astype(
                feature.dtype
            )
            for name, feature in renamed.items()
        }
        length = rng.integers(1, len(tokens) + 1)
        row[rename("input_mask")] = (tokens < length).astype(int)
        rows.append(schema.serialize(row, renamed, sizes))
    records.write_shard(str(path), rows)
    return records.Records.open(str(path))


def legacy_name(name):
    return schema.LEGACY_NAMES.get(name, name)


def assert_equal(one, other, count=None):
    """Compares the first batches of two datasets, bit by bit."""
    assert one.element_spec == other.element_spec
    found = list(one.take(count or -1).as_numpy_iterator())
    expected = list(other.take(count or -1).as_numpy_iterator())
    assert len(found) == len(expected) > 0
    for batch, wanted in zip(found, expected, strict=True):
        assert batch.keys() == wanted.keys()
        for name in wanted:
            assert batch[name].dtype == wanted[name].dtype
            np.testing.assert_array_equal(batch[name], wanted[name], name)


def both(make, found, features=schema.PRETRAINING, sizes=SIZES, **settings):
    """Returns the batches of Python, then those without."""
    return [
        make(found, features, sizes, **settings, input_mode=mode)
        for mode in ("python", "stream")
    ]


def assert_trains_as_python(found, *arguments, **settings):
    settings = {"batch_size": 4, "seed": 7} | settings
    pair = both(batches.training_batches, found, *arguments, **settings)
    assert_equal(*pair, count=20)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"start_batch": 7},
        {"batch_size": 1},
        # Read in two parts of 65, of which the last has one row too many.
        {"batch_size": 129},
        {"bucket_lengths": (2, 4), "num_batches": 70, "start_batch": 61},
        {"batch_size": 8, "replicas": 4, "first_replica": 1}
        | {"local_replicas": 2, "start_batch": 3},
    ],
)
def test_training_batches_are_those_of_python(tmp_path, changes):
    found = write_rows(tmp_path / "a", schema.PRETRAINING, SIZES)
    assert_trains_as_python(found, vocab_size=50, **changes)


@pytest.mark.parametrize("bucket_lengths", [(), (2, 4)])
def test_evaluation_batches_are_those_of_python(tmp_path, bucket_lengths):
    found = write_rows(tmp_path / "a", schema.PRETRAINING, SIZES, count=30)
    pair = both(
        *(batches.evaluation_batches, found),
        batch_size=7,
        bucket_lengths=bucket_lengths,
        vocab_size=50,
    )
    assert_equal(*pair)


def test_records_of_several_shards_are_those_of_python(tmp_path, samples):
    samples.write_folder(str(tmp_path), counts=(3, 0, 5, 2))
    found = records.Records.open(str(tmp_path))
    assert_equal(*both(batches.evaluation_batches, found, batch_size=3))


def test_packed_records_are_those_of_python(tmp_path):
    packed = schema.PACKED_PRETRAINING, PACKED_SIZES
    found = write_rows(tmp_path / "a", *packed)
    assert_trains_as_python(found, *packed)


def test_legacy_records_are_those_of_python(tmp_path):
    found = write_rows(
        tmp_path / "a", schema.PRETRAINING, SIZES, rename=legacy_name
    )
    assert found.legacy_names
    assert_trains_as_python(found)


@pytest.mark.parametrize("pipelines", [1, 2, 4])
def test_pipelines_together_have_the_batches_of_one(tmp_path, pipelines):
    found = write_rows(tmp_path / "a", schema.PRETRAINING, SIZES)
    arguments = [found, schema.PRETRAINING, SIZES]
    settings = {"batch_size": 8, "seed": 7, "start_batch": 5}
    whole = batches.training_batches(*arguments, **settings)
    local = 4 // pipelines
    parts = [
        batches.training_batches(
            *arguments,
            **settings,
            replicas=4,
            first_replica=first,
            local_replicas=local,
            input_mode="stream",
        ).as_numpy_iterator()
        for first in range(0, 4, local)
    ]
    for batch in whole.take(50).as_numpy_iterator():
        rows = [next(part) for part in parts for _ in range(local)]
        for name, array in batch.items():
            together = np.concatenate([row[name] for row in rows])
            np.testing.assert_array_equal(together, array, name)


# The graph.


def ops_of(dataset):
    """Returns the ops of a dataset's graph and of all its functions."""
    graph = tf.compat.v1.GraphDef()
    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        external_state_policy=1,  # Python would be refused.
    )
    graph.ParseFromString(serialized.numpy())
    nodes = [
        *graph.node,
        *(n for f in graph.library.function for n in f.node_def),
    ]
    return {node.op for node in nodes}


PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}


@pytest.mark.parametrize("bucket_lengths", [(), (2, 4)])
def test_the_graph_calls_no_python(tmp_path, bucket_lengths):
    found = write_rows(tmp_path / "a", schema.PRETRAINING, SIZES)
    settings = {"batch_size": 4, "vocab_size": 50}
    settings["bucket_lengths"] = bucket_lengths
    for make, seed in (
        (batches.training_batches, {"seed": 1}),
        (batches.evaluation_batches, {}),
    ):
        in_python, streamed = map(ops_of, both(make, found, **settings, **seed))
        assert in_python & PYTHON
        assert "TFRecordDatasetV2" in streamed and not streamed & PYTHON


def test_the_graph_has_no_copy_of_the_offsets(ten, monkeypatch):
    many = np.arange(1_000_000, dtype=np.int64)
    monkeypatch.setattr(records.Records, "offsets", many)

    @tf.function(input_signature=[tf.TensorSpec([4], tf.int64)])
    def read(indices):
        return streamed.get(indices)

    streamed = streaming.StreamedRecords(ten)
    size = read.get_concrete_function().graph.as_graph_def().ByteSize()
    assert size < 100_000 < many.nbytes


# Errors.


def first_error(found, **changes):
    """Reads all records in both modes; returns the message when streamed."""
    in_python, streamed = both(
        batches.evaluation_batches, found, batch_size=4, **changes
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(in_python)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        list(streamed)
    return raised.value.message


def test_an_id_out_of_range_is_named_as_by_python(ten):
    message = first_error(ten, vocab_size=9)
    place = ten.describe(9).replace("'", "\\'")  # Assert escapes quotes.
    assert (
        f"Id 9 in input_word_ids of {place} is not below vocab_size 9"
        in message
    )


def test_a_corrupt_record_is_named(ten, samples):
    samples.damage(ten.paths[1], 200)
    message = first_error(ten)
    assert "Corrupt or missing record at " in message
    assert f"{ten.paths[1]}\\', record 0, byte 0." in message
    assert "delete the shard and rerun" in message


def test_a_truncated_shard_is_named(ten):
    os.truncate(ten.paths[1], os.path.getsize(ten.paths[1]) - 1)
    message = first_error(ten)
    offset = int(ten.describe(7).rpartition("byte ")[2])
    assert f"{ten.paths[1]}\\', record 4, byte {offset}." in message


def test_a_missing_shard_is_named(ten):
    streamed = both(batches.evaluation_batches, ten, batch_size=4)[1]
    os.remove(ten.paths[2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="ten.*00002-of"):
        list(streamed)


@pytest.mark.parametrize(
    "offsets",
    [
        # Within a record; of the wrong record; beyond the file; negative.
        lambda right: right + [0, 0, 8, 0, 0, 0],
        lambda right: right[[0, 2, 1, 3, 4, 5]],
        lambda right: right + [0, 0, 10**9, 0, 0, 0],
        lambda right: right - [0, 0, 10**9, 0, 0, 0],
    ],
)
def test_a_wrong_index_never_gives_a_wrong_record(tmp_path, samples, offsets):
    samples.write_folder(str(tmp_path), counts=(5,))
    path = records.Records.open(str(tmp_path)).paths[0]
    right = np.load(f"{path}.index")
    np.save(f"{path}.index", offsets(right))
    os.replace(f"{path}.index.npy", f"{path}.index")
    found = records.Records.open(str(tmp_path))
    streamed = streaming.StreamedRecords(found)
    read = tf.function(streamed.get)
    wrong = []
    for number in range(5):
        try:
            (data,) = read(tf.constant([number], tf.int64)).numpy()
            assert data == samples.serialized(number)
        except tf.errors.InvalidArgumentError as error:
            assert f"record {number}, byte" in error.message
            assert f"delete \\'{path}.index\\', which is" in error.message
            wrong.append(number)
    assert 1 in wrong
    # As the message says:
    os.remove(f"{path}.index")
    found = records.Records.open(str(tmp_path))
    streamed = streaming.StreamedRecords(found)
    assert streamed.get(tf.range(5, dtype=tf.int64)).numpy().tolist() == (
        found.get(np.arange(5))
    )


def test_a_record_that_can_be_read_again_is_no_error(ten, monkeypatch):
    # As if the network had failed once.
    read, failed = streaming._read_or_none, []

    def fails_once(paths, begins):
        if not failed:
            failed.append(True)
            return tf.fill(begins.shape, b"")
        return read(paths, begins)

    monkeypatch.setattr(streaming, "_read_or_none", fails_once)
    streamed = streaming.StreamedRecords(ten)
    found = tf.function(streamed.get)(tf.range(10, dtype=tf.int64))
    assert found.numpy().tolist() == ten.get(np.arange(10)) and failed


def test_records_without_masks_are_refused_by_name(tmp_path, samples):
    samples.write_folder(str(tmp_path), schema_name="unmasked_pairs")
    found = records.Records.open(str(tmp_path))
    with pytest.raises(
        ValueError, match="--input_mode=stream cannot .*--input_mode=python"
    ):
        batches.training_batches(
            *(found, schema.PRETRAINING, SIZES),
            batch_size=4,
            seed=1,
            input_mode="stream",
        )


# Another process.

# Serves TensorFlow ops at the port that it prints, until stdin is closed.
SERVER = """
import sys
import tensorflow as tf
server = tf.distribute.Server(
    {"worker": ["127.0.0.1:0"]}, job_name="worker", task_index=0)
print(server.target.rpartition(":")[2], flush=True)
sys.stdin.read()
"""
# Prints where the batches are, whether they equal those of this process, and
# how often Python has read records for them.
CLIENT = """
import sys
import numpy as np
import tensorflow as tf
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches

path, port, mode = sys.argv[1:]
tf.config.experimental_connect_to_host(f"127.0.0.1:{port}", "worker")
found = records.Records.open(path)
sizes = {"max_seq_length": 8, "max_predictions_per_seq": 2}

def make(mode):
    return batches.training_batches(
        found, schema.PRETRAINING, sizes, batch_size=4, seed=1,
        vocab_size=50, input_mode=mode)

expected = list(make("python").take(9).as_numpy_iterator())
calls, get = [], records.Records.get
records.Records.get = lambda *arguments: calls.append(0) or get(*arguments)
with tf.device("/job:worker/task:0/device:CPU:0"):
    iterator = iter(make(mode))
    read = [next(iterator) for _ in range(9)]
assert all("/job:worker" in x.device for batch in read for x in batch.values())
for batch, wanted in zip(read, expected):
    for name in wanted:
        np.testing.assert_array_equal(batch[name], wanted[name])
print("calls of Python:", len(calls))
"""


def python(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ("python", "stream"))
def test_another_process_reads_the_same_batches(tmp_path, mode):
    write_rows(tmp_path / "a", schema.PRETRAINING, SIZES)
    with python(SERVER) as server:
        try:
            port = server.stdout.readline().strip()
            with python(CLIENT, tmp_path / "a", port, mode) as client:
                printed, errors = client.communicate(timeout=300)
        finally:
            server.kill()
    assert client.returncode == 0, errors
    calls = int(printed.rpartition(":")[2])
    # In the other mode, TensorFlow calls back to this process for each batch.
    assert calls == 0 if mode == "stream" else calls >= 9


def test_another_process_reads_the_store(ten, monkeypatch):
    monkeypatch.setattr(streaming, "_is_of_this_process", lambda _: False)
    monkeypatch.setattr(
        stored_folders, "address", lambda path: f"{path}.of_the_store"
    )
    for path in ten.paths:
        shutil.move(path, f"{path}.of_the_store")
    streamed = streaming.StreamedRecords(ten)
    (data,) = streamed.get(tf.constant([3], tf.int64)).numpy()
    assert data.startswith(b"\n")
    with pytest.raises(OSError, match="No such file"):
        ten.get([3])
