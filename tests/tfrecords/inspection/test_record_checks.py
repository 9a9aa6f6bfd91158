"""record_checks.py: each problem of a sample is reported, and nothing else."""

import re

import numpy as np
import planted_records as planted
import pytest

from tfrecords.inspection import record_checks, sample_statistics, samples
from tfrecords.io import records

UNCASED = sample_statistics.Entries.of(planted.UNCASED)
CASED = sample_statistics.Entries.of(planted.CASED)
NOTHING = sample_statistics.SampleStatistics(
    *[0] * len(sample_statistics.SampleStatistics._fields)
)


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


def only_text(faults, severity, check):
    """Returns the text of the only diagnostic."""
    assert [(f.severity, f.check) for f in faults] == [(severity, check)]
    return faults[0].text


@pytest.mark.parametrize("num_examples", [6, 60, 800])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_valid_examples_have_no_diagnostics(tmp_path, num_examples, seed):
    batch = planted.make_batch(num_examples, seed=seed, copies=2)
    assert look(tmp_path, batch)[1] == []


def test_ids_outside_of_the_vocabulary_are_an_error(tmp_path):
    batch = planted.make_batch()
    batch["input_word_ids"][[5, 9], 3] = 1000
    text = only_text(look(tmp_path, batch)[1], "error", "ids")
    assert text.startswith("2 of 800 examples have ids that are not below")
    assert "id 1000 in input_word_ids" in text
    assert "Use the vocabulary" in text


def test_masks_of_padding_are_an_error(tmp_path):
    batch = planted.make_batch()
    batch["masked_lm_positions"][batch["input_mask"][:, 31] == 0, 0] = 31
    _, faults = look(tmp_path, batch)
    assert any("positions without a token" in fault.text for fault in faults)


def test_too_many_unknown_words_are_an_error(tmp_path):
    batch = planted.make_batch(unk_share=0.03)
    text = only_text(look(tmp_path, batch)[1], "error", "[UNK]")
    assert text.startswith(("2.", "3."))
    assert "use another vocabulary" in text
    # No more than chance explains.
    assert look(tmp_path, planted.make_batch(unk_share=0.009))[1] == []


def test_fine_tuning_tolerates_more_unknown_words(tmp_path):
    batch = planted.make_batch(unk_share=0.05)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    only_text(faults, "warning", "[UNK]")
    batch = planted.make_batch(unk_share=0.3)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    only_text(faults, "error", "[UNK]")


def case_of(sample, entries, made_with, is_uncased):
    return record_checks.check_case(
        sample, entries, made_with=made_with, is_uncased=is_uncased
    )


def test_cased_text_with_an_uncased_vocabulary_is_an_error(tmp_path):
    sample, _ = look(tmp_path, planted.make_batch(unk_share=0.1))
    text = only_text(case_of(sample, UNCASED, False, True), "error", "case")
    assert "do_lower_case true" in text
    assert "0 of its 155 entries have capitals" in text
    # Text without capitals is not affected.
    sample, _ = look(tmp_path, planted.make_batch())
    only_text(case_of(sample, UNCASED, False, True), "warning", "case")
    assert case_of(sample, UNCASED, True, True) == []
    # Ids of another vocabulary cannot be checked.
    text = only_text(case_of(None, UNCASED, False, True), "error", "case")
    assert "are [UNK]. Make" in text


def test_lower_cased_text_with_a_cased_vocabulary_is_an_error(tmp_path):
    sample, _ = look(tmp_path, planted.make_batch(), CASED)
    text = only_text(case_of(sample, CASED, True, False), "error", "case")
    assert "75 of the vocabulary's 230 entries have capitals" in text
    assert "do_lower_case false" in text
    # Without flags, that none of so many words has a capital is the only hint.
    only_text(case_of(sample, CASED, None, False), "warning", "case")
    batch = planted.make_batch(entries=planted.CASED, capital_share=0.1)
    sample, _ = look(tmp_path, batch, CASED)
    assert case_of(sample, CASED, None, False) == []
    assert case_of(sample, CASED, False, False) == []


def test_a_script_without_capitals_has_no_case():
    names = [*planted.UNCASED[:5], *(chr(0x5D0 + n) for n in range(20))]
    hebrew = sample_statistics.Entries.of(names)
    assert case_of(None, hebrew, False, True) == []


