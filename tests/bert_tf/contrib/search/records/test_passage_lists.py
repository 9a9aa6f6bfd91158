"""passage_lists.py: relevant rows with rows of lower grades of their group."""

import numpy as np
import pytest

from bert_tf.contrib.search.records import passage_lists

GROUPS = ["a", "b", "a", "a", "c", "b", "a", "c"]
GRADES = [2, 0, 0, 1, 1, 0, 1, 1]


def choose(size=8, seed=1, groups=GROUPS, grades=GRADES):
    return list(passage_lists.choose(groups, grades, size=size, seed=seed))


def test_a_list_has_a_relevant_row_and_all_lower_ones_of_its_group():
    # b has no relevant row, and c none that is lower.
    assert choose() == [[0, 2, 3, 6], [3, 2], [6, 2]]


def test_others_are_drawn_without_replacement_by_seed_and_row():
    grades = [1, *[0] * 30, 1]
    lists = choose(size=8, groups="q" * 32, grades=grades)
    assert [x[0] for x in lists] == [0, 31]
    for row, *others in lists:
        assert len(set(others)) == 7
        assert set(others) <= set(range(1, 31)), row
    assert lists[0][1:] != lists[1][1:]
    again = choose(size=8, groups="q" * 32, grades=grades)
    assert again == lists
    other = choose(size=8, groups="q" * 32, grades=grades, seed=2)
    assert other != lists
    # A row's draw does not depend on the queries before it.
    more = choose(size=8, groups="p" + "q" * 32, grades=[0, *grades])
    assert [x[0] for x in more] == [1, 32]


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_lower_row_is_drawn_equally_often(size):
    counts = np.zeros(5)
    for seed in range(400):
        (found,) = choose(size, seed, "q" * 5, [0, 0, 1, 0, 0])
        assert len(found) == size
        counts[found[1:]] += 1
    expected = 400 * (size - 1) / 4
    assert counts[2] == 0
    np.testing.assert_allclose(counts[[0, 1, 3, 4]], expected, atol=60)
