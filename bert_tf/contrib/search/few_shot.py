"""Vectors and classes of few rows -> similar vectors, a solved head, scores.

The encoder learns that texts of a class have similar vectors, from pairs of
rows, of which there are many more than rows; then a logistic regression on the
vectors is the head (Tunstall et al. 2022, arXiv 2209.11055, section 3).

B rows of a replica, R rows of all replicas, N rows of train, H size of a
vector, C classes.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.config import CLASSIFIER_POOLING
from bert_tf.contrib.search import in_batch
from bert_tf.contrib.search.options import FewShotConfig
from bert_tf.tasks import glue, losses
from bert_tf.tasks.task import Target
from bert_tf.tasks.texts.classification import Classification
from bert_tf.tasks.texts.text_task import row_weights
from bert_tf.workflows import fine_tuning

_MAX_ITERATIONS = 1000  # Of the logistic regression; it needs tens.


class FewShot(Classification):
    """One of C classes, from about 8 to 64 rows of each.

    Attributes:
      train_labels: [N] class ids, of `read_train`.
      train_weights: [N] float32, of rows times those of their classes.
    """

    reads_train = True

    def __init__(self, table, data=None):
        other = type(glue.task_of(table)).task
        if other != self.task:
            raise ValueError(
                "run_few_shot is for one of several classes of a row; "
                f"{table.name} is a task of {other}. Use run_glue."
            )
        super().__init__(table, data)
        self.pooling = ""  # Of a head that is trained and has none.
        self.config = None  # Of the run.

    def prepare(self, config, source):
        """Chooses how the head pools tokens, as a sentence model does."""
        task = super().prepare(config, source)
        task.config = config
        if config.do_train:
            embedding = source and source.sentence_embedding
            modes = embedding.pooling if embedding else ()
            is_one = len(modes) == 1 and modes[0] in CLASSIFIER_POOLING
            task.pooling = modes[0] if is_one else "mean"
        return task

    def check_options(self):
        """Raises ValueError for an option of the head's cross-entropy."""
        super().check_options()
        if self.has_windows:
            raise ValueError(
                f"--long_text={self.long_text}: run_few_shot reads one vector "
                "of a text. Use cut or head_tail."
            )
        if self.options.label_smoothing:
            raise ValueError(
                f"--label_smoothing={self.options.label_smoothing} is for a "
                "head that is trained by cross-entropy; that of run_few_shot "
                "is a logistic regression. Omit the flag."
            )

    def build_model(self, config, dtype=None):
        """Returns a BertClassifier whose head has no gradient."""
        if self.pooling and not config.classifier_pooling:
            config = dataclasses.replace(
                config, classifier_pooling=self.pooling
            )
        model = super().build_model(config, dtype)
        model.head.trainable = False
        self.read_vectors = functools.partial(_read_vectors, model)
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

    def targets(self, batch):
        """Returns the pairs of each row."""
        weights = self.weighted(batch, row_weights(batch))
        target = Target("similarities", "pairs", weights, losses.of_pairs)
        return {"pairs": target}

    def read_train(self, labels, weights=None):
        """Takes the classes of the training rows, and weighs them.

        Raises:
          ValueError: if a class has no row.
        """
        super().read_train(labels, weights)
        counts = np.bincount(labels, minlength=len(self.class_names))
        if not counts.all():
            raise ValueError(
                "run_few_shot: no row of train has the label "
                f"{self.named(int(counts.argmin()))!r}. Add some, or leave it "
                "out of --labels."
            )
        self.train_labels = labels
        self.train_weights = (
            np.ones(len(labels)) if weights is None else weights
        )
        if self.class_weights is not None:
            self.train_weights = self.train_weights * self.class_weights[labels]
        if self.config and self.config.do_train:
            steps = fine_tuning.compute_steps(self.config, len(labels))
            check_steps(steps.num_train_steps)
        logging.info(
            "few_shot  rows of train %s",
            "  ".join(
                f"{label} {count}"
                for label, count in zip(self.class_names, counts, strict=True)
            ),
        )

    def decisive_settings(self):
        """Returns the settings of `TextTask`, and that rows are few."""
        return super().decisive_settings() | {"few_shot": True}

    def before_save(self, model, predict):
        """Solves for the head."""
        self.solve_head(model, predict(self.read_vectors, "train")["vectors"])

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
        if len(self.class_names) == 2:  # One logit, of the second class.
            kernel = np.concatenate([-kernel, kernel], axis=1) / 2.0
            bias = np.concatenate([-bias, bias]) / 2.0
        model.head.dense.kernel.assign(kernel.astype(np.float32))
        model.head.dense.bias.assign(bias.astype(np.float32))


def _read_vectors(model, batch, training):
    """Returns the inputs of the head, [B, H] float32."""
    _, vectors = model.head_inputs(batch, training=training)
    return {"vectors": tf.cast(vectors, tf.float32)}


def check_steps(num_steps: int) -> None:
    """Logs that a run is too short to change the vectors."""
    few_steps = FewShotConfig.min_save_steps
    if num_steps < few_steps:
        logging.warning(
            "run_few_shot: %d steps hardly change the vectors, so that only "
            "the head learns the classes; %d or more are usual: raise "
            "--num_train_epochs, or lower --train_batch_size.",
            num_steps,
            2 * few_steps,
        )
