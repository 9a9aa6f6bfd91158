"""journal.py: finished shards that a rerun reuses, and runs it rejects."""

import os

import pytest

from tfrecords.io import journal as progress
from tfrecords.io import records

RUN = {"dupe_factor": 5, "sizes": (1, 2), "num_shards": None}


def open_journal(folder, **changes):
    return progress.Journal(str(folder), RUN | changes, ["train"])


def finish(journal, name="a"):
    os.makedirs(os.path.join(journal.output_dir, "train"), exist_ok=True)
    path = os.path.join(journal.output_dir, "train", name)
    info = records.write_shard(path, [name.encode()])
    journal.add("train", info, {"examples": 1})
    return path


def test_a_finished_shard_is_known_to_a_rerun(tmp_path):
    finish(open_journal(tmp_path))
    again = open_journal(tmp_path)
    assert again.has("train", "a") and not again.has("train", "b")
    shards, statistics = again.read("train", ["a"])
    assert shards[0].num_examples == 1
    assert statistics == {"examples": 1}


def test_a_lost_or_truncated_shard_is_not_finished(tmp_path):
    journal = open_journal(tmp_path)
    for ending in ("", ".index"):
        os.remove(finish(journal) + ending)
        assert not journal.has("train", "a")
    os.truncate(finish(journal), 3)
    assert not journal.has("train", "a")


def test_a_line_cut_by_a_crash_is_ignored(tmp_path):
    journal = open_journal(tmp_path)
    finish(journal, "a")
    finish(journal, "b")
    path = tmp_path / "progress.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    again = open_journal(tmp_path)
    assert again.has("train", "a") and not again.has("train", "b")
    finish(again, "b")
    assert open_journal(tmp_path).has("train", "b")


OLD = {"sentencex": "1.0.0"}


def test_shards_of_other_libraries_are_not_mixed(tmp_path):
    finish(open_journal(tmp_path, libraries=OLD))
    with pytest.raises(ValueError, match="now there is sentencex 1.0.1. To fi"):
        open_journal(tmp_path, libraries={"sentencex": "1.0.1"})
    # One that was not needed, or is not now, decides nothing.
    more = OLD | {"tensorflow-text": "2.21.1"}
    assert open_journal(tmp_path, libraries=more).has("train", "a")
    finish(open_journal(tmp_path / "more", libraries=more))
    assert open_journal(tmp_path / "more", libraries=OLD).has("train", "a")


def test_records_without_a_journal_are_rejected(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "something").write_text("")
    with pytest.raises(ValueError, match="train' is not empty, and"):
        open_journal(tmp_path)


@pytest.mark.parametrize(
    "line, message",
    [
        (b"{oops", "is not JSON .*: '{oops'"),
        (b"\xff", "is not JSON .line 1: byte 0xff is not UTF-8"),
        (b"[" * 10_000, "is not JSON .brackets are nested deeper"),
        (b"[1]", r": the content is \[1\]; it should be an object"),
        (b"{}", ": set is missing or null; it should be a string"),
        (b'{"set": "a", "shard": {}}', ": shard.name is missing"),
    ],
)
def test_a_damaged_journal_is_named(tmp_path, line, message):
    path = tmp_path / "progress.jsonl"
    path.write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"{path}:2.*{message}.*another --out"):
        open_journal(tmp_path)
    path.write_bytes(b"[]\n{}\n")
    with pytest.raises(ValueError, match=f"{path}:1: the content is "):
        open_journal(tmp_path)


def test_manifests_are_returned_only_if_all_shards_exist(tmp_path):
    """They are of any version, and made with any libraries."""
    journal = open_journal(tmp_path, libraries={"sentencex": "0.9"})
    path = finish(journal)
    assert journal.finished_manifests() == {}
    shards, statistics = journal.read("train", ["a"])
    manifest = records.Manifest(
        schema_name="pretraining",
        sizes={"max_seq_length": 8, "max_predictions_per_seq": 2},
        flags=journal.run,
        vocabulary={},
        statistics=statistics,
        shards=shards,
    )
    manifest.write(str(tmp_path / "train"))
    assert journal.finished_manifests() == {"train": manifest}
    assert open_journal(tmp_path, libraries=OLD).has("train", "a")
    os.remove(path)
    assert journal.finished_manifests() == {}


def test_a_run_without_shards_may_restart_with_other_settings(tmp_path):
    """Also one that was killed in its first shard."""
    open_journal(tmp_path)
    leftover = tmp_path / "train" / f".a.{'ab' * 8}.tmp"
    leftover.parent.mkdir()
    leftover.touch()
    assert not open_journal(tmp_path, dupe_factor=6).has("train", "a")
    assert not leftover.exists()
