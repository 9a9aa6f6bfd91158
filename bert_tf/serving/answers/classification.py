"""Texts or pairs -> their classes and the probabilities of all.

Shapes: N texts, C classes.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import (
    TEXT,
    ExplainedKind,
    plain,
    require_labels,
)


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
    options = ("uncalibrated",)

    def set_options(self, options):
        """Sets the factor of logits, which undoes a temperature.

        Raises:
          ValueError: if the model has no names of classes, or no temperature.
        """
        require_labels(self)
        self.factor = 1.0
        if options.uncalibrated:
            self.factor = self.metadata.get("temperature") or 0.0
            if not self.factor > 0.0:
                raise ValueError(
                    "uncalibrated=True: model.json has no temperature above 0, "
                    "which run_glue --calibrate finds. Omit it."
                )

    def network(self, batch):
        """Returns `probabilities` and `logits`, [N, C] float32."""
        logits = self.numbers_of_texts(batch, "logits")
        if self.factor != 1.0:
            logits *= self.factor
        return {"probabilities": tf.nn.softmax(logits), "logits": logits}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        best = tf.argmax(numbers["logits"], axis=-1)
        return {"label": tf.gather(tf.constant(self.labels), best)} | numbers

    def settings(self):
        """Also returns the temperature of the export, if not the model's."""
        undone = {} if self.factor == 1.0 else {"temperature": 1.0}
        return super().settings() | undone

    def more_signatures(self, answer):
        """Returns `classify`."""
        names = self.inputs[TEXT]
        found = batches.classes_of(answer, self.labels, names)
        return {batches.CLASSIFY: found}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Label."""
        values = plain(outputs["probabilities"])[0]
        probabilities = dict(zip(labels, values, strict=True))
        (label,) = plain(outputs["label"])
        return Label(label, probabilities[label], probabilities)
