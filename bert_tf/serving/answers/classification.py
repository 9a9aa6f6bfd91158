"""Texts or pairs -> their classes and the probabilities of all.

Shapes: N texts, C classes.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import ExplainedKind, plain


class Label(NamedTuple):
    """The likeliest class of a text or pair.

    Attributes:
      label: its name.
      probability: its probability.
      probabilities: name -> probability of every class.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


class Classification(ExplainedKind):
    """The class of a text or pair.

    Its signature `text` returns `label` [N] string, and `probabilities` and
    `logits` [N, C] float32. `classify` is TensorFlow Serving's Classify API:
    `classes` and `scores`, [N, C].
    """

    name = task = "classification"
    weights = "classification/"
    title, hub_task = "text classification", "text-classification"
    scored = ("logits",)
    action = "Classify"

    def set_options(self, options):
        """Raises ValueError if the model has no names of classes."""
        self.check_labels()

    def network(self, batch):
        """Returns `probabilities` and `logits`, [N, C] float32."""
        logits = self.model(batch, training=False)["logits"]
        return {"probabilities": tf.nn.softmax(logits), "logits": logits}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        best = tf.argmax(numbers["logits"], axis=-1)
        return {"label": tf.gather(tf.constant(self.labels), best)} | numbers

    def more_signatures(self, answer):
        """Returns `classify`."""
        return {batches.CLASSIFY: batches.classes_of(answer, self.labels)}

    def rows_settings(self):
        """Returns `labels` and their number."""
        return {"labels": self.labels, "num_classes": len(self.labels)}

    @classmethod
    def check_label(cls, label, labels):
        """Returns the expected labels, if it is none of them."""
        if label not in (None, *labels):
            return f"the model's are {', '.join(labels)}"
        return None

    @classmethod
    def score(cls, outputs, gold, settings):
        """Returns the accuracy."""
        labels = np.array(settings["labels"])
        is_right = labels[outputs["logits"].argmax(-1)] == np.array(gold)
        return "accuracy", float(is_right.mean())

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Label."""
        values = plain(outputs["probabilities"])[0]
        probabilities = dict(zip(labels, values, strict=True))
        (label,) = plain(outputs["label"])
        return Label(label, probabilities[label], probabilities)
