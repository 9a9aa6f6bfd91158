"""Predicted and right scores -> loss, correlations.

N examples.
"""

import numpy as np

from bert_tf.model import models
from bert_tf.tasks import losses
from bert_tf.tasks.task import Target
from bert_tf.tasks.texts.options import LabelOptions
from bert_tf.tasks.texts.text_task import TextTask
from tfrecords import schema


class Regression(TextTask):
    """A number for each text or pair, as in STS-B (appendix B.1)."""

    task = "regression"
    feature = "label_scores"
    schema = schema.REGRESSION

    def check_options(self):
        """Raises ValueError for an option of classes."""
        super().check_options()
        for name in ("class_weights", "label_smoothing", "calibrate"):
            if getattr(self.options, name) != getattr(LabelOptions, name):
                self.refuse(name, "classes")

    def build_model(self, config, dtype=None):
        """Returns a BertRegressor."""
        return models.BertRegressor(config, dtype=dtype)

    def label_targets(self, batch, weights):
        """Returns the score of each row."""
        scores = batch["label_scores"]
        target = Target("predictions", scores, weights, losses.squared_error)
        return {"squared_error": target}

    def predicted(self, outputs):
        """Returns [N] scores."""
        return outputs["predictions"]

    def baseline(self, labels, split):
        """Returns each metric for the mean score; correlations are None."""
        return self.best_constant(labels, [labels.mean()])

    def cells(self, predicted):
        """Returns the scores, clipped to the range of the task's."""
        low, high = self.table.score_range or (-np.inf, np.inf)
        return [f"{score:.4f}" for score in np.clip(predicted, low, high)]

    def named(self, label):
        """Returns the score."""
        return float(label)

    def answers(self, outputs):
        """Yields the predicted score."""
        for score in self.predicted(outputs):
            yield {"predicted": round(float(score), 6)}

    def label_metadata(self):
        """Returns the score range, if it is known."""
        score_range = self.table.score_range
        return {"score_range": list(score_range)} if score_range else {}
