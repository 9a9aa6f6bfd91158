"""Contexts and their endings -> the best ending of each context.

Shapes: N contexts, C maximum endings per context, M endings in total, S
max_seq_length, s length of the longest row in a batch.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, Kind, plain


class Choice(NamedTuple):
    """The best ending: its index, from 0, its text; probabilities of all."""

    index: int
    text: str
    probabilities: tuple[float, ...]


class MultipleChoice(Kind):
    """The best of any number of endings.

    Its signature `text`, of `context` [N] and `endings` [N, C] string, padded
    with "", returns `choice` [N] int32, from 0, or -1 if there are no endings;
    `ending` [N] string, its text; `probabilities` and `logits` [N, C] float32,
    for missing endings 0 and the lowest float.
    """

    name = task = "multiple_choice"
    weights = "multiple_choice/"
    inputs = {TEXT: {"context": 1, "endings": 2}}
    expected = "(context, [ending, ...]), or a dict with these"
    signature_outputs = ("choice", "ending")

    def encode(self, context: tf.Tensor, endings: tf.Tensor):
        """Returns the batch of contexts and endings, a row for each ending.

        Rows are packed as in `make_swag_records`, but each is an example with
        one choice, so that contexts may have different numbers of endings; see
        `batches.pack_listed`.

        Args:
          context: [N] string.
          endings: [N, C] string, padded with "".

        Returns:
          `schema.ENCODER_INPUTS`, each [M, 1, s] int32; `indices` [M, 2] int64,
          row and column of each ending in `endings`; and `endings`.
        """
        endings = batches.check_rows(
            endings, context, "endings should have one row for each context."
        )
        rows, indices = batches.pack_listed(
            self.tokenizer, self.max_seq_length, context, endings
        )
        batch = {name: row[:, tf.newaxis] for name, row in rows.items()}
        return batch | {"indices": indices, "endings": endings}

    def network(self, batch):
        """Returns `logits` [M] float32 of rows [M, 1, s]."""
        return {"logits": self.model(batch, training=False)["logits"][:, 0]}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        endings = batch["endings"]
        logits = batches.scatter_listed(
            numbers["logits"], batch["indices"], endings
        )
        is_ending = endings != ""
        # An extra column, as there may be no endings.
        best = tf.argmax(
            tf.pad(logits, [[0, 0], [0, 1]], constant_values=tf.float32.min),
            axis=1,
            output_type=tf.int32,
        )
        texts = tf.gather(tf.pad(endings, [[0, 0], [0, 1]]), best, batch_dims=1)
        probabilities = tf.nn.softmax(logits) * tf.cast(is_ending, tf.float32)
        return {
            "choice": tf.where(tf.reduce_any(is_ending, axis=1), best, -1),
            # Clients decode it; invalid bytes are U+FFFD, as in other answers.
            "ending": tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"),
            "probabilities": probabilities,
            "logits": logits,
        }

    def signature(self, function):
        """Returns a function of `context` [N] and `endings` [N, C] string."""
        specs = [batches.STRINGS, tf.TensorSpec([None, None], tf.string)]

        @tf.function(input_signature=specs, autograph=False)
        def of_choice(context, endings):
            return function(context, endings)

        return of_choice

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of endings."""
        return len(fields["endings"])

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Choice."""
        names = ("choice", "ending", "probabilities")
        index, text, scores = (plain(outputs[name])[0] for name in names)
        return Choice(index, text, tuple(scores))
