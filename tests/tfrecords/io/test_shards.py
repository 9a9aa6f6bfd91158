"""shards.py: framing, random access, and errors for damaged files."""

import errno
import os
import warnings

import numpy as np
import pytest
import tensorflow as tf

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


def test_info_describes_the_file(shard_path):
    info = shards.write_shard(shard_path, RECORDS)
    assert info.name == "a-00000-of-00001.tfrecord"
    assert info.num_examples == len(RECORDS)
    assert info.num_bytes == os.path.getsize(shard_path)
    assert len(info.sha256) == 64


def test_records_are_read_by_index(shard_path):
    shard = shards.Shard(shard_path)
    assert shard.read(2) == RECORDS[2] and shard.read(0) == RECORDS[0]


def test_an_empty_shard_has_no_record(tmp_path):
    path = str(tmp_path / "empty")
    assert shards.write_shard(path, []).num_examples == 0
    assert len(shards.Shard(path)) == 0


def test_more_records_than_one_write_are_written(tmp_path):
    path = str(tmp_path / "many")
    shards.write_shard(path, (str(i).encode() for i in range(3000)))
    assert shards.Shard(path).read(2999) == b"2999"


def test_a_failed_write_leaves_nothing(tmp_path):
    def records():
        yield b"one"
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        shards.write_shard(str(tmp_path / "a"), records())
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    def records():
        yield b"one"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="nothing half-written is left"):
        shards.write_shard(str(tmp_path / "a"), records())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_shard_names_the_record(shard_path, cut):
    os.truncate(shard_path, os.path.getsize(shard_path) - cut)
    with pytest.raises(ValueError, match="Truncated record at .*record 3"):
        shards.Shard(shard_path)


@pytest.mark.parametrize("cut", [1, 5, 18])
def test_a_truncated_foreign_file_names_record_and_byte(shard_path, cut):
    os.remove(f"{shard_path}.index")
    os.truncate(shard_path, os.path.getsize(shard_path) - cut)
    with pytest.raises(ValueError, match="record 3, byte 653: the file ends"):
        shards.Shard(shard_path)


def _flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("offset", [37, 37 + 12, 37 + 300, 652])
def test_a_corrupt_record_is_named_and_others_are_read(shard_path, offset):
    _flip(shard_path, offset)
    shard = shards.Shard(shard_path)
    with pytest.raises(ValueError, match="Corrupt record at .*record 2, byte"):
        shard.read(2)
    assert shard.read(3) == RECORDS[3]


def test_a_file_that_is_not_a_tfrecord_file_is_named(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"once upon a time there was a file of text")
    with pytest.raises(ValueError, match="Corrupt header .*not a TFRecord"):
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
    opened = []
    for i in range(20):
        shards.write_shard(str(tmp_path / str(i)), [str(i).encode()])
    cache = shards.functools.lru_cache(4)(shards._OpenFile)
    monkeypatch.setattr(shards, "_open", cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in np.random.default_rng(0).integers(0, 20, 100):
            opened.append(shards.Shard(str(tmp_path / str(i))).read(0))
    assert cache.cache_info().currsize == 4
    assert len(opened) == 100
