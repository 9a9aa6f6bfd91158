"""partitions.py: each document once, and any two as likely to meet."""

import numpy as np
import pytest

from tfrecords.pretraining import partitions


def table_of(count, tokens=10):
    table = np.zeros((count, 6), np.int64)
    table[:, 0] = np.arange(count)
    table[:, 4] = tokens
    return table


def test_the_deal_gives_each_document_once():
    tables = partitions.assign_partitions(table_of(1003), 5, 7, 0.1)
    assert len(tables["train"]) == 7 and len(tables["held_out"]) == 1
    numbers = np.concatenate(tables["train"] + tables["held_out"])[:, 0]
    assert sorted(numbers) == list(range(1003))
    assert len(tables["held_out"][0]) == 100
    sizes = {len(table) for table in tables["train"]}
    assert sizes == {129}
    assert all((np.diff(t[:, 0]) > 0).all() for t in tables["train"])


def test_any_two_documents_meet_with_the_same_chance():
    count, num_shards, repetitions = 12, 3, 3000
    meet = np.zeros((count, count))
    for seed in range(repetitions):
        for part in partitions.assign_partitions(
            table_of(count), seed, num_shards, 0.0
        )["train"]:
            meet[np.ix_(part[:, 0], part[:, 0])] += 1
    meet = meet[~np.eye(count, dtype=bool)]
    # Each has three partners among the other eleven.
    expected = repetitions * 3 / 11
    assert abs(meet - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize(
    ("count", "tokens", "expected"),
    [(3, 10, 1), (80, 1_000_000, 10), (1000, 10_000, 10), (20, 10**6, 2)],
)
def test_shards_hold_a_million_tokens_or_eight_documents(
    count, tokens, expected
):
    table = table_of(count, tokens)
    tables = partitions.assign_partitions(table, 1, None, 0.0)
    assert len(tables["train"]) == expected


def test_more_shards_than_documents_are_named():
    with pytest.raises(ValueError, match="num_shards=9 exceeds the 3 doc"):
        partitions.assign_partitions(table_of(3), 1, 9, 0.0)


def test_nothing_left_to_train_on_is_named():
    with pytest.raises(ValueError, match="held_out_prob=0.5 leaves none of 1"):
        partitions.assign_partitions(table_of(1), 1, None, 0.5)