def test_copies_beyond_the_dupe_factor_are_an_error(tmp_path):
    batch = planted.make_batch(copies=4)
    assert look(tmp_path, batch, dupe_factor=4)[1] == []
    _, faults = look(tmp_path, batch, dupe_factor=2)
    text = only_text(faults, "error", "duplicates")
    assert text.startswith("800 of 800 examples of the sample have the same")
    assert "one occurs 4 times, and dupe_factor=2 explains at most 2" in text
    assert "Drop duplicate documents" in text


def test_copies_without_a_known_dupe_factor_are_at_most_a_warning(tmp_path):
    # Records of create_pretraining_data.py, which have no manifest.
    flags = {n: x for n, x in planted.FLAGS.items() if n != "dupe_factor"}
    for copies, severities in ((10, []), (20, ["warning"])):
        sample, _ = look(tmp_path, planted.make_batch(copies=copies))
        for known in (flags, {}):
            faults = record_checks.check_duplicates(
                sample, known, np.array([0, sample.num_examples]), True
            )
            assert [fault.severity for fault in faults] == severities
    assert "dupe_factor=10 explains at most 10 (assumed" in faults[0].text


def with_copies(tmp_path, num_copies):
    """Returns diagnostics of 800 examples, of which some are the first."""
    often = np.r_[np.zeros(num_copies, int), np.arange(800 - num_copies)]
    batch = {name: x[often] for name, x in planted.make_batch().items()}
    return look(tmp_path, batch)[1]


@pytest.mark.parametrize(
    "num_copies,severity", [(30, "warning"), (90, "error")]
)
def test_many_copies_of_one_text_are_reported(tmp_path, num_copies, severity):
    text = only_text(with_copies(tmp_path, num_copies), severity, "duplicates")
    assert f"one occurs {num_copies + 1} times" in text
    assert "explains at most 2. The model" in text


def test_a_few_copies_are_not_reported(tmp_path):
    assert with_copies(tmp_path, 7) == []


def test_copies_are_visible_in_a_small_sample_of_a_large_set():
    # A million examples in 1,000 shards. Each has twenty copies in random
    # shards, or two in the same shard, which dupe_factor=2 explains.
    num_records, num_shards = 1_000_000, 1000
    first = np.arange(num_shards + 1) * (num_records // num_shards)
    numbers = samples.spread(num_records, 8192)
    rng = np.random.default_rng(0)
    twenty = rng.permutation(np.arange(num_records) // 20)
    two = np.arange(num_records).reshape(num_shards, -1) // 2
    two = rng.permuted(two, axis=1).ravel()
    for texts, is_fault in ((twenty, True), (two, False)):
        sample = NOTHING._replace(
            num_examples=len(numbers),
            numbers=numbers,
            digests=texts[numbers].astype(np.uint64),
        )
        faults = record_checks.check_duplicates(
            sample, {"dupe_factor": 2}, first, True
        )
        assert [fault.severity for fault in faults] == ["error"] * is_fault
        for fault in faults:
            # 19 other copies; one in a thousand is in the same shard.
            copies = re.search("estimated ([0-9.]+) copies of each", fault.text)
            assert 15 < float(copies[1]) < 21


def test_copies_are_a_warning_in_fine_tuning(tmp_path):
    batch = planted.make_batch(copies=4)
    _, faults = look(tmp_path, batch, is_pretraining=False)
    text = only_text(faults, "warning", "duplicates")
    assert "dupe_factor" not in text
    # Lists of passages have copies by design.
    more = {"is_pretraining": False, "passages_per_query": 4}
    assert look(tmp_path, batch, **more)[1] == []


def labels_of(counts, **flags):
    sample = NOTHING._replace(labels=np.array(counts))
    return record_checks.check_labels(sample, flags)


def test_classes_with_few_or_no_examples_are_reported():
    assert labels_of([40, 60], labels=["bad", "good"]) == []
    text = only_text(labels_of([99, 1]), "warning", "labels")
    assert "0 99, 1 1" in text
    text = only_text(
        labels_of([40, 60], labels=["bad", "good", "so so"]),
        "warning",
        "labels",
    )
    assert "bad 40, good 60, so so 0" in text
    text = only_text(labels_of([1, 1, 1], labels=["a", "b"]), "error", "labels")
    assert "label_ids go up to 2" in text
