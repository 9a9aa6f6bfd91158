"""shards.py: framing, random access, and errors for damaged files."""

import errno
import os
import pathlib
import tempfile
import warnings

import numbered_records
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrecords.io import shards

RECORDS = [b"first", b"", b"third " * 100, b"last"]


@pytest.fixture
def shard_path(tmp_path):
    path = str(tmp_path / "a-00000-of-00001.tfrecord")
    shards.write_shard(path, RECORDS)
    return path


def test_tensorflow_reads_our_shards(shard_path):
    found = [r.numpy() for r in tf.data.TFRecordDataset(shard_path)]
    assert found == RECORDS


def test_files_of_tensorflow_are_read_without_an_index(tmp_path):
    path = str(tmp_path / "foreign")
    with tf.io.TFRecordWriter(path) as writer:
        for record in RECORDS:
            writer.write(record)
    shard = shards.Shard(path)
    assert [shard.read(i) for i in range(len(shard))] == RECORDS


def test_an_empty_shard_has_no_record(tmp_path):
    path = str(tmp_path / "empty")
    assert shards.write_shard(path, []).num_examples == 0
    assert len(shards.Shard(path)) == 0


def test_more_records_than_one_write_are_written(tmp_path):
    path = str(tmp_path / "many")
    shards.write_shard(path, (str(i).encode() for i in range(3000)))
    assert shards.Shard(path).read(2999) == b"2999"


@pytest.mark.parametrize("cut", [1, 5, 18])
@pytest.mark.parametrize("has_index", [True, False])
def test_a_truncated_shard_names_record_and_byte(shard_path, cut, has_index):
    message = "Truncated record at .*record 3"
    if not has_index:
        os.remove(f"{shard_path}.index")
        message = "record 3, byte 653: the file ends"
    os.truncate(shard_path, os.path.getsize(shard_path) - cut)
    with pytest.raises(ValueError, match=message):
        shards.Shard(shard_path)


@pytest.mark.parametrize("offset", [37, 37 + 12, 37 + 300, 652])
def test_a_corrupt_record_is_named_and_others_are_read(shard_path, offset):
    numbered_records.damage(shard_path, offset)
    shard = shards.Shard(shard_path)
    with pytest.raises(ValueError, match="Corrupt record at .*record 2, byte"):
        shard.read(2)
    assert shard.read(3) == RECORDS[3]


def _put(byte, place):
    """Returns a function that changes a byte of an index."""
    return lambda x: x[:place] + bytes([byte]) + x[place + 1 :]


def _cut(data):
    return data[:-8]


_change_middle = _put(140, -16)  # 653 becomes 652.


@pytest.fixture
def index(shard_path):
    return pathlib.Path(f"{shard_path}.index")


@pytest.mark.parametrize(
    "change",
    [
        *(_cut, _change_middle),
        lambda data: b"",
        lambda data: data.replace(b"(5,)", b"(4,)", 1),
        lambda data: data.replace(b"<i8", b"<f8", 1),
        *(_put(0x7F, -10), _put(0xFF, -9), _put(160, -8)),
        lambda data: b"PK\x03\x04" + bytes(100),
        lambda data: b"\x80\x04K\x01.",  # A pickle.
    ],
)
def test_a_damaged_index_is_made_again(shard_path, index, change, caplog):
    before = index.read_bytes()
    index.write_bytes(change(before))
    assert index.read_bytes() != before
    shard = shards.Shard(shard_path)
    assert [shard.read(i) for i in range(len(shard))] == RECORDS
    (message,) = caplog.messages
    assert f"{index} does not match its shard; it is made" in message
    assert index.read_bytes() == before
    shards.Shard(shard_path).read(2)
    assert len(caplog.messages) == 1


def test_an_offset_that_two_threads_find_damaged_is_corrected(
    shard_path, index, monkeypatch
):
    # Of records 2 and 3.
    index.write_bytes(_change_middle(index.read_bytes()))
    shard, scan, others = shards.Shard(shard_path), shards.scan, []

    def scan_while_another_reads(path):
        if not others:
            others.append(None)
            others.append(shard.read(3))
        return scan(path)

    monkeypatch.setattr(shards, "scan", scan_while_another_reads)
    assert shard.read(2) == RECORDS[2]
    assert others == [None, RECORDS[3]]


