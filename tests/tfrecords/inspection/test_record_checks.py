"""record_checks.py: each fault of a sample is found, and nothing else."""

import re

import numpy as np
import planted_records as planted
import pytest

from tfrecords.inspection import (
    record_checks,
    sample_statistics,
    samples,
)
from tfrecords.io import records

UNCASED = sample_statistics.Entries.of(planted.UNCASED)
CASED = sample_statistics.Entries.of(planted.CASED)


def look(
    tmp_path,
    batch,
    entries=UNCASED,
    *,
    wanted=None,
    is_pretraining=True,
    num_shards=2,
    **flags,
):
    """Returns statistics and diagnostics of examples that are written first."""
    folder, _ = planted.write(
        tmp_path / "train", batch, entries.names, num_shards=num_shards
    )
    found = records.Records.open(folder)
    name = samples.schema_name(found)
    sample, faults = sample_statistics.count(
        found, name, planted.SIZES, entries, len(entries.names), wanted
    )
    assert not faults
    return sample, record_checks.check_sample(
        sample,
        planted.FLAGS | flags,
        entries,
        first=found.first,
        is_pretraining=is_pretraining,
    )


def the_one(faults, severity, check):
    """The text of the only finding."""
    assert [(f.severity, f.check) for f in faults] == [(severity, check)]
    return faults[0].text


@pytest.mark.parametrize("num_examples", [6, 60, 800])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sound_examples_have_no_finding(tmp_path, num_examples, seed):
    batch = planted.make_batch(num_examples, seed=seed, copies=2)
    assert look(tmp_path, batch)[1] == []


def test_ids_that_the_vocabulary_does_not_have(tmp_path):
    batch = planted.make_batch()
    batch["input_word_ids"][[5, 9], 3] = 1000
    text = the_one(look(tmp_path, batch)[1], "error", "ids")
    assert text.startswith("2 of 800 examples have ids that are not below")
    assert "id 1000 in input_word_ids" in text
    assert "Use the vocabulary" in text


def test_masks_where_no_token_is(tmp_path):
    batch = planted.make_batch()
    batch["masked_lm_positions"][batch["input_mask"][:, 31] == 0, 0] = 31
    _, faults = look(tmp_path, batch)
    assert any("positions where no token is" in fault.text for fault in faults)


def test_unknown_words(tmp_path):
    batch = planted.make_batch(unk_share=0.03)
    text = the_one(look(tmp_path, batch)[1], "error", "[UNK]")
    assert text.startswith(("2.", "3."))
    assert "--vocab_file" in text
    # What chance may give is none; without a vocabulary nobody knows.
    assert look(tmp_path, planted.make_batch(unk_share=0.009))[1] == []


def test_in_fine_tuning_more_unknown_words_are_borne(tmp_path):
    batch = planted.make_batch(unk_share=0.05)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    the_one(faults, "warning", "[UNK]")
    batch = planted.make_batch(unk_share=0.3)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    the_one(faults, "error", "[UNK]")


def case_of(sample, entries, made_with, is_uncased):
    return record_checks.check_case(
        sample, entries, made_with=made_with, is_uncased=is_uncased
    )


def test_cased_text_with_an_uncased_vocabulary(tmp_path):
    sample, _ = look(tmp_path, planted.make_batch(unk_share=0.1))
    text = the_one(case_of(sample, UNCASED, False, True), "error", "case")
    assert "--do_lower_case" in text
    assert "155 entries" in text and "0 have capitals" in text
    # Text that had no capitals to begin with is not spoilt.
    sample, _ = look(tmp_path, planted.make_batch())
    the_one(case_of(sample, UNCASED, False, True), "warning", "case")
    assert case_of(sample, UNCASED, True, True) == []
    # Of records of another vocabulary the ids say nothing.
    text = the_one(case_of(None, UNCASED, False, True), "error", "case")
    assert "are [UNK]. Make" in text


