"""settings.py: valid settings, and errors of invalid ones."""

import json

import pytest

from tfrecords.pretraining import masking
from tfrecords.pretraining import settings as settings_lib


@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({}, "tokens"),
        ({"do_whole_word_mask": True}, "words"),
        ({"masking": "words"}, "words"),
        ({"masking": "words", "do_whole_word_mask": True}, "words"),
        ({"masking": "spans"}, "spans"),
    ],
)
def test_whole_word_masking_has_two_flags(changes, unit):
    assert settings_lib.Settings(**changes).rules.unit == unit


def test_settings_are_restored_from_a_manifest():
    settings = settings_lib.Settings(
        masking="spans",
        mask_mix=("mask:0.5", "random:0.5"),
        pairs="none",
    )
    flags = json.loads(json.dumps(settings.describe()))
    flags |= {"num_shards": 3, "vocab_sha256": "aa"}
    assert settings_lib.Settings.of(flags) == settings


def test_rules_are_those_of_the_settings():
    settings = settings_lib.Settings(
        max_predictions_per_seq=7,
        masked_lm_prob=0.3,
        masking="spans",
        max_ngram=4,
        mask_mix=("mask:1",),
    )
    assert settings.rules == masking.Rules(
        max_predictions_per_seq=7,
        masked_lm_prob=0.3,
        unit="spans",
        max_ngram=4,
        mix=masking.Mix(mask=1.0, random=0.0, same=0.0),
    )


def test_packed_rows_have_their_own_sizes():
    settings = settings_lib.Settings(max_examples_per_row=3)
    assert settings.sizes == {
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "max_examples_per_row": 3,
        "max_predictions_per_row": 20,
    }
    sizes = settings_lib.Settings().sizes
    assert list(sizes) == ["max_seq_length", "max_predictions_per_seq"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 4}, "max_seq_length=4 should be from 5"),
        ({"max_seq_length": 1 << 16}, "max_seq_length=65536 .* to 65535"),
        (
            {"max_predictions_per_seq": 129},
            "max_predictions_per_seq=129 should be from 1 to "
            "max_seq_length=128",
        ),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq=0"),
        ({"dupe_factor": 0}, "dupe_factor=0 should be at least 1"),
        ({"random_seed": -1}, "random_seed=-1 should be at least 0"),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob=1.5 should be at most 1"),
        ({"short_seq_prob": -0.1}, "short_seq_prob=-0.1 should be at least 0"),
        (
            {"masking": "ngrams"},
            "--masking=ngrams: choose one of tokens, words",
        ),
        (
            {"masking": "spans", "do_whole_word_mask": True},
            "masking=spans contradicts do_whole_word_mask",
        ),
        (
            {"masking": "tokens", "do_whole_word_mask": True},
            "masking=tokens contradicts do_whole_word_mask",
        ),
        ({"pairs": "both"}, "pairs=both: choose one of next_sentence, none"),
        ({"masking_time": "later"}, "masking_time=later: choose one of"),
        ({"max_ngram": 0}, "max_ngram=0 should be at least 1"),
        ({"max_ngram": 3}, "--max_ngram=3 is the length of spans, and"),
        (
            {"mask_mix": ("mask:0.8", "random:0.1")},
            "random:0.1,same:0 sums to 0.9",
        ),
        (
            {"mask_mix": ("0.8", "0.1", "0.1")},
            "--mask_mix=0.8,0.1,0.1 should look like",
        ),
        ({"mask_mix": ("mask:1", "keep:0")}, "each at most once"),
        ({"mask_mix": ("mask:0.5", "mask:0.5")}, "each at most once"),
        ({"mask_mix": ("mask:all",)}, "--mask_mix=mask:all should look like"),
        ({"mask_mix": ("",)}, "--mask_mix= should look like"),
        (
            {"max_examples_per_row": 0},
            "max_examples_per_row=0 should be from 1 to max_seq_length=128",
        ),
    ],
)
def test_invalid_settings_raise(changes, message):
    with pytest.raises(ValueError, match=message):
        settings_lib.Settings(**changes)
