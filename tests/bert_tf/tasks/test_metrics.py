"""metrics.py: each metric equals its definition."""

import numpy as np
import pytest
import sklearn.metrics as sklearn_metrics

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


def test_matthews_correlation_equals_its_formula():
    expected = (TP * TN - FP * FN) / np.sqrt(
        (TP + FP) * (TP + FN) * (TN + FP) * (TN + FN)
    )
    assert metrics.matthews_correlation(GUESSES, LABELS) == pytest.approx(
        expected
    )
    assert metrics.matthews_correlation(1 - LABELS, LABELS) == -1.0
    # Constant predictions, or constant labels.
    ones = np.ones(8, int)
    assert metrics.matthews_correlation(ones, LABELS) == 0.0
    assert metrics.matthews_correlation(LABELS, ones) == 0.0


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


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_correlations_with_a_constant_are_undefined(name):
    constant = np.full(4, 0.1, np.float32)
    values = np.array([0.0, 1.0, 1.0, 0.5])
    correlation = metrics.METRICS[name]
    assert correlation(constant, values) is None
    assert correlation(values, constant) is None
    assert correlation(constant, constant) is None
    # A mean that rounding changes: also constant.
    assert correlation(np.full(10, 0.1), np.arange(10.0)) is None
    assert correlation(values, values) == pytest.approx(1.0)


def test_what_is_undefined_is_warned_of_with_the_reason(caplog):
    scores = np.array([0.0, 2.0, 5.0])
    half = np.full(3, 0.5)
    with caplog.at_level("WARNING", logger="absl"):
        names = ["pearson", "spearman"]
        found = metrics.compute(names, half, scores, "dev")
        metrics.compute(["spearman"], half, half + 2, "dev")
        zeros, ones = np.zeros(3, int), np.ones(3, int)
        names = ["matthews_correlation", "f1", "accuracy"]
        second = metrics.compute(names, zeros, zeros, "dev")
        metrics.compute(["matthews_correlation", "f1"], zeros, ones, "dev")
    assert found == {"pearson": None, "spearman": None}
    assert second == {"matthews_correlation": 0.0, "f1": 0.0, "accuracy": 1.0}
    null = "It is null in files, and last in every ranking."
    assert caplog.messages == [
        f"dev: pearson is undefined: all 3 predictions are 0.5. {null}",
        f"dev: spearman is undefined: all 3 predictions are 0.5. {null}",
        "dev: spearman is undefined: all 3 predictions are 0.5 and all 3 "
        f"labels are 2.5. {null}",
        "dev: matthews_correlation is undefined: all 3 predictions are class "
        "id 0 and all 3 labels are class id 0. It counts as 0.",
        "dev: f1 is undefined: no prediction and no label is class 1. It "
        "counts as 0.",
        "dev: matthews_correlation is undefined: all 3 predictions are class "
        "id 0 and all 3 labels are class id 1. It counts as 0.",
    ]
    caplog.clear()
    metrics.compute(["pearson"], half, scores)  # Of a baseline.
    names = ["pearson", "spearman"]
    metrics.compute(names, scores, scores, "dev")
    names = ["f1", "accuracy", "matthews_correlation"]
    found = metrics.compute(names, GUESSES, LABELS, "dev")
    assert found["f1"] == found["accuracy"] == 0.75
    assert not caplog.messages


def test_values_that_are_not_finite_have_a_reason_too():
    values, labels = np.array([0.0, np.nan, 1.0]), np.array([0.0, 1.0, 2.0])
    assert metrics.pearson(values, labels) is None
    assert metrics.why_undefined("pearson", values, labels) == (
        "some predictions or labels are not finite"
    )


@pytest.mark.parametrize(
    ("name", "guesses", "labels", "message"),
    [
        ("accuracy", GUESSES[1:], LABELS, r"shape \(7,\) and labels \(8,\)"),
        ("accuracy", GUESSES[:1], LABELS[:1], "2 labelled examples, not 1"),
        ("recall", GUESSES, LABELS, "Unknown metrics .'recall'.; choose"),
    ],
)
def test_what_cannot_be_computed_raises(name, guesses, labels, message):
    with pytest.raises(ValueError, match=message):
        metrics.compute([name], guesses, labels)


def test_an_interval_has_95_percent_of_the_scores_of_drawn_rows():
    right = np.array([1.0] * 80 + [0.0] * 20)
    resampled = "rows", 100, lambda i: float(right[i].mean())
    found = metrics.interval(*resampled)
    assert found == metrics.interval(*resampled)
    assert (found["unit"], found["size"]) == ("rows", 100)
    # Of the normal distribution: 1.96 standard deviations.
    wide = 1.96 * np.sqrt(0.8 * 0.2 / 100)
    np.testing.assert_allclose(
        [found["low"], found["high"]], [0.8 - wide, 0.8 + wide], atol=0.02
    )
    nothing = metrics.interval("rows", 3, lambda i: None)
    assert nothing == {"unit": "rows", "size": 3}


def test_an_interval_leaves_out_a_fortieth_at_each_end():
    scores = iter(range(1000))
    found = metrics.interval("rows", 10, lambda i: next(scores))
    assert found["low"] == pytest.approx(0.025 * 999)
    assert found["high"] == pytest.approx(0.975 * 999)


@pytest.mark.parametrize(
    ("size", "draws"), [(10, 1000), (8000, 500), (10**6, 200)]
)
def test_draws_bound_the_time_of_large_sets(size, draws):
    calls = []
    metrics.interval("rows", size, lambda i: calls.append(1))
    assert len(calls) == draws


@pytest.mark.parametrize("num_classes", [2, 3, 20])
@pytest.mark.parametrize("size", [2, 9, 500])
def test_metrics_of_classes_are_scikit_learns_to_the_last_bit(
    num_classes, size
):
    rng = np.random.default_rng(size)
    labels, guesses = rng.integers(num_classes, size=(2, size))
    guesses[: size // 2] = labels[: size // 2]
    options = {"zero_division": 0.0}
    for name, expected in {
        "f1": sklearn_metrics.f1_score(
            labels, guesses, labels=[1], average="micro", **options
        ),
        "macro_f1": sklearn_metrics.f1_score(
            labels, guesses, average="macro", **options
        ),
        "weighted_f1": sklearn_metrics.f1_score(
            labels, guesses, average="weighted", **options
        ),
        "matthews_correlation": sklearn_metrics.matthews_corrcoef(
            labels, guesses
        ),
    }.items():
        assert metrics.METRICS[name](guesses, labels) == expected, name
    counts = metrics.count(guesses, labels, 21)
    found = (*metrics.class_scores(*counts), counts[-1])
    expected = sklearn_metrics.precision_recall_fscore_support(
        labels, guesses, labels=range(21), **options
    )
    np.testing.assert_array_equal(found, expected)
