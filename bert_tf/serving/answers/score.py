"""Texts or pairs -> their scores.

Shapes: N texts.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.checkpoint import contents
from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, ExplainedKind, plain


class Score(NamedTuple):
    """The score of a text or pair."""

    score: float


def activated(scores: tf.Tensor, metadata) -> tf.Tensor:
    """Returns the scores of a model, as its model.json has them."""
    activation = metadata.get(contents.SCORE_ACTIVATION)
    return keras.activations.get(activation)(scores)


class Regression(ExplainedKind):
    """The score of a text or pair.

    Its signature `text` returns `score` [N] float32, with the activation of a
    CrossEncoder's folder, and clipped to the range of the labels if the model
    has one. `regress` is TensorFlow Serving's Regress API: `outputs` [N].
    """

    name = task = "regression"
    weights = "regression/"

    def settings(self):
        """Returns the limits, too, which other runtimes need after windows."""
        found, limits = super().settings(), self.metadata.get("score_range")
        if limits and self.has_windows:
            found["score_range"] = limits
        return found

    def network(self, batch):
        """Returns `score` [N] float32; of windows alone without limits."""
        scores = self.numbers_of_texts(batch, "predictions")
        scores = activated(scores, self.metadata)
        is_part = self.has_windows and batches.TEXT_OF_WINDOW not in batch
        limits = self.metadata.get("score_range")
        if limits and not is_part:
            scores = tf.clip_by_value(scores, *limits)
        return {"score": scores}

    def decode(self, numbers, batch):
        """Returns the same numbers."""
        return numbers

    def more_signatures(self, answer):
        """Returns `regress`."""
        return {
            batches.REGRESS: batches.of_examples(
                lambda *texts: {"outputs": answer(*texts)["score"]},
                self.inputs[TEXT],
            )
        }

    @classmethod
    def target_of(cls, answer):
        """Returns 0: there is one score."""
        return 0

    @classmethod
    def explained(cls, outputs, target):
        """Returns the score, before its activation and limits."""
        return outputs["predictions"]

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Score."""
        return Score(*plain(outputs["score"]))
