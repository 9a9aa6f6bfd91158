"""Evaluated rows -> wrong ones, probably mislabelled ones, reliability.

An evaluated row is a line of `predictions/dev.jsonl`, see `tasks.glue`.

N rows, C classes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.texts import calibration

Row = Mapping


class Suspicion(NamedTuple):
    """A row whose label is probably wrong.

    Attributes:
      row: the row.
      label: its label.
      better: the label that its probabilities speak for.
      margin: how much more probable the better one is.
    """

    row: Row
    label: str
    better: str
    margin: float


def errors(rows: Sequence[Row], labels: Sequence[str]) -> np.ndarray:
    """Returns how wrong each row is, [N]; 0 is right.

    Of a class it is 1 - the probability of the label; of several labels the
    largest difference of a probability and 0 or 1; of a score the distance.
    """
    if not rows or "probabilities" not in rows[0]:
        return np.array([abs(x["predicted"] - x["label"]) for x in rows])
    return np.abs(_right(rows, labels) - _probabilities(rows)).max(axis=1)


def most_wrong(
    rows: Sequence[Row], labels: Sequence[str], most: int
) -> list[tuple[Row, float]]:
    """Returns the rows with the largest errors that are not answered right."""
    found = errors(rows, labels)
    order = np.argsort(-found, kind="stable")
    wrong = [i for i in order if rows[i]["predicted"] != rows[i]["label"]]
    return [(rows[i], float(found[i])) for i in wrong[:most]]


def mislabelled(
    rows: Sequence[Row], labels: Sequence[str], most: int
) -> list[Suspicion]:
    """Returns the rows whose label is probably wrong, most confident first.

    Confident learning (Northcutt et al. 2021, arXiv 1911.00068, section 3.1):
    the threshold of a class is the mean of its probability over the rows that
    have it as label. A row is suspicious if another class reaches its threshold
    there, and is the most probable of those that do. Several labels are as many
    decisions of two classes. Scores have no classes.

    Args:
      rows: evaluated rows that the model was not trained on.
      labels: [C] names.
      most: maximum number of rows.
    """
    if not rows or "probabilities" not in rows[0]:
        return []
    right, probabilities = _right(rows, labels), _probabilities(rows)
    if isinstance(rows[0]["label"], str):
        found = [
            Suspicion(rows[n], labels[i], labels[j], margin)
            for n, i, j, margin in _suspicious(right, probabilities)
        ]
    else:
        found = [
            Suspicion(rows[n], _decision(label, i), _decision(label, j), margin)
            for c, label in enumerate(labels)
            for n, i, j, margin in _suspicious(
                np.stack([1 - right[:, c], right[:, c]], axis=1),
                np.stack(
                    [1 - probabilities[:, c], probabilities[:, c]], axis=1
                ),
            )
        ]
    return sorted(found, key=lambda x: -x.margin)[:most]


def reliability(
    rows: Sequence[Row], labels: Sequence[str]
) -> list[tuple[int, float, float]]:
    """Returns the curve of `calibration`, of all decisions; [] of scores."""
    if not rows or "probabilities" not in rows[0]:
        return []
    right, probabilities = _right(rows, labels), _probabilities(rows)
    if isinstance(rows[0]["label"], str):
        best = np.arange(len(rows)), probabilities.argmax(axis=1)
        right, probabilities = right[best], probabilities[best]
    return calibration.curve(probabilities.ravel(), right.ravel())


def _decision(label: str, has_it: int) -> str:
    return label if has_it else f"not {label}"


def _suspicious(right: np.ndarray, probabilities: np.ndarray):
    """Yields row, label, better class and margin; both are [N, C]."""
    counts = right.sum(axis=0)
    # A class without rows has no threshold that could be reached.
    thresholds = np.where(
        counts > 0,
        (right * probabilities).sum(axis=0) / np.maximum(counts, 1),
        np.inf,
    )
    confident = np.where(probabilities >= thresholds, probabilities, -1.0)
    for n, better in enumerate(confident.argmax(axis=1)):
        label = int(right[n].argmax())
        if confident[n, better] >= 0 and better != label:
            margin = probabilities[n, better] - probabilities[n, label]
            if margin > 0:
                yield n, label, int(better), float(margin)


def _probabilities(rows) -> np.ndarray:  # [N, C]
    return np.array([row["probabilities"] for row in rows], np.float64)


def _right(rows, labels) -> np.ndarray:  # [N, C], 1 for the labels of a row
    found = np.zeros((len(rows), len(labels)))
    for n, row in enumerate(rows):
        given = row["label"]
        for label in [given] if isinstance(given, str) else given:
            found[n, labels.index(label)] = 1.0
    return found
