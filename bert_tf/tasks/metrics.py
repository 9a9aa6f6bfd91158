"""Predictions and labels -> the metrics of GLUE, by name.

N examples, C classes. The formulas are scikit-learn's, to the last bit; its
import, and a thousand calls of it for an interval, take two seconds.
"""

import functools
import warnings
from collections.abc import Callable, Iterable

import numpy as np
from absl import logging

# With one, correlations are undefined.
MIN_EXAMPLES = 2
# Of the bootstrap: draws, and rows in all, which bound its time.
_MIN_DRAWS, _MAX_DRAWS, _ROWS_OF_DRAWS = 200, 1000, 4_000_000


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns the fraction of correct predictions, in [0, 1]."""
    return float(np.mean(predictions == labels))


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns the F1 score of class 1, in [0, 1]; 0 if it never occurs."""
    return float(class_scores(*count(predictions, labels, 2))[-1][1])


def count(
    predictions: np.ndarray, labels: np.ndarray, num_classes: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the right, predicted and labelled rows of each class.

    Args:
      predictions: [N] class ids, from 0.
      labels: [N] class ids.
      num_classes: the least number of classes C; there are as many as ids.

    Returns:
      [C] int64 each.
    """
    top = max(predictions.max(), labels.max()) + 1
    counts = (
        np.bincount(ids.astype(np.int64), minlength=max(num_classes, top))
        for ids in (labels[predictions == labels], predictions, labels)
    )
    return tuple(counts)


def class_scores(
    right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns precision, recall and F1 of counts, [C] each; 0 for 0 / 0."""

    def share(part, whole):
        zeros = np.zeros(np.shape(part))
        return np.divide(part, whole, out=zeros, where=whole > 0)

    f1 = share(2.0 * right, labelled + predicted)
    return share(right, predicted), share(right, labelled), f1


def count_labels(predicted: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Returns the right, predicted and labelled rows of [N, C] answers: [C]."""
    predicted, labels = np.asarray(predicted) > 0, np.asarray(labels) > 0
    return [x.sum(axis=0) for x in (predicted & labels, predicted, labels)]


def f1_scores(predicted: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Returns micro and macro F1 of [N, C] answers; 0 where undefined."""
    counts = count_labels(predicted, labels)
    of_all = [np.sum(x, keepdims=True) for x in counts]
    return {
        f"{average}_f1": float(class_scores(*x)[-1].mean())
        for average, x in (("micro", of_all), ("macro", counts))
    }


def mean_f1(predictions: np.ndarray, labels: np.ndarray, average: str) -> float:
    """Returns the mean F1 of the classes that occur, in [0, 1].

    They count as much as each other if `average` is "macro", and as their
    numbers of rows if it is "weighted".
    """
    right, predicted, labelled = count(predictions, labels)
    occurs = predicted + labelled > 0
    weights = labelled[occurs] if average == "weighted" else None
    f1 = class_scores(right, predicted, labelled)[-1]
    return float(np.average(f1[occurs], weights=weights))


def matthews_correlation(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Returns Matthews' correlation in [-1, 1].

    It is 0 if all predictions, or all labels, are the same.
    """
    counts = (x.astype(np.float64) for x in count(predictions, labels))
    right, predicted, labelled = counts
    # Gorodkin 2004, for any number of classes; times the squared row count.
    square = labelled.sum() ** 2
    covariance = right.sum() * labelled.sum() - labelled @ predicted
    of_labels = square - labelled @ labelled
    of_predictions = square - predicted @ predicted
    if not of_labels * of_predictions:
        return 0.0
    return float(covariance / np.sqrt(of_labels * of_predictions))


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float | None:
    """Returns Pearson's correlation in [-1, 1]; None if either is constant."""
    return _correlation("pearsonr", predictions, labels)


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float | None:
    """Returns Spearman's rank correlation; None if either is constant."""
    return _correlation("spearmanr", predictions, labels)


def _correlation(name: str, predictions, labels) -> float | None:
    """Returns the correlation; None instead of NaN if either is constant."""
    import scipy.stats  # Its 0.3 s are for those who need it.

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        warnings.simplefilter("ignore", scipy.stats.NearConstantInputWarning)
        score = getattr(scipy.stats, name)(
            np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
        ).statistic
    return float(score) if np.isfinite(score) else None


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float | None]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": functools.partial(mean_f1, average="macro"),
    "weighted_f1": functools.partial(mean_f1, average="weighted"),
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
}


def compute(
    names: Iterable[str],
    predictions: np.ndarray,
    labels: np.ndarray,
    split: str | None = None,
) -> dict[str, float | None]:
    """Returns the named metrics; None for a correlation that is undefined.

    Args:
      names: keys of `METRICS`.
      predictions: [N] class ids, or scores for `pearson` and `spearman`.
      labels: [N] of the same kind.
      split: name of the dev set, for warnings of metrics that are undefined;
        None for no warnings.

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
    if len(labels) < MIN_EXAMPLES:
        raise ValueError(
            f"Metrics need at least {MIN_EXAMPLES} labelled examples, not "
            f"{len(labels)}."
        )
    unknown = sorted(set(names) - set(METRICS))
    if unknown:
        raise ValueError(
            f"Unknown metrics {unknown}; choose from {list(METRICS)}."
        )
    scores = {name: METRICS[name](predictions, labels) for name in names}
    for name, score in scores.items() if split else ():
        if reason := why_undefined(name, predictions, labels):
            logging.warning(
                "%s: %s is undefined: %s. It %s.",
                split,
                name,
                reason,
                "is null in files, and last in every ranking"
                if score is None
                else "counts as 0",
            )
    return scores


def why_undefined(
    name: str, predictions: np.ndarray, labels: np.ndarray
) -> str:
    """Returns why a metric is undefined; "" if it is defined.

      all 40 predictions are 2.5

    Args:
      name: key of `METRICS`.
      predictions: [N] class ids or scores.
      labels: [N] of the same kind.
    """
    if name in ("accuracy", "macro_f1", "weighted_f1"):
        return ""
    if name == "f1":
        has_class_1 = np.any(predictions == 1) or np.any(labels == 1)
        return "" if has_class_1 else "no prediction and no label is class 1"
    sides = {"predictions": predictions, "labels": labels}
    kind = "class id " if name == "matthews_correlation" else ""
    constant = [
        f"all {len(values)} {side} are {kind}{values[0]:g}"
        for side, values in sides.items()
        if np.all(values == values[0])
    ]
    is_undefined = constant or METRICS[name](predictions, labels) is None
    other = "some predictions or labels are not finite"
    return (" and ".join(constant) or other) if is_undefined else ""


def interval(
    unit: str, size: int, score: Callable[[np.ndarray], float | None]
) -> dict:
    """Returns the 95 % interval of a score by the percentile bootstrap.

    Efron and Tibshirani 1993, section 13.3. Only the rows are drawn again, with
    fixed seeds: it does not show that another training gives other weights.

    Args:
      unit: the rows that are drawn, as in `task.Resampled`.
      size: their number N.
      score: indices [N] of rows -> the score; None if it is undefined.
    """
    rng = np.random.default_rng(0)
    draws = min(_MAX_DRAWS, max(_MIN_DRAWS, _ROWS_OF_DRAWS // size))
    found = [score(rng.integers(size, size=size)) for _ in range(draws)]
    defined = [x for x in found if x is not None]
    if not defined:
        return {"unit": unit, "size": size}
    low, high = np.quantile(defined, (0.025, 0.975)).tolist()
    return {"unit": unit, "size": size, "low": low, "high": high}
