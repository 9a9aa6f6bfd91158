"""Predictions and labels -> the metrics of GLUE, by name.

N examples.
"""

import warnings
from collections.abc import Callable, Iterable

import numpy as np
import scipy.stats
import sklearn.metrics


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns the fraction of correct predictions, in [0, 1]."""
    return float(sklearn.metrics.accuracy_score(labels, predictions))


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns the F1 score of class 1, in [0, 1]; 0 if it never occurs."""
    return float(
        sklearn.metrics.f1_score(
            labels, predictions, labels=[1], average="micro", zero_division=0.0
        )
    )


def matthews_correlation(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Matthews' correlation in [-1, 1].

    It is 0 if all predictions, or all labels, are the same.
    """
    if min(len(np.unique(predictions)), len(np.unique(labels))) == 1:
        return 0.0  # scikit-learn warns if both are constant.
    return float(sklearn.metrics.matthews_corrcoef(labels, predictions))


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Pearson's correlation in [-1, 1]; 0 if either is constant."""
    return _correlation(scipy.stats.pearsonr, predictions, labels)


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Spearman's rank correlation; 0 if either is constant."""
    return _correlation(scipy.stats.spearmanr, predictions, labels)


def _correlation(function, predictions, labels) -> float:
    """Returns the correlation; 0 instead of NaN if either is constant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        warnings.simplefilter("ignore", scipy.stats.NearConstantInputWarning)
        score = function(
            np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
        ).statistic
    return float(np.nan_to_num(score))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
}


def compute(
    names: Iterable[str], predictions: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Returns the named metrics.

    Args:
      names: keys of `METRICS`.
      predictions: [N] class ids, or scores for `pearson` and `spearman`.
      labels: [N] of the same kind.

    Raises:
      ValueError: if shapes differ, if a name is unknown, or if N is below 2,
        for which correlations are undefined.
    """
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or predictions.ndim != 1:
        raise ValueError(
            f"Predictions have shape {predictions.shape} and labels "
            f"{labels.shape}; both should be [N], one value per example."
        )
    if len(labels) < 2:
        raise ValueError(
            f"Metrics need at least 2 labelled examples, not {len(labels)}."
        )
    unknown = sorted(set(names) - set(METRICS))
    if unknown:
        raise ValueError(
            f"Unknown metrics {unknown}; choose from {list(METRICS)}."
        )
    return {name: METRICS[name](predictions, labels) for name in names}
