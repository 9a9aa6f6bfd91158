"""pretraining_checks.py: wrong pairs and masks are reported, valid ones not."""

import numpy as np
import planted_records as planted
import pytest

from tfrecords.inspection import (
    pretraining_checks,
    sample_statistics,
    samples,
)
from tfrecords.pretraining import masking

ENTRIES = sample_statistics.Entries.of(planted.UNCASED)


def statistics_of(batch):
    class FakeRecords:
        def describe(self, index):
            return f"record {index}"

    indices = np.arange(len(batch["input_mask"]))
    return sample_statistics._count(
        FakeRecords(), batch, indices, ENTRIES, None
    )


def pairs_of(share, num_examples=800, **flags):
    batch = planted.make_batch(num_examples, random_next_share=share)
    return pretraining_checks.check_pairs(statistics_of(batch), flags)


@pytest.mark.parametrize(
    "share,severities",
    [
        (0.5, []),
        (0.62, []),
        (0.82, ["warning"]),
        (0.95, ["error"]),
        (0.25, ["warning"]),
        (0.02, ["error"]),
    ],
)
def test_random_next_sentences_should_be_about_half(share, severities):
    found = pairs_of(share)
    assert [fault.severity for fault in found] == severities
    for fault in found:
        assert "of 800 examples have random next sentences" in fault.text
        assert ("blank lines" in fault.text) == (share > 0.5)


def test_few_examples_may_be_far_from_half_by_chance():
    assert pairs_of(0.8, 12) == []


def test_swapped_sentences_are_named():
    (fault,) = pairs_of(0.0, pairs="sentence_order")
    assert "swapped sentences" in fault.text


def test_examples_without_pairs_are_not_reported():
    batch = planted.make_batch(50)
    del batch["next_sentence_labels"]
    assert pretraining_checks.check_pairs(statistics_of(batch), {}) == []


def masks_of(flags=planted.FLAGS, **changes):
    batch = planted.make_batch(**changes)
    return pretraining_checks.check_masks(statistics_of(batch), flags)


def test_masks_that_match_the_flags_are_not_reported():
    assert masks_of() == []
    assert masks_of({}) == []
    flags = planted.FLAGS | {"mask_mix": ["mask:1"]}
    assert masks_of(flags, mask_share=1.0) == []


@pytest.mark.parametrize("mask_share", [0.7, 0.87, 1.0])
def test_a_mix_that_differs_from_the_flags_is_an_error(mask_share):
    (fault,) = masks_of(mask_share=mask_share)
    assert fault.severity == "error"
    assert f"unchanged are {mask_share:.1f}"[:-2] in fault.text
    assert "expected 0.800 / 0.100 / 0.100" in fault.text


def test_the_mix_is_read_from_the_flags():
    mix = masking.Mix(mask=0.2, random=0.5, same=0.3)
    flags = {"mask_mix": ["mask:0.2", "random:0.5", "same:0.3"]}
    assert pretraining_checks.mask_mix(flags) == mix
    assert pretraining_checks.mask_mix({}) == masking.Mix()


def test_fewer_or_more_masks_than_expected_are_reported():
    (fault,) = masks_of(masked_lm_prob=0.05)
    assert fault.severity == "error"
    assert "masked_lm_prob=0.15 with at most 5 slots gives 0.1" in fault.text
    flags = planted.FLAGS | {"masked_lm_prob": 0.08}
    (fault,) = masks_of(flags)
    assert "masked_lm_prob=0.08" in fault.text
    flags = planted.FLAGS | {"masked_lm_prob": 0.12}  # A fifth too many.
    (fault,) = masks_of(flags)
    assert "masked_lm_prob=0.12 with at most 5 slots gives 0.1" in fault.text
    # Without flags the expected number is not known.
    (fault,) = masks_of({}, masked_lm_prob=0.05)
    assert fault.severity == "warning"


def test_too_few_slots_for_masks_are_reported():
    batch = planted.make_batch()
    for name in ("positions", "ids", "weights"):
        batch[f"masked_lm_{name}"] = batch[f"masked_lm_{name}"][:, :2]
    batch["input_word_ids"] = np.where(
        batch["input_word_ids"] == planted.MASK,
        samples.unmask(batch),
        batch["input_word_ids"],
    )
    flags = planted.FLAGS | {"max_predictions_per_seq": 2}
    found = pretraining_checks.check_masks(statistics_of(batch), flags)
    text = " ".join(fault.text for fault in found)
    assert " max_predictions_per_seq=5" in text


def test_only_the_flags_of_records_masked_when_read_are_checked():
    batch = planted.make_batch(50)
    batch = {n: x for n, x in batch.items() if not n.startswith("masked_lm")}
    statistics = statistics_of(batch)
    assert pretraining_checks.check_masks(statistics, {}) == []
    flags = {"max_seq_length": 64, "masked_lm_prob": 0.25}
    flags["max_predictions_per_seq"] = 16
    assert pretraining_checks.check_masks(statistics, flags) == []
    flags["max_predictions_per_seq"] = 15
    (fault,) = pretraining_checks.check_masks(statistics, flags)
    assert fault.severity == "warning"
    assert "masked_lm_prob=0.25 of 64 tokens are 16" in fault.text
    assert " max_predictions_per_seq=16" in fault.text
