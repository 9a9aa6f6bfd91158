"""sample_statistics.py: counts of known examples."""

import numbered_records
import numpy as np
import planted_records as planted
import pytest

from tfrecords.inspection import sample_statistics, samples
from tfrecords.io import records
from tfrecords.pretraining import packing
from tools import record_statistics

ENTRIES = sample_statistics.Entries.of(planted.UNCASED)


def count_of(folder, entries=ENTRIES, vocab_size=None, wanted=None):
    found = records.Records.open(str(folder))
    name = samples.schema_name(found)
    sizes = samples.sizes_of(found, name)
    return sample_statistics.count(
        found, name, sizes, entries, vocab_size, wanted
    )


def test_entries_mark_special_tokens_and_capitals():
    entries = sample_statistics.Entries.of([*planted.CASED, "##Z", "[unused1]"])
    assert entries.unk_id == planted.UNK
    assert entries.is_special.nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    names = [entries.names[i] for i in entries.has_capital.nonzero()[0]]
    assert names == [n for n in entries.names[5:] if n[0].isupper()] + ["##Z"]


def test_counting_in_parts_gives_the_same_statistics(tmp_path, monkeypatch):
    batch = planted.make_batch(90, unk_share=0.2)
    folder, _ = planted.write(tmp_path / "train", batch)
    whole, faults = count_of(folder)
    assert not faults
    monkeypatch.setattr(sample_statistics, "_READ_EXAMPLES", 16)
    found, faults = count_of(folder)
    assert not faults
    ids, mask = samples.unmask(batch), batch["input_mask"] > 0
    assert found.num_examples == 90
    assert found.num_tokens == mask.sum()
    assert found.num_unknown == (ids == planted.UNK).sum()
    assert found.num_words == mask.sum() - 3 * 90
    assert (
        found.num_capital == found.num_wrong_ids == found.misplaced_masks == 0
    )
    assert found.highest_id == max(ids.max(), batch["input_word_ids"].max())
    assert found.highest_type == 1
    labels = np.bincount(batch["next_sentence_labels"], minlength=2)
    assert found.pair_labels.tolist() == labels.tolist()
    assert found.labels.tolist() == []
    assert found.counts.shown.sum() == batch["masked_lm_weights"].sum()
    assert found.numbers.tolist() == list(range(90))
    assert len(set(found.digests.tolist())) == 90
    assert found.counts.masked.tolist() == whole.counts.masked.tolist()
    assert found.digests.tolist() == whole.digests.tolist()


def test_masks_are_counted_as_record_statistics_does(tmp_path, monkeypatch):
    batch = planted.make_batch(50)
    for name in ("input_word_ids", "masked_lm_ids"):
        # So that the parts differ in their highest ids.
        batch[name][:20] = batch[name][:20].clip(0, 120)
    folder, _ = planted.write(tmp_path / "train", batch, num_shards=1)
    expected = record_statistics.count(
        batch, ENTRIES.masking, np.random.default_rng(0)
    )
    # Without a vocabulary, [MASK] is the most frequent replacement.
    monkeypatch.setattr(sample_statistics, "_READ_EXAMPLES", 10)
    for entries in (ENTRIES, None):
        found, _ = count_of(folder, entries)
        for name in ("masked", "shown"):
            np.testing.assert_array_equal(
                getattr(found.counts, name), getattr(expected, name)
            )
        tokens = found.counts.masked.sum(axis=1)
        np.testing.assert_array_equal(tokens, expected.tokens)


def test_each_example_of_a_packed_row_is_counted(tmp_path):
    batch = planted.make_batch(60)
    sizes = {
        "max_seq_length": 64,
        "max_predictions_per_row": 10,
        "max_examples_per_row": 2,
    }
    rows = packing.join(batch, np.full(30, 2), sizes)
    planted.write(tmp_path / "plain", batch, num_shards=1)
    planted.write(
        tmp_path / "packed",
        rows,
        num_shards=1,
        sizes=sizes,
        schema_name="packed_pretraining",
    )
    plain, _ = count_of(tmp_path / "plain")
    packed, _ = count_of(tmp_path / "packed")
    assert packed.num_examples == 60
    assert packed.numbers.tolist() == np.repeat(np.arange(30), 2).tolist()
    for name in ("num_tokens", "num_words", "highest_id", "highest_type"):
        assert getattr(packed, name) == getattr(plain, name), name
    assert packed.pair_labels.tolist() == plain.pair_labels.tolist()
    assert packed.counts.shown.tolist() == plain.counts.shown.tolist()


def test_digests_do_not_depend_on_masks(tmp_path):
    folder, _ = planted.write(
        tmp_path / "train", planted.make_batch(40, copies=2)
    )
    found, _ = count_of(folder)
    counts = np.unique(found.digests, return_counts=True)[1]
    assert counts.tolist() == [2] * 20


def test_wrong_ids_are_counted_and_the_first_named(tmp_path):
    batch = planted.make_batch(20)
    for row in (2, 4, 8, 9, 10):
        batch["input_word_ids"][row, 1] = 500 + row
    batch["masked_lm_ids"][2, 0] = 700
    folder, _ = planted.write(tmp_path / "train", batch, num_shards=1)
    found, _ = count_of(folder, vocab_size=155)
    assert found.num_wrong_ids == 5
    assert len(found.wrong_ids) == 3
    assert "record 2, byte" in found.wrong_ids[0]
    assert found.wrong_ids[0].endswith("id 502 in input_word_ids")
    assert found.highest_id == 700


def test_masks_of_padding_are_counted(tmp_path):
    batch = planted.make_batch(20)
    short = np.flatnonzero(batch["input_mask"][:, -1] == 0)[:3]
    batch["masked_lm_positions"][short, 0] = 31
    batch["masked_lm_positions"][19, 1] = 99
    folder, _ = planted.write(tmp_path / "train", batch)
    found, _ = count_of(folder)
    assert found.misplaced_masks == len({*short.tolist(), 19})


@pytest.mark.parametrize(
    "schema_name", ["masked_lm", "unmasked_pairs", "unmasked_segments"]
)
def test_schemas_without_labels_or_masks_are_counted(tmp_path, schema_name):
    batch = planted.make_batch(20)
    folder, _ = planted.write(
        tmp_path / "train", batch, schema_name=schema_name
    )
    found, faults = count_of(folder)
    assert not faults
    assert (found.counts is not None) == (schema_name == "masked_lm")
    assert (found.pair_labels.sum() > 0) == (schema_name == "unmasked_pairs")


def test_a_damaged_part_is_named_and_the_rest_counted(tmp_path, monkeypatch):
    folder, _ = planted.write(
        tmp_path / "train", planted.make_batch(40), num_shards=1
    )
    numbered_records.damage(records.Records.open(folder).paths[0], 1000)
    monkeypatch.setattr(sample_statistics, "_READ_EXAMPLES", 10)
    found, faults = count_of(folder)
    assert found.num_examples == 30
    assert len(faults) == 1 and "Corrupt record" in faults[0]
