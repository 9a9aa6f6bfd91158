"""static_lengths.py: cached lengths of records, and chosen static lengths."""

import itertools
import os

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.io import atomic_files, records
from tfrecords.reading import static_lengths

SIZES = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def write(path, samples, lengths):
    """Writes a shard of records with the given numbers of tokens."""
    mask = (np.arange(8) < np.array(lengths)[:, None]).astype(int)
    rows = [samples.example(i) | {"input_mask": m} for i, m in enumerate(mask)]
    serialized = [schema.serialize(r, schema.PRETRAINING, SIZES) for r in rows]
    return records.write_shard(path, serialized)


@pytest.fixture
def shards(tmp_path, samples):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    write(paths[0], samples, [3, 8, 1])
    write(paths[1], samples, [0, 5])
    return paths


def read(shards):
    return static_lengths.read(records.Records(shards), 8)


def forbid(monkeypatch):
    """Makes reading lengths from records an error."""
    monkeypatch.setattr(static_lengths, "_parse", None)


def test_lengths_equal_those_of_the_masks(shards):
    found = read(shards)
    assert found.tolist() == [3, 8, 1, 0, 5]
    assert found.dtype == np.int32


def test_a_mask_with_a_hole_counts_to_its_last_token(tmp_path, samples):
    path = str(tmp_path / "a")
    row = samples.example(1) | {
        "input_mask": np.array([1, 0, 0, 1, 0, 0, 0, 0])
    }
    records.write_shard(
        path, [schema.serialize(row, schema.PRETRAINING, SIZES)]
    )
    assert read([path]).tolist() == [4]


def test_lengths_are_cached(shards, monkeypatch):
    read(shards)
    assert {"a.lengths", "b.lengths"} <= set(
        os.listdir(os.path.dirname(shards[0]))
    )
    forbid(monkeypatch)
    assert read(shards).tolist() == [3, 8, 1, 0, 5]


def test_a_glob_finds_only_the_shards(shards, tmp_path):
    read(shards)
    assert records.Records.open(str(tmp_path / "*")).paths == shards
    assert len(os.listdir(tmp_path)) == 6


def test_a_rewritten_shard_is_read_again(shards, samples):
    read(shards)
    write(shards[1], samples, [7, 6])
    assert read(shards).tolist() == [3, 8, 1, 7, 6]


def test_shards_are_identified_by_the_digest(tmp_path, samples, monkeypatch):
    folder = str(tmp_path)
    samples.write_folder(folder)
    assert (
        static_lengths.read(records.Records.open(folder), 8).tolist()
        == [8] * 10
    )
    # A copy has another mtime but is the same shard.
    for path in records.Records.open(folder).paths:
        os.utime(path, (1, 1))
    with monkeypatch.context() as patch:
        forbid(patch)
        static_lengths.read(records.Records.open(folder), 8)
    info = write(records.Records.open(folder).paths[1], samples, [2] * 5)
    manifest = records.Manifest.read(folder)
    manifest.shards[1] = info
    manifest.write(folder)
    found = static_lengths.read(records.Records.open(folder), 8)
    assert found.tolist() == [8] * 3 + [2] * 5 + [8] * 2


@pytest.mark.parametrize("damage", [b"", b"PK", b"no lengths"])
def test_a_damaged_cache_is_rewritten(shards, damage):
    read(shards)
    with open(f"{shards[0]}.lengths", "wb") as file:
        file.write(damage)
    assert read(shards).tolist() == [3, 8, 1, 0, 5]
    assert os.path.getsize(f"{shards[0]}.lengths") > 100


def test_lengths_are_read_in_a_read_only_folder(shards, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(atomic_files, "atomic_file", refuse)
    found = records.Records(shards)
    assert static_lengths.read(found, 8).tolist() == [3, 8, 1, 0, 5]
    assert not os.path.exists(f"{shards[0]}.lengths")
    # Still only once per process.
    forbid(monkeypatch)
    assert static_lengths.read(found, 8).tolist() == [3, 8, 1, 0, 5]


def padded(lengths, chosen):
    return np.array(chosen)[np.searchsorted(chosen, lengths)].sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("price", [0, 25, 90])
def test_chosen_lengths_minimize_padding(seed, count, price):
    lengths = np.random.default_rng(seed).binomial(23, 0.1 + 0.2 * seed, 40) + 1
    chosen = static_lengths.choose(lengths, 24, price, count, multiple=4)
    allowed = [n for n in range(4, 25, 4)]
    best = min(
        padded(lengths, found) + price * len(found)
        for size in range(1, count + 1)
        for found in itertools.combinations(allowed, size)
        if found[-1] >= lengths.max()
    )
    assert padded(lengths, chosen) + price * len(chosen) == best
    assert set(chosen) <= set(allowed) and len(chosen) <= count
    assert list(chosen) == sorted(chosen)


def test_no_length_exceeds_max_seq_length():
    assert static_lengths.choose(np.array([3, 9]), 10) == (4, 10)
    assert static_lengths.choose(np.array([1]), 2) == (2,)
