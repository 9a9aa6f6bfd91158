"""calibration.py against loops, a grid and scikit-learn."""

import numpy as np
import pytest

from bert_tf.tasks.texts import calibration

GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.integers(0, 3, 400)
LOGITS = GENERATOR.normal(size=(400, 3)) * 2 + 2 * np.eye(3)[LABELS]


def cross_entropy(logits, labels):
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()


def test_the_error_is_that_of_the_paper():
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    confidence, is_right = p.max(-1), p.argmax(-1) == LABELS
    total, sizes = 0.0, []
    for m in range(1, 16):
        own = (confidence > (m - 1) / 15) & (confidence <= m / 15)
        if own.any():
            difference = abs(is_right[own].mean() - confidence[own].mean())
            total += own.sum() / 400 * difference
            sizes.append(own.sum())
    found = calibration.curve(confidence, is_right)
    assert [rows for rows, *_ in found] == sizes
    assert calibration.error(found) == pytest.approx(total)
    assert calibration.error_of(LOGITS, LABELS) == pytest.approx(total)
    # 0, 1 and edges have a bin, too.
    ends = np.array([0.0, 1 / 15, 1.0])
    assert calibration.curve(ends, ends) == [
        (2, pytest.approx(1 / 30), pytest.approx(1 / 30)),
        (1, 1.0, 1.0),
    ]


@pytest.mark.parametrize("factor", [1.0, 0.25, 3.0])
def test_the_temperature_has_the_least_cross_entropy(factor):
    logits = factor * LOGITS
    found = calibration.find_temperature(logits.astype(np.float32), LABELS)
    near = found * np.linspace(0.9, 1.1, 201)
    best = near[np.argmin([cross_entropy(logits / t, LABELS) for t in near])]
    assert found == pytest.approx(best, rel=1e-6)
    own = calibration.find_temperature(LOGITS, LABELS)
    assert found == pytest.approx(factor * own, rel=1e-5)


def test_the_temperature_is_that_of_scikit_learn():
    calibrators = pytest.importorskip("sklearn.calibration")
    if not hasattr(calibrators, "_TemperatureScaling"):
        pytest.skip("scikit-learn 1.8 has temperatures")
    theirs = calibrators._TemperatureScaling().fit(LOGITS, LABELS)
    ours = calibration.find_temperature(LOGITS, LABELS)
    assert ours == pytest.approx(1 / theirs.beta_, rel=1e-4)


@pytest.mark.parametrize(
    "logits",
    [
        4 * np.eye(3)[LABELS],  # All right.
        -4 * np.eye(3)[LABELS],  # None.
        np.zeros((400, 3)),
        np.full((400, 3), np.nan),
    ],
)
def test_without_a_best_temperature_it_is_1(logits):
    assert calibration.find_temperature(logits, LABELS) == 1.0
