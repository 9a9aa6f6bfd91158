"""Queries and their passages -> the passages of each query, the best first.

Shapes: N queries, C maximum passages per query, M passages in total, s length
of the longest row in a batch.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.serving import batches
from bert_tf.serving.answers import score
from bert_tf.serving.answers.kind import TEXT, Kind, plain
from tfrecords import schema


class Ranked(NamedTuple):
    """The passages of a query, the best first.

    Attributes:
      passages: the passages.
      scores: of each, the highest first. Of a model that was trained with
        the ranking loss "binary", or that has two classes, a logit: its sigmoid
        is the probability that the passage is relevant.
      order: numbers of the passages, from 0, in the order that was given.
    """

    passages: tuple[str, ...]
    scores: tuple[float, ...]
    order: tuple[int, ...]


class Ranking(Kind):
    """Passages by their scores beside a query (Nogueira and Cho 2019).

    The model is one that scores pairs, of query and passage; its scores are not
    limited to the range of any labels, which would make some of them equal. Or
    it has two classes, of which the second is "relevant": the score is the
    difference of its logit from the first's, whose order is that of the
    probabilities. Passages of equal scores stay in the order that was given.

    Its signature `text`, of `query` [N] and `passages` [N, C] string, padded
    with "", returns `ranked` [N, C] string, the passages from the best to the
    worst; `scores` [N, C] float32; and `order` [N, C] int32, their numbers in
    `passages`, from 0. Missing passages are last: "", the lowest float and -1.
    """

    name = "ranking"
    task = "regression"
    weights = "regression/"
    made_for = "ranking_loss"
    inputs = {TEXT: {"query": 1, "passages": 2}}
    expected = "(query, [passage, ...]), or a dict with these"
    signature_outputs = ("ranked", "scores", "order")

    def set_options(self, options):
        """Raises ValueError for a model of single texts.

        Of two classes, a line of the log says which is taken for relevant.
        """
        if len(labels := self.metadata.get("labels") or ()) == 2:
            logging.info(
                "scores are logits of %r minus those of %r", *labels[::-1]
            )
        if (found := self.metadata.get("long_text", "cut")) != "cut":
            raise ValueError(
                f"kind={self.name} cuts long texts; this model was trained "
                f"with long_text={found}. Use the kind of its task."
            )
        if self.metadata.get("num_texts") == 1:
            raise ValueError(
                f"kind={self.name} needs a model that scores pairs of texts; "
                "this one was trained on single texts (num_texts in its "
                "model.json). Train it with two columns in text_column."
            )

    def encode(self, query: tf.Tensor, passages: tf.Tensor):
        """Returns the batch of pairs, a row for each passage.

        See `batches.pack_listed`.

        Args:
          query: [N] string.
          passages: [N, C] string, padded with "".

        Returns:
          `schema.ENCODER_INPUTS`, each [M, s] int32; `indices` [M, 2] int64,
          row and column of each passage in `passages`; and `passages`.
        """
        passages = batches.check_rows(
            passages, query, "passages should have one row for each query."
        )
        rows, indices = batches.pack_listed(
            self.tokenizer, self.max_seq_length, query, passages
        )
        return rows | {"indices": indices, "passages": passages}

    def network(self, batch):
        """Returns `score` [M] float32, of a few passages at a time.

        So memory does not grow with the number of passages of a query.
        """
        inputs = {name: batch[name] for name in schema.ENCODER_INPUTS}

        def predict(rows):
            return {"score": self.rows_network(rows)["score"][:, tf.newaxis]}

        scores = batches.in_parts(predict, inputs, {"score": [1]})
        return {"score": scores["score"][:, 0]}

    def rows_network(self, batch):
        """Returns `score` [B] float32 of pairs [B, s]."""
        numbers = self.model(batch, training=False)
        if self.metadata["task"] == self.task:
            scores = numbers["predictions"]
            return {"score": score.activated(scores, self.metadata)}
        logits = numbers["logits"]
        return {"score": logits[:, 1] - logits[:, 0]}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        passages = batch["passages"]
        scores = batches.scatter_listed(
            numbers["score"], batch["indices"], passages
        )
        order = tf.argsort(scores, direction="DESCENDING", stable=True)
        ranked = tf.gather(passages, order, batch_dims=1)
        return {
            # Clients decode it; invalid bytes are U+FFFD, as in other answers.
            "ranked": tf.strings.unicode_transcode(ranked, "UTF-8", "UTF-8"),
            "scores": tf.gather(scores, order, batch_dims=1),
            "order": tf.where(ranked != "", order, -1),
        }

    def signature(self, function):
        """Returns a function of `query` [N] and `passages` [N, C] string."""
        specs = [batches.STRINGS, tf.TensorSpec([None, None], tf.string)]

        @tf.function(input_signature=specs, autograph=False)
        def of_query(query, passages):
            return function(query, passages)

        return of_query

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of passages, without those that are empty."""
        return np.count_nonzero(outputs["order"][0] >= 0)

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Ranked."""
        return Ranked(
            *(tuple(plain(outputs[x])[0]) for x in cls.signature_outputs)
        )
