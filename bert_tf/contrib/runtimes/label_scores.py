"""Labels of texts, outputs of a network -> wrong labels, a score.

Of the kinds whose outputs labels can be compared with. Shapes: N texts.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.tasks import metrics
from tfrecords.options import to_number

# Kind -> outputs of its network that labels are compared with.
SCORED_OUTPUTS = {
    "classification": ("logits",),
    "multi_label": ("probabilities",),
    "regression": ("score",),
}


def check(kind: str, label: str | None, labels: Sequence[str]) -> str | None:
    """Returns the error text for an invalid label, or None.

    Args:
      kind: name of the kind of answers.
      label: the label of a text, if it has one.
      labels: names of the classes.
    """
    if label is None or kind not in SCORED_OUTPUTS:
        return None
    if "score" in SCORED_OUTPUTS[kind]:
        is_number = not math.isnan(to_number(label))
        return None if is_number else "a score should be a number"
    given = _split(label) if kind == "multi_label" else [label]
    if set(given) <= set(labels):
        return None
    return f"the model's are {', '.join(labels)}"


def score(
    outputs: Mapping[str, np.ndarray], gold: Sequence[str], settings: Mapping
) -> tuple[str, float]:
    """Returns the name and value of a score.

    Args:
      outputs: those in `SCORED_OUTPUTS`, [N, ...].
      gold: the labels of N texts.
      settings: content of the model.json beside predict.py.
    """
    if settings["kind"] == "regression":
        pearson = np.corrcoef(outputs["score"], np.array(gold, float))[0, 1]
        return "pearson", float(pearson)
    labels = settings["labels"]
    if settings["kind"] == "classification":
        predicted = np.array(labels)[outputs["logits"].argmax(-1)]
        return "accuracy", float((predicted == np.array(gold)).mean())
    right = [[name in _split(x) for name in labels] for x in gold]
    predicted = outputs["probabilities"] >= np.array(
        settings["thresholds"], np.float32
    )
    return "micro_f1", metrics.f1_scores(predicted, right)["micro_f1"]


def _split(labels: str) -> list[str]:
    """Returns the labels in a cell, which has commas between them."""
    words = (word.strip() for word in labels.split(","))
    return [word for word in words if word]
