"""Vectors and classes of few rows -> similar vectors, a solved head, scores.

The encoder learns that texts of a class have similar vectors, from pairs of
rows, of which there are many more than rows; then a logistic regression on the
vectors is the head (Tunstall et al. 2022, arXiv 2209.11055, section 3).

B rows of a replica, R rows of all replicas, N rows of train, H size of a
vector, C classes.
"""

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.contrib.search import in_batch
from bert_tf.tasks import losses
from bert_tf.tasks.labels.classes import Classes
from bert_tf.tasks.task import Target

_MAX_ITERATIONS = 1000  # Of the logistic regression; it needs tens.
# Fewer hardly change the vectors of a sentence model.
FEW_STEPS = 50


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
        1 if its rows have the same class, 0 if not, and -1 if they have the
        same text, or one fills the batch.
        """
        _, vectors = model.head_inputs(
            batch, training=True, dropout_key=dropout_key
        )
        vectors = tf.math.l2_normalize(tf.cast(vectors, tf.float32), axis=-1)
        own = {
            "vectors": vectors,
            "labels": batch[self.feature],
            "is_real": batch["is_real_example"],
            "ids": batch["input_word_ids"],
        }
        others = in_batch.gathered(own)
        similarities = tf.matmul(vectors, others["vectors"], transpose_b=True)
        is_same = own["labels"][:, None] == others["labels"][None]
        # The row itself, and copies of it in a batch of more than an epoch.
        is_copy = in_batch.equal_texts(own["ids"], others["ids"])
        is_none = is_copy | (others["is_real"] == 0)
        pairs = tf.where(is_none, -1, tf.cast(is_same, tf.int32))
        return {"similarities": similarities, "pairs": pairs}

    def training_targets(self, batch, weights):
        """Returns the pairs of each row."""
        weights = self.weighted(batch, weights)
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
        import sklearn.linear_model  # Its 0.2 s are for those who need it.

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
    """Raises ValueError for settings that pairs or head cannot have.

    Args:
      config: a FineTuningConfig.
    """
    if not config.do_train:
        return
    if config.train_batch_size < 2:
        raise ValueError(
            f"--train_batch_size={config.train_batch_size}: --few_shot learns "
            "from pairs of the rows of a batch, of which there are none. "
            "Choose a larger batch."
        )
    for name, value, reason in (
        (
            "gradient_accumulation_steps",
            config.gradient_accumulation_steps - 1,
            "each part of a batch would only have its own pairs",
        ),
        ("teacher", config.teacher, "a teacher trains the head by gradients"),
        (
            "ema_decay",
            config.ema_decay,
            "the head is solved for the last weights, not for their averages",
        ),
    ):
        if value:
            raise ValueError(
                f"--{name}={getattr(config, name)} with --few_shot: {reason}. "
                "Omit one of the two."
            )


def check_steps(num_steps: int) -> None:
    """Logs that a run is too short to change the vectors."""
    if num_steps < FEW_STEPS:
        logging.warning(
            "--few_shot: %d steps hardly change the vectors, so that only the "
            "head learns the classes; %d or more are usual: raise "
            "--num_train_epochs, or lower --train_batch_size.",
            num_steps,
            2 * FEW_STEPS,
        )
