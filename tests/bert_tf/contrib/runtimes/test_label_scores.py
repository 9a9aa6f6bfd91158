"""label_scores.py: labels of several classes in a cell, and their score."""

import numpy as np
import pytest

from bert_tf.contrib.runtimes import label_scores


def test_labels_of_a_report_have_commas_between_them():
    kind, labels = "multi_label", ["a", "b", "c"]
    assert label_scores.check(kind, "a, c", labels) is None
    assert label_scores.check(kind, None, labels) is None
    assert "a, b, c" in label_scores.check(kind, "a,d", labels)
    outputs = {"probabilities": np.array([[0.9, 0.1, 0.2], [0.9, 0.5, 0.6]])}
    settings = {"kind": kind, "labels": labels, "thresholds": [0.5, 0.5, 0.7]}
    # Three labels are predicted, and three right; two are both.
    found = label_scores.score(outputs, ["a", "b, c"], settings)
    assert found == ("micro_f1", pytest.approx(2 / 3))
