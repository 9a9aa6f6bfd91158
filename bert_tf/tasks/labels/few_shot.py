"""Vectors and classes of few rows -> similar vectors, a solved head, scores.

The encoder learns that texts of a class have similar vectors, from pairs of
rows, of which there are many more than rows; then a logistic regression on the
vectors is the head (Tunstall et al. 2022, arXiv 2209.11055, section 3).

B rows of a replica, R rows of all replicas, N rows of train, H size of a
vector, C classes.
"""

import numpy as np
import sklearn.linear_model
import tensorflow as tf
from absl import logging

from bert_tf.tasks import losses
from bert_tf.tasks.labels.classes import Classes
from bert_tf.tasks.task import Target

_MAX_ITERATIONS = 1000  # Of the logistic regression; it needs tens.
# Fewer hardly change the vectors of a sentence model.
_FEW_STEPS = 50


class FewShot(Classes):
    """One of C classes, from about 8 to 64 rows of each.

    Attributes:
      train_labels: [N] class ids, of `read_train`.
      train_weights: [N] float32, of rows times those of their classes.
    """

    reads_train = True

    def check_options(self):
        """Raises ValueError for an option of the head's cross-entropy."""
        super().check_options()
        if self.options.label_smoothing:
            raise ValueError(
                f"--label_smoothing={self.options.label_smoothing} is for a "
                "head that is trained by cross-entropy; that of --few_shot is "
                "a logistic regression. Omit one of the two."
            )

    def build_model(self, config, dtype=None):
        """Returns a BertClassifier whose head has no gradient."""
        model = super().build_model(config, dtype)
        model.head.trainable = False
        return model

    def outputs(self, model, batch, dropout_key):
        """Returns `similarities` [B, R] float32 and `pairs` [B, R] int32.

        Similarities are cosines of the vectors that the head reads. A pair is
        1 if its rows have the same class, 0 if not, and -1 if they are the same
        row, or one fills the batch.
        """
        _, vectors = model.head_inputs(
            batch, training=True, dropout_key=dropout_key
        )
        vectors = tf.math.l2_normalize(tf.cast(vectors, tf.float32), axis=-1)
        own = {
            "vectors": vectors,
            "labels": batch[self.feature],
            "is_real": batch["is_real_example"],
        }
        others, replica = own, tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            others = {n: replica.all_gather(x, axis=0) for n, x in own.items()}
        similarities = tf.matmul(vectors, others["vectors"], transpose_b=True)
        is_same = own["labels"][:, None] == others["labels"][None]
        rows = tf.range(tf.shape(vectors)[0])
        rows += replica.replica_id_in_sync_group * tf.shape(vectors)[0]
        is_row = rows[:, None] == tf.range(tf.shape(similarities)[1])
        pairs = tf.where(
            is_row | (others["is_real"] == 0), -1, tf.cast(is_same, tf.int32)
        )
        return {"similarities": similarities, "pairs": pairs}

    def training_targets(self, batch, weights):
        """Returns the pairs of each row."""
        if self.weights is not None:
            ids = batch[self.feature]
            weights = weights * tf.gather(tf.constant(self.weights), ids)
        target = Target("similarities", "pairs", weights, losses.of_pairs)
        return {"pairs": target}

    def read_train(self, labels, weights=None):
        """Takes the classes of the training rows, and weighs them.

        Raises:
          ValueError: if a class has no row.
        """
        super().read_train(labels, weights)
        counts = np.bincount(labels, minlength=len(self.labels))
        if not counts.all():
            raise ValueError(
                "--few_shot: no row of train has the label "
                f"{self.named(int(counts.argmin()))!r}. Add some, or leave it "
                "out of --labels."
            )
        self.train_labels = labels
        self.train_weights = (
            np.ones(len(labels)) if weights is None else weights
        )
        if self.weights is not None:
            self.train_weights = self.train_weights * self.weights[labels]
        logging.info(
            "few_shot  rows of train %s",
            "  ".join(
                f"{label} {count}"
                for label, count in zip(self.labels, counts, strict=True)
            ),
        )

    def solve_head(self, model, vectors):
        """Assigns a logistic regression on the training rows to the head.

        Args:
          model: a BertClassifier.
          vectors: [N, H] float32, what its head reads of each row.
        """
        # Divided by their length, so that regularization does not depend on it.
        length = np.sqrt(np.mean(np.sum(np.square(vectors), axis=-1)))
        fitted = sklearn.linear_model.LogisticRegression(
            max_iter=_MAX_ITERATIONS
        ).fit(vectors / length, self.train_labels, self.train_weights)
        kernel, bias = fitted.coef_.T / length, fitted.intercept_
        if len(self.labels) == 2:  # One logit, of the second class.
            kernel = np.concatenate([-kernel, kernel], axis=1) / 2.0
            bias = np.concatenate([-bias, bias]) / 2.0
        model.head.dense.kernel.assign(kernel.astype(np.float32))
        model.head.dense.bias.assign(bias.astype(np.float32))


def check_run(config) -> None:
    """Raises ValueError for settings that leave no pairs, or no head.

    Args:
      config: a FineTuningConfig.
    """
    rows = config.train_batch_size // config.gradient_accumulation_steps
    if config.do_train and rows < 2:
        raise ValueError(
            f"--few_shot learns from pairs of the rows of a batch; with "
            f"--train_batch_size={config.train_batch_size} and "
            "--gradient_accumulation_steps="
            f"{config.gradient_accumulation_steps} there are none. Choose "
            "a larger batch."
        )
    for name in ("teacher", "ema_decay"):
        if value := getattr(config, name):
            raise ValueError(
                f"--{name}={value}: the head of --few_shot is solved for, "
                "not trained, and cannot have it. Omit one of the two."
            )


def check_steps(num_steps: int) -> None:
    """Logs that a run is too short to change the vectors."""
    if num_steps < _FEW_STEPS:
        logging.warning(
            "--few_shot: %d steps hardly change the vectors, of which the "
            "head alone learns the classes; %d or more are usual: raise "
            "--num_train_epochs, or lower --train_batch_size.",
            num_steps,
            2 * _FEW_STEPS,
        )
