"""shard_checks.py: truncated, missing and replaced shards are named."""

import os

import pytest

from tfrecords.inspection import shard_checks
from tfrecords.io import records


@pytest.fixture
def folder(tmp_path, samples):
    samples.write_folder(str(tmp_path / "train"), (3, 5, 2, 4))
    return str(tmp_path / "train")


def shard(folder, number):
    return os.path.join(folder, f"train-{number:05d}-of-00004.tfrecord")


def texts(found):
    assert {fault.check for fault in found} <= {"shards"}
    return [fault.text for fault in found if fault.severity == "error"]


def test_intact_shards_have_no_diagnostics(folder):
    found, faults = shard_checks.open_intact(folder)
    assert (len(found), faults) == (14, [])
    assert shard_checks.check_digests(found, None) == []


def test_every_damaged_shard_is_named_and_the_others_opened(folder, samples):
    os.remove(shard(folder, 0))
    os.truncate(shard(folder, 1), os.path.getsize(shard(folder, 1)) - 10)
    with open(shard(folder, 3), "ab") as file:
        file.write(b"more")
    os.remove(f"{shard(folder, 3)}.index")
    found, faults = shard_checks.open_intact(folder)
    missing, cut, longer = texts(faults)
    assert "00000-of-00004" in missing and "not in the folder" in missing
    assert "Truncated record" in cut and "record 4" in cut
    assert "00003-of-00004" in longer
    assert len(found) == 2
    assert found.get([0]) == [samples.serialized(8)]
    assert found.manifest.num_examples == 14


def test_a_shard_of_another_size_is_named(folder, samples):
    other = samples.write_folder(f"{folder}-other", (4, 4, 4, 4))
    for end in ("", ".index"):
        name = other.shards[2].name
        os.replace(f"{folder}-other/{name}{end}", f"{folder}/{name}{end}")
    _, faults = shard_checks.open_intact(folder)
    (text,) = texts(faults)
    assert "bytes; the manifest lists" in text and "Delete it" in text


def test_a_shard_of_the_same_size_but_other_bytes_is_named(folder, samples):
    for number in (1, 2):
        samples.damage(shard(folder, number), 40)
    found, faults = shard_checks.open_intact(folder)
    assert faults == []
    one, other = texts(shard_checks.check_digests(found, None))
    assert "is not the shard that the manifest lists" in one
    assert "00001-of-00004" in one + other and "00002-of-00004" in one + other


def test_the_number_of_compared_bytes_is_limited(folder, samples):
    samples.damage(shard(folder, 2), 0)
    found, _ = shard_checks.open_intact(folder)
    first = os.path.getsize(shard(folder, 0))
    # At least one: the first, then the one in the middle.
    (note,) = shard_checks.check_digests(found, 1)
    assert note.severity == "note"
    assert note.text.startswith("the sha256 of 1 of 4 shards was compared")
    more = first + os.path.getsize(shard(folder, 2))
    faults = shard_checks.check_digests(found, more)
    assert [fault.severity for fault in faults] == ["error", "note"]


def test_compared_shards_are_spread_over_the_set():
    order = shard_checks._spread_order(8).tolist()
    assert order == [0, 4, 2, 6, 1, 5, 3, 7]
    for count in (1, 2, 3, 5, 100):
        found = shard_checks._spread_order(count).tolist()
        assert sorted(found) == list(range(count))


def test_foreign_files_are_opened_except_truncated_ones(tmp_path, samples):
    for name in "abc":
        samples.write_legacy(str(tmp_path / f"{name}.tfrecord"))
    os.truncate(tmp_path / "b.tfrecord", 700)
    found, faults = shard_checks.open_intact(f"{tmp_path}/*.tfrecord")
    (text,) = texts(faults)
    assert "b.tfrecord" in text and "Truncated record" in text
    assert len(found) == 8 and found.legacy_names
    assert shard_checks.check_digests(found, None) == []


def test_missing_records_are_reported(tmp_path):
    found, faults = shard_checks.open_intact(f"{tmp_path}/none*")
    assert found is None
    assert "No records at" in texts(faults)[0]
    found, faults = shard_checks.open_intact(str(tmp_path))
    assert found is None
    assert f"has no {records.MANIFEST_NAME}" in texts(faults)[0]
