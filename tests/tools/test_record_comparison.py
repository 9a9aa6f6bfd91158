"""record_comparison.py: finds differences, with few false alarms."""

import functools
import random

import numpy as np
import pytest

from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import masking, original_examples, token_files
from tfrecords.pretraining import settings as settings_lib
from tools import record_comparison, record_statistics
from tools.record_comparison import DIFFERS, SAME, UNCLEAR

V = 400
VOCABULARY = masking.Vocabulary(V, 1, 2, 3, np.arange(V) % 4 == 0)


@functools.cache
def text():
    """60 documents of about four sentences, tokens of unequal frequency."""
    rng = np.random.default_rng(0)
    counts = rng.geometric(0.2, 60)
    lengths = rng.integers(3, 30, counts.sum())
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    chances = 1 / np.arange(4, V)
    return token_files.Documents(
        tokens=rng.choice(
            np.arange(4, V), bounds[-1], p=chances / chances.sum()
        ),
        sentence_bounds=bounds,
        document_bounds=np.concatenate([[0], np.cumsum(counts)]),
        numbers=np.arange(len(counts)),
    )


def settings(seed, changes):
    values = {"max_seq_length": 64, "max_predictions_per_seq": 10}
    values |= {"dupe_factor": 4, "random_seed": seed} | changes
    return settings_lib.Settings(**values)


@functools.cache
def default(seed, **changes):
    """Returns counts of a set made in our default mode."""
    given = settings(seed, changes)
    blocks = examples_lib.make_examples(text(), VOCABULARY, given, 0, {})
    rng = np.random.default_rng(seed)
    return record_statistics.add(
        [record_statistics.count(block, VOCABULARY, rng) for block in blocks]
    )


@functools.cache
def original(seed, **changes):
    """Returns counts of a set made with --compat=original."""
    given = settings(seed, changes)
    examples = original_examples.make_examples(
        text(), VOCABULARY, given, random.Random(seed)
    )
    features = original_examples.build(
        examples,
        np.arange(len(examples.num_masked)),
        text().tokens,
        VOCABULARY,
        given.max_seq_length,
        {},
    )
    rng = np.random.default_rng(1000 + seed)
    return record_statistics.count(features, VOCABULARY, rng)


def sets(make, seeds, **changes):
    return [make(seed, **changes) for seed in seeds]


def compare(first, second, significance=0.01):
    measures = record_comparison.compare(first, second, significance)
    return {measure.name: measure for measure in measures}


def names(measures, verdict):
    return {m.name for m in measures.values() if m.verdict == verdict}


@pytest.mark.parametrize("is_words", [False, True])
def test_the_default_mode_has_the_distribution_of_the_original(is_words):
    changes = {"do_whole_word_mask": is_words}
    measures = compare(
        sets(default, range(6), **changes), sets(original, range(6), **changes)
    )
    assert len(measures) == 12
    assert names(measures, SAME) == set(measures)
    for measure in measures.values():
        if measure.chance is not None:
            apart = abs(measure.first[0] - measure.second[0])
            assert apart < 2 * measure.chance


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"masked_lm_prob": 0.2},
            {"masked tokens, given the length", "masked tokens of an example"},
        ),
        (
            {"short_seq_prob": 0.6},
            {"tokens of an example", "examples in a set"},
        ),
        (
            {"do_whole_word_mask": True},
            {"share of masked ## pieces after a masked one"},
        ),
        ({"dupe_factor": 3}, {"examples in a set"}),
    ],
)
def test_other_settings_change_the_measures_they_affect(changes, expected):
    measures = compare(
        sets(default, range(6)), sets(original, range(6), **changes)
    )
    assert expected <= names(measures, DIFFERS)
    assert measures["id of a random word, 0 to 1"].verdict == SAME


@pytest.mark.parametrize(
    ("column", "counts", "expected"),
    [
        ("shown", [8000, 1500, 500], "share of [MASK], random, kept"),
        (
            "positions",
            [700] * 5 + [433] * 15,
            "position of a masked token, 0 to 1",
        ),
        ("random_words", [50] * 10 + [150] * 10, "id of a random word, 0 to 1"),
        ("labels", [100, 1900], "share of random next sentences"),
    ],
)
def test_biased_random_numbers_are_detected(column, counts, expected):
    wrong = [
        counts_._replace(**{column: np.array(counts) + seed})
        for seed, counts_ in enumerate(sets(default, range(6, 12)))
    ]
    measures = compare(sets(default, range(6)), wrong)
    assert DIFFERS == measures[expected].verdict


def test_other_text_is_detected_by_its_tokens():
    rng = np.random.default_rng(0)
    other = rng.permutation(V)
    moved = [
        counts._replace(originals=counts.originals[other])
        for counts in sets(default, range(6, 12))
    ]
    measures = compare(sets(default, range(6)), moved)
    assert names(measures, DIFFERS) == {
        "share of the 50 most common masked tokens"
    }


def test_with_one_set_per_side_only_independent_measures_differ():
    measures = compare([default(0)], [default(1, short_seq_prob=1.0)])
    assert measures["tokens of an example"].verdict == UNCLEAR
    assert measures["tokens of an example"].chance is None
    assert not names(measures, DIFFERS)
    measures = compare([default(0)], [original(0, masked_lm_prob=0.2)])
    assert names(measures, DIFFERS) == {"masked tokens, given the length"}
    several = sets(default, range(6))
    measures = compare(several, [original(0, short_seq_prob=1.0)])
    assert measures["tokens of an example"].verdict == UNCLEAR
    assert measures["tokens of an example"].chance > 0
    # A set equals itself.
    measures = compare([default(0)], [default(0)])
    assert names(measures, SAME) == set(measures)
    assert all(m.p == 1 for m in measures.values())


def test_a_repeated_set_on_a_side_is_refused():
    with pytest.raises(ValueError, match="with a different --random_seed"):
        again = default(0)._replace(positions=default(1).positions)
        compare([default(0), default(1), again], [default(2)])


def test_bins_have_about_equal_counts_and_frequent_values_are_alone():
    table = np.array([[5, 5, 80, 0, 0, 10, 0], [5, 5, 80, 0, 0, 10, 0]])
    found = record_comparison._binned(table)
    assert found.tolist() == [[10, 80, 10]] * 2
    many = record_comparison._binned(np.ones((2, 1000), int))
    assert many.tolist() == [[100] * 10] * 2
