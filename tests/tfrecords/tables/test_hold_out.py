"""hold_out.py: shares of classes, whole groups, and tables too small."""

import numpy as np
import pytest

from tfrecords.tables import hold_out

# 60, 30 and 10 rows of three classes, mixed.
STRATA = np.random.default_rng(0).permutation(
    np.repeat([0, 1, 2], (60, 30, 10))
)


def choose(strata=STRATA, groups=None, dev_share=0.2, seed=1):
    return hold_out.choose(strata, groups, dev_share=dev_share, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_each_class_has_its_share(seed):
    dev = choose(seed=seed)
    assert list(dev) == sorted(set(dev.tolist()))
    assert np.bincount(STRATA[dev]).tolist() == [12, 6, 2]


def test_rows_depend_on_the_seed_alone():
    assert choose().tolist() == choose().tolist() != choose(seed=2).tolist()


def test_the_only_row_of_a_class_stays_in_train():
    dev = choose([0] * 10 + [7] + [1] * 10)
    assert 10 not in dev and len(dev) == 4


def test_two_rows_of_a_class_are_divided():
    dev = choose([0, 0, *[1] * 10], dev_share=0.5)
    assert len({0, 1} & set(dev.tolist())) == 1 and len(dev) == 6


def test_a_table_of_classes_with_one_row_each_has_no_dev():
    assert choose([0, 1, 2]).tolist() == []


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_in_one_split_and_classes_keep_their_shares(seed):
    groups = [f"author {i // 4}" for i in range(len(STRATA))]
    dev = choose(groups=groups, seed=seed)
    rows = set(dev.tolist())
    assert all(
        len({i in rows for i in range(4 * k, 4 * k + 4)}) == 1
        for k in range(25)
    )
    assert 16 <= len(dev) <= 24
    shares = np.bincount(STRATA[dev], minlength=3) / len(dev)
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.15


def fold_of_rows(strata=STRATA, groups=None, num_folds=5, seed=1):
    return hold_out.folds(strata, groups, num_folds, seed)


@pytest.mark.parametrize("seed", range(3))
def test_folds_have_equal_shares_of_each_class(seed):
    found = fold_of_rows(seed=seed)
    for fold in range(5):
        assert np.bincount(STRATA[found == fold]).tolist() == [12, 6, 2]
    assert found.tolist() == fold_of_rows(seed=seed).tolist()
    assert found.tolist() != fold_of_rows(seed=seed + 1).tolist()
    dev = choose(dev_share=[2, 5], seed=seed)
    assert dev.tolist() == np.flatnonzero(found == 2).tolist()


def test_folds_have_whole_groups_and_near_shares_of_each_class():
    groups = [f"author {i // 4}" for i in range(len(STRATA))]
    found = fold_of_rows(groups=groups)
    assert all(len(set(found[4 * k : 4 * k + 4])) == 1 for k in range(25))
    for fold in range(5):
        rows = STRATA[found == fold]
        assert 16 <= len(rows) <= 24
        shares = np.bincount(rows, minlength=3) / len(rows)
        assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.15


def test_a_class_of_fewer_rows_than_folds_is_in_some_of_them():
    found = fold_of_rows([*[0] * 8, 1, 1], num_folds=5)
    assert np.bincount(found).tolist() == [2] * 5
    assert len({*found[8:].tolist()}) == 2
    assert np.bincount(fold_of_rows([0, 1, 2], num_folds=3)).tolist() == [1] * 3


@pytest.mark.parametrize(
    ("groups", "message"),
    [(None, "=4: train has 3 rows, and"), (list("aab"), "=4: train has 2 gro")],
)
def test_fewer_rows_or_groups_than_folds_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        fold_of_rows([0, 0, 1], groups, num_folds=4)


def test_dev_is_the_fold_of_groups_whose_rows_are_nearest_to_its_share():
    groups = np.repeat(list("abcd"), (70, 20, 5, 5)).tolist()
    dev = choose([0] * 100, groups)
    assert {groups[i] for i in dev} == {"b"} and len(dev) == 20


def test_most_groups_may_be_held_out():
    groups = [i // 4 for i in range(len(STRATA))]
    most, few = (choose(groups=groups, dev_share=x) for x in (0.8, 0.2))
    assert sorted([*most, *few]) == list(range(len(STRATA)))
    assert 76 <= len(most) <= 84


def test_a_group_may_have_no_name():
    dev = choose([0, 1] * 4, [None, None, "a", "a", "b", "b", "c", "c"], 0.25)
    assert len(dev) == 2


@pytest.mark.parametrize(
    ("dev_share", "num_dev"), [(0.001, 0), (0.01, 1), (0.016, 2), (0.99, 99)]
)
def test_the_rarest_classes_are_one_if_dev_is_small(dev_share, num_dev):
    dev = choose(dev_share=dev_share)
    assert len(dev) == num_dev
    if num_dev == 2:  # One of the largest class, one of the others.
        assert sorted(STRATA[dev] > 0) == [False, True]
    # As many classes as rows of dev.
    assert len(choose(list(range(50)) * 2, dev_share=0.1)) == 10


@pytest.mark.parametrize("strata", [[0, 1, 2, 3] * 2, range(8)])
def test_small_classes_do_not_limit_groups(strata):
    dev = choose(list(strata), list("abcdefgh"), dev_share=0.1)
    assert 1 <= len(dev) <= 4


def test_a_single_group_is_refused():
    with pytest.raises(ValueError, match="All rows are in one group, 'a'"):
        choose(groups=["a"] * 100)
