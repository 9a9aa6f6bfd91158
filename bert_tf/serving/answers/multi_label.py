"""Texts or pairs -> their labels, any number of them, and probabilities.

Shapes: N texts, C labels, K the largest number of labels of one of the texts.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import (
    TEXT,
    ExplainedKind,
    plain,
    require_labels,
)

_DEFAULT_THRESHOLD = 0.5


class Labels(NamedTuple):
    """The labels of a text or pair.

    Attributes:
      labels: names of those whose probability reaches their threshold, in the
        order of the model's; may be empty.
      probabilities: name -> probability of every label.
    """

    labels: tuple[str, ...]
    probabilities: dict[str, float]


class MultiLabel(ExplainedKind):
    """Any number of labels of a text or pair.

    Its signature `text` returns `labels` [N, K] string, with "" after the last
    label of a text; and `probabilities` and `logits` [N, C] float32. `classify`
    is TensorFlow Serving's Classify API: `classes` and `scores`, [N, C].
    """

    name = task = "multi_label"
    weights = "multi_label/"
    ragged_outputs = ("labels",)

    def set_options(self, options):
        """Reads the thresholds of the model.

        Raises:
          ValueError: if the model has no names of labels.
        """
        require_labels(self)
        default = [_DEFAULT_THRESHOLD] * len(self.labels)
        found = self.metadata.get("thresholds", default)
        self.thresholds = list(map(float, found))

    def network(self, batch):
        """Returns `probabilities` and `logits`, [N, C] float32."""
        logits = self.numbers_of_texts(batch, "logits")
        return {"probabilities": tf.sigmoid(logits), "logits": logits}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        reached = numbers["probabilities"] >= tf.constant(self.thresholds)
        names = tf.broadcast_to(tf.constant(self.labels), tf.shape(reached))
        labels = tf.ragged.boolean_mask(names, reached)
        return {"labels": labels.to_tensor("")} | numbers

    def more_signatures(self, answer):
        """Returns `classify`."""
        names = self.inputs[TEXT]
        found = batches.classes_of(answer, self.labels, names)
        return {batches.CLASSIFY: found}

    @classmethod
    def explained(cls, outputs, target):
        """Returns the probability of a label."""
        return tf.sigmoid(outputs["logits"])[:, target]

    @classmethod
    def target_of(cls, answer):
        """Returns the id of the likeliest label."""
        return int(np.argmax([*answer.probabilities.values()]))

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of labels of a text."""
        if "labels" not in outputs:
            return None
        return int(np.count_nonzero(outputs["labels"][0] != b""))

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns Labels."""
        values = plain(outputs["probabilities"])[0]
        probabilities = dict(zip(labels, values, strict=True))
        return Labels(tuple(plain(outputs["labels"])[0]), probabilities)
