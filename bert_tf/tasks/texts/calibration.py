"""Logits and labels -> temperature; probabilities -> calibration error.

Guo et al. 2017, arXiv 1706.04599. N examples, C classes.
"""

import numpy as np
import scipy.special

_BINS = 15  # Of equal width, as in section 5 of the paper.
_LEAST, _MOST = 0.05, 20.0


def curve(
    confidence: np.ndarray, is_right: np.ndarray
) -> list[tuple[int, float, float]]:
    """Returns rows, mean confidence and accuracy of each bin with rows.

    Args:
      confidence: [N] probabilities of the answers.
      is_right: [N] bool, or 0 and 1.
    """
    edges = np.linspace(0.0, 1.0, _BINS + 1)[1:-1]
    which = np.searchsorted(edges, confidence)  # A bin has its upper edge.
    found = [which == i for i in np.unique(which)]
    return [
        (int(x.sum()), float(confidence[x].mean()), float(is_right[x].mean()))
        for x in found
    ]


def error(bins: list[tuple[int, float, float]]) -> float:
    """Returns the expected calibration error (ECE) of a `curve`, in [0, 1]."""
    total = sum(rows for rows, *_ in bins)
    return sum(rows * abs(x - y) for rows, x, y in bins) / total


def error_of(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the error of the likeliest classes, of [N, C] and ids [N]."""
    probabilities = scipy.special.softmax(np.float64(logits), axis=-1)
    is_right = logits.argmax(axis=-1) == labels
    return error(curve(probabilities.max(axis=-1), is_right))


def find_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the T of the least cross-entropy of logits / T.

    1 if there is none from 0.05 to 20: if all rows are right, the least T is
    best; if labels are as at random, the largest.

    Args:
      logits: [N, C] float.
      labels: [N] class ids.
    """
    import scipy.optimize  # Its 0.2 s are for those who need it.

    logits = np.float64(logits)
    of_labels = np.take_along_axis(logits, labels[:, None], axis=-1)

    def slope(temperature):  # By 1 / T, in which the cross-entropy is convex.
        probabilities = scipy.special.softmax(logits / temperature, axis=-1)
        return (probabilities * logits).sum(axis=-1).mean() - of_labels.mean()

    if not slope(_LEAST) > 0.0 > slope(_MOST):
        return 1.0
    return float(scipy.optimize.brentq(slope, _LEAST, _MOST))