def test_in_a_read_only_folder_a_damaged_index_is_not_used(
    shard_path, index, monkeypatch, caplog
):
    index.write_bytes(_cut(index.read_bytes()))

    def fail(path, mode):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(shards.storage, "atomic_file", fail)
    shard = shards.Shard(shard_path)
    assert [shard.read(i) for i in range(len(shard))] == RECORDS
    assert "cannot be replaced (Read-only file system)" in caplog.text


def test_a_shard_cut_between_records_is_not_taken_for_a_wrong_index(
    shard_path, index
):
    before = index.read_bytes()
    os.truncate(shard_path, int(shards.Shard(shard_path).offsets[3]))
    with pytest.raises(ValueError, match="Truncated record .* lists 4 records"):
        shards.Shard(shard_path)
    assert index.read_bytes() == before


def test_a_shard_and_index_that_are_both_damaged_are_an_error(
    shard_path, index
):
    index.write_bytes(_cut(index.read_bytes()))
    numbered_records.damage(shard_path, 37)
    with pytest.raises(ValueError, match="Corrupt header at .*record 2, byte"):
        shards.Shard(shard_path)


def test_the_index_of_another_shard_is_an_error_once(shard_path):
    offsets = np.array([0, 21, os.path.getsize(shard_path)])
    np.save(f"{shard_path}.index", offsets)
    os.replace(f"{shard_path}.index.npy", f"{shard_path}.index")
    shard = shards.Shard(shard_path)
    with pytest.raises(ValueError, match="has 4 records, its index listed 2"):
        shard.read(1)
    assert len(shards.Shard(shard_path)) == 4


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 900), st.booleans())
def test_any_change_of_shard_or_index_is_found(data, offset, of_index):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        shards.write_shard(path, RECORDS)
        changed = f"{path}.index" if of_index else path
        with open(changed, "r+b") as file:
            file.seek(offset % (os.path.getsize(changed) + 1))
            file.write(data)
        try:
            shard = shards.Shard(path)
            records = [shard.read(i) for i in range(len(shard))]
        except ValueError as error:
            assert path in str(error)
        else:
            # Complete records may follow the last one.
            assert records[:4] == RECORDS


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200) | st.none())
def test_any_bytes_are_records_or_rejected(data, index):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        with open(path, "wb") as file:
            file.write(data)
        if index is not None:
            with open(f"{path}.index", "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + index)
        try:
            shard = shards.Shard(path)
            for record in range(len(shard)):
                shard.read(record)
        except ValueError as error:
            assert path in str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"once upon a time there was a file of text", "is text, not a TFReco"),
        (b"a film\n", "is text, not"),
        ("\u535a".encode() * 200, "is text, not"),  # 512 bytes end within one.
        (b'{"text": "a film"}\n' * 9, "is JSON, not"),
        (b"PAR1\x15\x00", "is Parquet, not"),
        (b"\x1f\x8b\x08\x00" * 9, "is compressed by gzip, not.*: gunzip <"),
        (b"\x80\x04\x95" + b"\0" * 20, "is a pickle, not a TFRecord file"),
        (b"\xff" * 20, "Corrupt header .*, or damaged"),
        (b"once\0upon a time", "Corrupt header .*, or damaged"),
    ],
)
def test_a_file_that_is_not_a_tfrecord_file_is_named(
    tmp_path, content, message
):
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        shards.Shard(str(path))


def test_a_record_cut_after_the_shard_was_opened_is_named(shard_path):
    shard = shards.Shard(shard_path)
    os.truncate(shard_path, 40)
    with pytest.raises(ValueError, match="Truncated record at .*record 2"):
        shard.read(2)


def test_a_rewritten_file_is_reopened(tmp_path):
    path = str(tmp_path / "a")
    shards.write_shard(path, [b"old"])
    assert shards.Shard(path).read(0) == b"old"
    shards.write_shard(path, [b"new"])
    assert shards.Shard(path).read(0) == b"new"


def test_the_number_of_open_files_is_limited(tmp_path, monkeypatch):
    paths = [str(tmp_path / str(i)) for i in range(60)]
    for path in paths:
        shards.write_shard(path, [path.encode()])
    cache = shards.functools.lru_cache(4)(shards._OpenFile)
    monkeypatch.setattr(shards, "_open", cache)
    before = len(os.listdir("/proc/self/fd"))
    opened = [shards.Shard(path) for path in paths]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [shard.read(0).decode() for shard in opened] == paths
    assert cache.cache_info().currsize == 4
    assert len(os.listdir("/proc/self/fd")) <= before + 4
