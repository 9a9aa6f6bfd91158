"""metrics.py: each metric equals its definition."""

import numpy as np
import pytest

from bert_tf.tasks import metrics

LABELS = np.array([1, 1, 1, 0, 0, 1, 0, 0])
GUESSES = np.array([1, 0, 1, 0, 1, 1, 0, 0])
# True and false positives, true and false negatives.
TP, FP, TN, FN = 3, 1, 3, 1


def test_accuracy_is_the_share_of_right_predictions():
    assert metrics.accuracy(GUESSES, LABELS) == (TP + TN) / 8


def test_f1_is_the_harmonic_mean_of_precision_and_recall_of_class_1():
    precision, recall = TP / (TP + FP), TP / (TP + FN)
    expected = 2 * precision * recall / (precision + recall)
    assert metrics.f1(GUESSES, LABELS) == pytest.approx(expected)
    flipped = metrics.f1(1 - GUESSES[:5], 1 - LABELS[:5])
    assert flipped == pytest.approx(2 * 1 / (2 * 1 + 1 + 1))


def test_f1_without_class_1_is_0():
    assert metrics.f1(np.zeros(3, int), np.zeros(3, int)) == 0.0


def test_matthews_correlation_equals_its_formula():
    expected = (TP * TN - FP * FN) / np.sqrt(
        (TP + FP) * (TP + FN) * (TN + FP) * (TN + FN)
    )
    assert metrics.matthews_correlation(GUESSES, LABELS) == pytest.approx(
        expected
    )
    assert metrics.matthews_correlation(1 - LABELS, LABELS) == -1.0


def test_matthews_correlation_of_three_classes_equals_the_covariance_form():
    labels = np.array([0, 1, 2, 2, 1, 0, 2])
    guesses = np.array([0, 2, 2, 2, 1, 0, 1])
    x, y = np.eye(3)[guesses], np.eye(3)[labels]
    x, y = x - x.mean(0), y - y.mean(0)
    expected = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    assert metrics.matthews_correlation(guesses, labels) == pytest.approx(
        expected
    )


def test_pearson_is_covariance_over_standard_deviations():
    x, y = np.array([1.0, 2.5, 0.3, 4.0]), np.array([0.0, 3.0, 1.0, 5.0])
    expected = np.mean((x - x.mean()) * (y - y.mean())) / (x.std() * y.std())
    assert metrics.pearson(x, y) == pytest.approx(expected)


def test_spearman_is_pearson_of_ranks_with_ties_shared():
    x, y = np.array([10.0, 30.0, 20.0, 40.0]), np.array([1.0, 1.0, 0.0, 9.0])
    ranks_x, ranks_y = np.array([1, 3, 2, 4]), np.array([2.5, 2.5, 1, 4])
    assert metrics.spearman(x, y) == pytest.approx(
        metrics.pearson(ranks_x, ranks_y)
    )


@pytest.mark.parametrize(
    "name", ["matthews_correlation", "pearson", "spearman"]
)
def test_constant_predictions_have_correlation_0(name):
    guesses = np.full(4, 0.1, np.float32)
    if name == "matthews_correlation":
        guesses = np.zeros(4, int)
    labels = np.array([0, 1, 1, 0])
    assert metrics.METRICS[name](guesses, labels) == 0.0


def test_matthews_correlation_of_constant_labels_is_0():
    ones = np.ones(3, int)
    assert metrics.matthews_correlation(ones, ones) == 0.0
    assert metrics.matthews_correlation(np.array([0, 1, 1]), ones) == 0.0


def test_compute_returns_scores_by_name():
    scores = metrics.compute(["accuracy", "f1"], GUESSES, LABELS)
    assert scores == {"accuracy": 0.75, "f1": 0.75}
    assert all(type(score) is float for score in scores.values())


def test_different_numbers_of_predictions_and_labels_raise():
    with pytest.raises(ValueError, match=r"shape \(7,\) and labels \(8,\)"):
        metrics.compute(["accuracy"], GUESSES[1:], LABELS)


def test_a_single_example_raises():
    with pytest.raises(ValueError, match="2 labelled examples, not 1"):
        metrics.compute(["accuracy"], GUESSES[:1], LABELS[:1])


def test_unknown_metrics_raise():
    with pytest.raises(ValueError, match="Unknown metrics .'recall'.; choose"):
        metrics.compute(["recall"], GUESSES, LABELS)
