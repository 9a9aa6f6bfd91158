"""example_flags.py: flags become Settings, and mistakes are named."""

import pytest
from absl import flags

from run_scripts.flags import example_flags
from tfrecords.pretraining import masking
from tfrecords.pretraining import settings as settings_lib


def settings(*words):
    values = flags.FlagValues()
    example_flags.define_examples(values)
    values(["script", *words])
    return example_flags.settings(values)


def test_no_flags_are_the_defaults():
    assert settings() == settings_lib.Settings()


def test_flags_become_settings():
    found = settings(
        "--max_seq_length=64",
        "--max_predictions_per_seq=11",
        "--random_seed=3",
        "--dupe_factor=2",
        "--masked_lm_prob=0.2",
        "--short_seq_prob=0.5",
        "--masking=spans",
        "--max_ngram=3",
        "--mask_mix=same:0.2,random:0.8",
    )
    assert found == settings_lib.Settings(
        max_seq_length=64,
        max_predictions_per_seq=11,
        random_seed=3,
        dupe_factor=2,
        masked_lm_prob=0.2,
        short_seq_prob=0.5,
        masking="spans",
        max_ngram=3,
        mask_mix=masking.Mix(mask=0.0, random=0.8, same=0.2),
    )


@pytest.mark.parametrize(
    "word",
    ["--do_whole_word_mask", "--masking=words", "--do_whole_word_mask=1"],
)
def test_the_original_s_flag_masks_whole_words(word):
    assert settings(word).unit == "words"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--mask_mix=mask:0.8,random:0.1", "mask:0.8,random:0.1,same:0 is 0.9"),
        ("--mask_mix=0.8,0.1,0.1", "--mask_mix=0.8,0.1,0.1 should be like"),
        ("--mask_mix=mask:1,keep:0", "each named once"),
        ("--mask_mix=mask:0.5,mask:0.5", "each named once"),
        ("--mask_mix=mask:all", "--mask_mix=mask:all should be like"),
        ("--mask_mix=", "--mask_mix= should be like"),
        ("--max_ngram=3", "--max_ngram=3 is the length of spans, and"),
    ],
)
def test_mistakes_are_named(word, message):
    with pytest.raises(ValueError, match=message):
        settings(word)


def test_two_ways_that_contradict_are_named():
    with pytest.raises(ValueError, match="masking=spans contradicts"):
        settings("--do_whole_word_mask", "--masking=spans")


@pytest.mark.parametrize(
    "word",
    [
        "--masking=spans",
        "--mask_mix=mask:1",
        "--pairs=none",
        "--masking_time=dynamic",
    ],
)
def test_what_the_original_cannot_make_is_named(word):
    example_flags.check_compat(settings("--do_whole_word_mask"))
    flag = word.partition("=")[0]
    with pytest.raises(ValueError, match=f"{flag} as given does not go with"):
        example_flags.check_compat(settings(word))
