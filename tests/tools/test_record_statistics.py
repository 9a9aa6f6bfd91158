"""record_statistics.py: counts of a few examples, compared with manual ones."""

import numpy as np
from counted_examples import BATCH, VOCABULARY

from tools import record_statistics


def count(batch=BATCH, seed=0):
    return record_statistics.count(
        batch, VOCABULARY, np.random.default_rng(seed)
    )


def rows(start, stop):
    return {name: array[start:stop] for name, array in BATCH.items()}


def counts_of(pairs, length):
    found = np.zeros(length, int)
    for value, number in pairs.items():
        found[value] = number
    return found.tolist()


def test_lengths_segments_and_labels():
    found = count()
    assert found.num_examples == 3
    assert found.tokens.tolist() == counts_of({8: 1, 5: 1, 7: 1}, 11)
    assert found.a_tokens.tolist() == counts_of({1: 1, 2: 2}, 11)
    assert found.b_tokens.tolist() == counts_of({1: 1, 2: 1, 3: 1}, 11)
    assert found.labels.tolist() == [1, 2]


def test_masked_tokens_and_replacements():
    found = count()
    assert found.masked.sum() == 3
    assert found.masked[8, 2] == found.masked[5, 1] == found.masked[7, 3] == 1
    assert found.shown.tolist() == [3, 1, 2]  # [MASK], random, kept.
    # 38 of 40 entries is in the last of 20 bins.
    assert found.random_words.tolist() == counts_of({19: 1}, 20)
    assert found.joined.tolist() == [1, 1]
    assert found.originals.tolist() == counts_of(
        {5: 2, 7: 1, 9: 1, 30: 1, 31: 1}, 40
    )


def test_relative_positions_are_in_the_range_of_their_token():
    seen = {name: set() for name in ("first", "second", "third")}
    for seed in range(60):
        for row, bins in enumerate(seen.values()):
            found = count(rows(row, row + 1), seed)
            bins.update(np.flatnonzero(found.positions).tolist())
    # Tokens 1 and 5 of 5; 1 of 2; 3 of 4; ## pieces are left out.
    assert seen["first"] == {*range(0, 4), *range(16, 20)}
    assert seen["second"] == {*range(0, 10)}
    assert seen["third"] == {*range(10, 15)}


def test_parts_add_up():
    parts = [count(rows(0, 1)), count(rows(1, 3))]
    total, added = count(), record_statistics.add(parts)
    for name in set(total._fields) - {"positions"}:
        np.testing.assert_array_equal(
            getattr(total, name), getattr(added, name), err_msg=name
        )
    assert total.positions.sum() == added.positions.sum() == 4
