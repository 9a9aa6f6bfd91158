"""two_samples.py: p-values computed by hand, and rates of false alarms."""

import numpy as np
import pytest
from scipy import stats

from tools import two_samples


def test_holm_multiplies_by_the_number_of_remaining_tests():
    # 0.01 * 4, 0.02 * 3, then not less than the previous, at most 1.
    found = two_samples.holm([0.02, 0.9, 0.01, 0.025])
    assert found == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert two_samples.holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert two_samples.holm([0.7, 0.6]) == [1.0, 1.0]


def test_the_t_test_has_pooled_variance():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 7), rng.normal(1, 1, 4)
    p, error = two_samples.t_test(first, second)
    expected = stats.ttest_ind(first, second)
    assert p == pytest.approx(expected.pvalue)
    difference = first.mean() - second.mean()
    assert difference / error == pytest.approx(expected.statistic)


def test_the_t_test_accepts_one_value_on_a_side():
    # Variance 1 of 2 degrees of freedom; error sqrt(1 + 1/3).
    p, error = two_samples.t_test(np.array([1.0, 2.0, 3.0]), np.array([6.0]))
    assert error == pytest.approx(np.sqrt(4 / 3))
    assert p == pytest.approx(2 * stats.t.sf(4 / np.sqrt(4 / 3), 2))


def test_constant_samples_give_the_p_value_of_a_permutation_test():
    same = np.full(3, 0.1 + 0.2), np.full(2, 0.3)
    assert two_samples.t_test(*same) == (1.0, 0.0)
    p, error = two_samples.t_test(np.full(3, 7.0), np.full(2, 8.0))
    assert (p, error) == (2 / 10, 0.0)


def test_chi_squared_equals_a_manual_computation():
    # Expected 15 and 25 in each row; 4 squares of 5: 2 (25/15 + 25/25).
    p = two_samples.chi_squared(np.array([[10, 30], [20, 20]]))
    assert p == pytest.approx(stats.chi2.sf(2 * (25 / 15 + 1), 1))
    assert two_samples.chi_squared(np.array([[10, 30], [20, 60]])) == 1.0


def test_chi_squared_merges_neighbouring_small_bins():
    table = np.array([[2, 8, 30, 1], [3, 17, 20, 0]])
    merged = np.array([[10, 31], [20, 20]])
    assert two_samples.chi_squared(table) == two_samples.chi_squared(merged)
    assert two_samples.chi_squared(np.array([[2, 1], [0, 3]])) == 1.0
    assert two_samples.chi_squared(np.zeros((2, 3))) == 1.0


def test_equal_counts_is_a_test_of_poisson_counts():
    # (110 - 90)^2 / 200 = 2.
    assert two_samples.equal_counts(110, 90) == pytest.approx(
        stats.chi2.sf(2, 1)
    )


def test_small_bins_are_merged():
    bins = np.array([[100, 1, 50, 2], [90, 0, 60, 1]])
    found = two_samples.without_small(bins)
    assert found.tolist() == [[100, 50, 3], [90, 60, 1]]
    np.testing.assert_array_equal(
        two_samples.without_small(bins[:, [0, 2]]), bins[:, [0, 2]]
    )


def test_differences_of_means_stay_within_their_limit():
    rng = np.random.default_rng(1)
    limit = two_samples.limit_of_means(0.05, 1 / 12, 40, 60)
    apart = rng.random((4000, 40)).mean(1) - rng.random((4000, 60)).mean(1)
    assert 0.03 < (abs(apart) > limit).mean() < 0.07
    assert two_samples.limit_of_means(0.05, 1 / 12, 0, 60) is None


@pytest.mark.parametrize("kind", ["t_test", "chi_squared"])
def test_false_alarms_are_as_frequent_as_the_p_value(kind):
    rng = np.random.default_rng(2)
    ps = []
    for _ in range(1000):
        if kind == "t_test":
            ps.append(two_samples.t_test(rng.random(4), rng.random(4))[0])
        else:
            table = rng.multinomial(200, [0.5, 0.3, 0.2], 2)
            ps.append(two_samples.chi_squared(table))
    for bound in (0.01, 0.05, 0.5):
        deviation = np.sqrt(bound * (1 - bound) / len(ps))
        assert abs(np.mean(np.array(ps) < bound) - bound) < 4 * deviation
