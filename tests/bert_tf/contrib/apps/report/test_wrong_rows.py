"""wrong_rows.py: errors and suspicious labels, against loops in NumPy."""

import numpy as np
import pytest

from bert_tf.contrib.apps.report import wrong_rows
from bert_tf.tasks.texts import calibration

LABELS = ["bad", "good", "long"]
GENERATOR = np.random.default_rng(0)


def class_rows(count=200, num_wrong=12):
    """Rows whose model is mostly sure and right; some labels are changed."""
    right = GENERATOR.integers(0, 3, count)
    logits = GENERATOR.normal(size=(count, 3)) + 4 * np.eye(3)[right]
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    given = right.copy()
    given[:num_wrong] = (right[:num_wrong] + 1) % 3
    return [
        {
            "source": f"a.csv:{n}",
            "text_a": "x",
            "label": LABELS[given[n]],
            "predicted": LABELS[p[n].argmax()],
            "probabilities": p[n].tolist(),
        }
        for n in range(count)
    ]


def test_the_most_wrong_rows_have_the_least_probable_label():
    rows = class_rows()
    found = wrong_rows.most_wrong(rows, LABELS, 5)
    expected = sorted(
        (
            (1 - row["probabilities"][LABELS.index(row["label"])], row)
            for row in rows
            if row["label"] != row["predicted"]
        ),
        key=lambda x: -x[0],
    )
    assert [row for row, _ in found] == [row for _, row in expected[:5]]
    assert [x for _, x in found] == pytest.approx([x for x, _ in expected[:5]])


def confident(rows):
    """Confident learning as the paper writes it, in loops."""
    thresholds = {}
    for j, label in enumerate(LABELS):
        own = [x["probabilities"][j] for x in rows if x["label"] == label]
        thresholds[j] = sum(own) / len(own)
    found = {}
    for n, row in enumerate(rows):
        p, i = row["probabilities"], LABELS.index(row["label"])
        reached = [j for j in range(3) if p[j] >= thresholds[j]]
        if reached:
            better = max(reached, key=lambda j: p[j])
            if better != i and p[better] > p[i]:
                found[n] = LABELS[better]
    return found


def test_suspicious_labels_are_those_of_confident_learning():
    rows = class_rows()
    found = wrong_rows.mislabelled(rows, LABELS, 200)
    expected = confident(rows)
    assert {rows.index(x.row): x.better for x in found} == expected
    # Most changed labels are found, and little else.
    assert len(set(expected) & set(range(12))) >= 9
    assert len(expected) <= 16
    margins = [x.margin for x in found]
    assert margins == sorted(margins, reverse=True)
    assert wrong_rows.mislabelled(rows, LABELS, 3) == found[:3]


def several(label, predicted, probabilities):
    return {
        "source": "a.tsv:2",
        "text_a": "x",
        "label": label,
        "predicted": predicted,
        "probabilities": probabilities,
    }


def test_several_labels_are_decisions_of_their_own():
    rows = [
        several(["bad"], ["bad"], [0.9, 0.1, 0.2]),
        several(["bad", "good"], ["bad", "good"], [0.8, 0.9, 0.1]),
        several([], [], [0.1, 0.2, 0.1]),
        several(["good"], ["bad", "good"], [0.97, 0.8, 0.1]),
        several(["bad", "good"], ["bad"], [0.9, 0.02, 0.2]),
    ]
    (row, error), (_, second) = wrong_rows.most_wrong(rows, LABELS, 9)
    assert (row, error) == (rows[4], pytest.approx(0.98))
    assert second == pytest.approx(0.97)
    found = wrong_rows.mislabelled(rows, LABELS, 9)
    assert [(x.row, x.label, x.better) for x in found] == [
        (rows[4], "good", "not good"),
        (rows[3], "not bad", "bad"),
    ]


def test_scores_have_distances_and_no_wrong_labels():
    rows = [
        {"source": "a:1", "text_a": "x", "label": 4.0, "predicted": 1.5},
        {"source": "a:2", "text_a": "x", "label": 2.0, "predicted": 2.0},
    ]
    assert wrong_rows.most_wrong(rows, [], 9) == [(rows[0], 2.5)]
    assert wrong_rows.mislabelled(rows, [], 9) == []
    assert wrong_rows.most_wrong([], [], 9) == []


def test_reliability_is_of_the_likeliest_class_or_of_each_label():
    rows = class_rows()
    p = np.array([row["probabilities"] for row in rows])
    is_right = np.array([row["predicted"] == row["label"] for row in rows])
    expected = calibration.curve(p.max(axis=1), is_right)
    assert wrong_rows.reliability(rows, LABELS) == expected
    several = [row | {"label": [row["label"], "long"]} for row in rows]
    has = [[label in row["label"] for label in LABELS] for row in several]
    expected = calibration.curve(p.ravel(), np.ravel(has))
    assert wrong_rows.reliability(several, LABELS) == expected
    scores = [{"label": 1.0, "predicted": 2.0}]
    assert wrong_rows.reliability(scores, []) == []