def test_lower_cased_text_with_a_cased_vocabulary(tmp_path):
    sample, _ = look(tmp_path, planted.make_batch(), CASED)
    text = the_one(case_of(sample, CASED, True, False), "error", "case")
    assert "75 of the vocabulary's 230 entries have capitals" in text
    assert "--do_lower_case=false" in text
    # Nobody said how the records were made, but so many words have a capital.
    the_one(case_of(sample, CASED, None, False), "warning", "case")
    batch = planted.make_batch(entries=planted.CASED, capital_share=0.1)
    sample, _ = look(tmp_path, batch, CASED)
    assert case_of(sample, CASED, None, False) == []
    assert case_of(sample, CASED, False, False) == []


def test_a_script_without_capitals_has_no_case(tmp_path):
    names = [*planted.UNCASED[:5], *(chr(0x5D0 + n) for n in range(20))]
    hebrew = sample_statistics.Entries.of(names)
    assert case_of(None, hebrew, False, True) == []


def test_copies_beyond_the_dupe_factor(tmp_path):
    batch = planted.make_batch(copies=4)
    assert look(tmp_path, batch, dupe_factor=4)[1] == []
    _, faults = look(tmp_path, batch, dupe_factor=2)
    text = the_one(faults, "error", "duplicates")
    assert text.startswith("800 of 800 examples of the sample have the same")
    assert "one occurs 4 times, and dupe_factor=2 explains 2" in text
    assert "Drop duplicate documents" in text


@pytest.mark.parametrize(
    "num_copies,severity", [(30, "warning"), (90, "error")]
)
def test_one_text_again_and_again(tmp_path, num_copies, severity):
    batch = planted.make_batch()
    often = np.r_[np.zeros(num_copies, int), np.arange(800 - num_copies)]
    batch = {name: array[often] for name, array in batch.items()}
    text = the_one(look(tmp_path, batch)[1], severity, "duplicates")
    assert f"one occurs {num_copies + 1} times" in text
    assert "explains 2 at most. The model" in text


def test_a_few_copies_are_none(tmp_path):
    batch = planted.make_batch()
    often = np.r_[np.zeros(7, int), np.arange(793)]
    batch = {name: array[often] for name, array in batch.items()}
    assert look(tmp_path, batch)[1] == []


def test_copies_show_in_a_small_part_of_a_large_set():
    # A million examples in 1,000 shards. Of a document twenty copies in shards
    # of any number; or two in one shard, which dupe_factor=2 explains.
    num_records, num_shards = 1_000_000, 1000
    first = np.arange(num_shards + 1) * (num_records // num_shards)
    numbers = samples.spread(num_records, 8192)
    rng = np.random.default_rng(0)
    twenty = rng.permutation(np.arange(num_records) // 20)
    two = np.arange(num_records).reshape(num_shards, -1) // 2
    two = rng.permuted(two, axis=1).ravel()
    for texts, is_fault in ((twenty, True), (two, False)):
        sample = sample_statistics.SampleStatistics(
            *[0] * len(sample_statistics.SampleStatistics._fields)
        )._replace(
            num_examples=len(numbers),
            numbers=numbers,
            digests=texts[numbers].astype(np.uint64),
        )
        faults = record_checks.check_duplicates(
            sample, {"dupe_factor": 2}, first, True
        )
        assert [fault.severity for fault in faults] == ["error"] * is_fault
        for fault in faults:
            # 19, of which one in a thousand is in the same shard.
            copies = re.search("some ([0-9.]+) copies of each", fault.text)
            assert 15 < float(copies[1]) < 21


def test_in_fine_tuning_copies_are_a_warning(tmp_path):
    batch = planted.make_batch(copies=4)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    text = the_one(faults, "warning", "duplicates")
    assert "dupe_factor" not in text


def labels_of(counts, **flags):
    sample = sample_statistics.SampleStatistics(
        *[0] * len(sample_statistics.SampleStatistics._fields)
    )._replace(labels=np.array(counts))
    return record_checks.check_labels(sample, flags)


def test_classes_that_are_hardly_there():
    assert labels_of([40, 60], labels=["bad", "good"]) == []
    text = the_one(labels_of([99, 1]), "warning", "labels")
    assert "0 99, 1 1" in text
    text = the_one(
        labels_of([40, 60], labels=["bad", "good", "so so"]),
        "warning",
        "labels",
    )
    assert "bad 40, good 60, so so 0" in text
    text = the_one(labels_of([1, 1, 1], labels=["a", "b"]), "error", "labels")
    assert "label_ids go up to 2" in text
