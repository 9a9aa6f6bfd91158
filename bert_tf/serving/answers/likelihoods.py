"""Texts -> log-probability of each token given the others, and their sum.

Shapes: N texts, s length of the longest row in a batch, T tokens of the longest
text, M tokens of all texts, m of some, V vocabulary.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import Kind, plain
from bert_tf.serving.answers.masks import POSITIONS, FillMask
from tfrecords import schema

_IDS = "masked_lm_ids"
# Of a WordPiece that continues a word.
_CONTINUATION = "##"


class Likelihood(NamedTuple):
    """How likely a masked language model finds a text.

    Attributes:
      score: pseudo-log-likelihood, the sum of `log_probabilities`.
      tokens: WordPieces of the text, without [CLS] and [SEP].
      log_probabilities: natural logarithm of the probability of each token
        where it is masked, given all others.
    """

    score: float
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]

    @property
    def perplexity(self) -> float:
        """Pseudo-perplexity, exp(-score / tokens); NaN for no tokens."""
        if not self.tokens:
            return float("nan")
        return float(np.exp(-self.score / len(self.tokens)))


class PseudoLogLikelihood(Kind):
    """Pseudo-log-likelihood of a text (Salazar et al. 2020, arXiv 1910.14659).

    Each token is masked in a row of its own, and predicted from all others.
    With `within_word_masking`, the WordPieces after it in its word are masked,
    too: otherwise words of several WordPieces, which give each other away,
    score too high (Kauf and Ivanova 2023, arXiv 2305.10588).

    Its signature `text` returns `score` [N] float32, `tokens` [N, T] string and
    `log_probabilities` [N, T] float32. Rows of texts with fewer than T tokens
    are padded with "" and 0.
    """

    name = "pseudo_log_likelihood"
    task = "pretraining"
    weights = "masked_lm/"
    options = ("within_word_masking",)
    signature_outputs = ("score", "tokens", "log_probabilities")
    ragged_outputs = ("tokens", "log_probabilities")

    def set_options(self, options):
        """Sets `within_word_masking`."""
        self.within_word_masking = bool(options.within_word_masking)

    unsupported_reason = FillMask.unsupported_reason

    def _places(self, batch) -> tf.Tensor:
        """Returns row and position of each token, [M, 2] int64."""
        columns = tf.range(tf.shape(batch["input_mask"])[1])
        last = tf.reduce_sum(batch["input_mask"], axis=1, keepdims=True) - 1
        return tf.where((columns > 0) & (columns < last))

    def mask(self, batch, places: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns a row for each of some tokens, in which it is masked.

          input_word_ids       CLS the cat SEP

          input_word_ids       CLS MASK cat SEP     CLS the MASK SEP
          masked_lm_positions      1                         2
          masked_lm_ids            the                       cat

        Args:
          batch: `schema.ENCODER_INPUTS`, each [N, s] int32.
          places: [m, 2] int64, row and position of m tokens.

        Returns:
          `schema.ENCODER_INPUTS`, each [m, s] int32; `masked_lm_positions` and
          `masked_lm_ids`, [m, 1] int32.
        """
        ids = batch["input_word_ids"]
        columns = tf.range(tf.shape(ids)[1])
        rows, positions = tf.unstack(tf.cast(places, tf.int32), axis=1)
        is_masked = columns == positions[:, tf.newaxis]  # [m, s]
        if self.within_word_masking:
            words = self._words(ids)
            is_word = tf.gather(words, rows) == tf.gather_nd(
                words[..., tf.newaxis], places
            )
            is_masked = is_word & (columns >= positions[:, tf.newaxis])
        masked = {
            name: tf.gather(batch[name], rows) for name in schema.ENCODER_INPUTS
        }
        masked["input_word_ids"] = tf.where(
            is_masked, self.tokenizer.mask_id, masked["input_word_ids"]
        )
        return masked | {
            POSITIONS: positions[:, tf.newaxis],
            _IDS: tf.gather_nd(ids, places)[:, tf.newaxis],
        }

    def _words(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the number of the word of each token, [N, s] int32."""
        begins = [
            not token.startswith(_CONTINUATION)
            for token in self.tokenizer.vocab
        ]
        begins = tf.gather(tf.constant(begins, tf.int32), ids)
        return tf.cumsum(begins, axis=1)

    def rows_network(self, batch):
        """Returns `log_probabilities` [M, 1] float32 of `masked_lm_ids`."""
        logits = self.model(batch, training=False)["masked_lm_logits"]
        logits = logits[..., : self.tokenizer.vocab_size]  # [M, 1, V]
        found = tf.gather(tf.nn.log_softmax(logits), batch[_IDS], batch_dims=2)
        return {"log_probabilities": found}

    def network(self, batch):
        """Returns `log_probabilities` [M, 1] float32 of all tokens of texts.

        Rows are masked and predicted a few at a time, so that memory does not
        grow with their number.
        """
        places = self._places(batch)
        inputs = {
            "row": places[:, :1],
            "position": places[:, 1:],
            "input_mask": tf.ones_like(places[:, :1], tf.int32),
        }

        def predict(part):
            places = tf.concat([part["row"], part["position"]], axis=1)
            places = tf.ensure_shape(places, [None, 2])
            rows = batches.without_padding(self.mask(batch, places))
            return self.rows_network(rows)

        return batches.in_parts(predict, inputs, {"log_probabilities": [1]})

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        places = self._places(batch)
        num_texts = tf.shape(batch["input_mask"], tf.int64)[0]

        def by_text(values):
            return tf.RaggedTensor.from_value_rowids(
                values, places[:, 0], nrows=num_texts
            )

        values = by_text(numbers["log_probabilities"][:, 0])
        ids = tf.gather_nd(batch["input_word_ids"], places)
        tokens = by_text(self.tokenizer.detokenize(ids[:, tf.newaxis]))
        return {
            "score": tf.reduce_sum(values, axis=1),
            "tokens": tokens.to_tensor(""),
            "log_probabilities": values.to_tensor(),
        }

    def settings(self):
        """Returns `within_word_masking`."""
        return {"within_word_masking": self.within_word_masking}

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of tokens that are not cut off."""
        return np.count_nonzero(outputs["tokens"][0] != b"")

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Likelihood."""
        score, tokens, values = (
            plain(outputs[x])[0] for x in cls.signature_outputs
        )
        return Likelihood(score, tuple(tokens), tuple(values))
