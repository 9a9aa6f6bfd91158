"""Texts with [MASK] -> the likeliest tokens for each [MASK].

Shapes: N texts, S max_seq_length, s length of the longest row in a batch, P
maximum masks per text, V vocabulary, k candidates.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import Kind, plain
from tfrecords.text.vocab import MASK

POSITIONS = "masked_lm_positions"
TOP_K = 5  # Candidates for each [MASK], by default.


class FilledMask(NamedTuple):
    """A candidate for a [MASK], and the text with it."""

    token: str
    probability: float
    text: str


class Filled(NamedTuple):
    """A text with the best candidates, and all for each [MASK], best first."""

    text: str
    masks: tuple[tuple[FilledMask, ...], ...]


class FillMask(Kind):
    """The likeliest tokens for each [MASK] of a text.

    Its signature `text` returns `tokens` string and `probabilities` float32,
    each [N, P, k], the best candidate first. Rows of texts with fewer than P
    masks are padded with "" and 0.
    """

    name = "fill_mask"
    task = "pretraining"
    weights = "masked_lm/"
    expected = f"a str, with {MASK} in it"
    options = ("top_k",)
    # Otherwise the string is split like other text, as in the original.
    kept_tokens = (MASK,)
    record_outputs = signature_outputs = ("tokens", "probabilities")

    def set_options(self, options):
        """Sets `top_k`, at most the size of the vocabulary.

        Raises:
          ValueError: if the tokenizer does not keep [MASK].
        """
        if MASK not in self.tokenizer.kept_tokens:
            raise ValueError(
                f"The tokenizer keeps {self.tokenizer.kept_tokens}, so it "
                f"splits {MASK}; create it with kept_tokens=({MASK!r},)."
            )
        self.top_k = min(options.top_k or TOP_K, self.tokenizer.vocab_size)

    @classmethod
    def unsupported_reason(cls, config):
        """Returns why left-to-right models fill no masks."""
        if config.is_causal:
            return "a left-to-right model, which predicts the next token"
        return None

    def encode(self, text: tf.Tensor):
        """Returns the batch of texts with [MASK], and the positions to predict.

          text                 the [MASK] sat
          input_word_ids       CLS the MASK sat SEP
          masked_lm_positions           2

        Args:
          text: [N] string; a [MASK] beyond S is cut off.

        Returns:
          `schema.ENCODER_INPUTS`, each [N, s] int32; `masked_lm_positions`
          [N, P] int32 and `masked_lm_weights` [N, P] float32, both padded with
          0.
        """
        tokenizer = self.tokenizer
        batch = batches.pack(tokenizer, self.max_seq_length, tokenizer(text))
        # Padding has the id 0, and in some vocabularies, such as BETO's, so has
        # [MASK].
        is_mask = batch["input_word_ids"] == tokenizer.mask_id
        is_mask &= batch["input_mask"] == 1
        rows, positions = tf.unstack(
            tf.cast(tf.where(is_mask), tf.int32), axis=1
        )
        positions = tf.RaggedTensor.from_value_rowids(
            positions, rows, nrows=tf.size(text)
        )
        weights = tf.ones_like(positions, tf.float32)
        return batch | {
            POSITIONS: positions.to_tensor(),  # [N, P]
            "masked_lm_weights": weights.to_tensor(),
        }

    def network(self, batch):
        """Returns `token_ids` int32 and `probabilities` float32, [N, P, k]."""
        logits = self.model(batch, training=False)["masked_lm_logits"]
        logits = logits[..., : self.tokenizer.vocab_size]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        return {"token_ids": ids, "probabilities": probabilities}

    def decode(self, numbers, batch):
        """Returns the outputs in the class's description."""
        ids = numbers["token_ids"]
        tokens = self.tokenizer.detokenize(tf.reshape(ids, [-1, 1]))
        tokens = tf.reshape(tokens, tf.shape(ids))
        weights = batch["masked_lm_weights"][..., tf.newaxis]  # [N, P, 1]
        return {
            "tokens": tf.where(weights > 0, tokens, ""),
            "probabilities": numbers["probabilities"] * weights,
        }

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of masks that are not cut off."""
        return np.count_nonzero(outputs["tokens"][0, :, 0] != b"")

    @classmethod
    def records(cls, fields, outputs, names):
        """Returns the text with filled masks, and candidates for each [MASK].

        A [MASK] beyond the model's length has no candidates and is kept.

        Returns:
          `filled`, the text with the best token for each mask, and `masks`: for
          each mask a list of `token`, `probability`, and `filled` with this
          token.
        """
        texts = fields["text"].split(MASK)
        tokens = plain(outputs["tokens"][0])
        probabilities = plain(outputs["probabilities"][0])
        best = [candidates[0] for candidates in tokens]
        best += [MASK] * (len(texts) - 1 - len(best))
        masks = [
            [
                {
                    "token": token,
                    "probability": probability,
                    "filled": _join(texts, best[:i] + [token] + best[i + 1 :]),
                }
                for token, probability in zip(*of_mask, strict=True)
            ]
            for i, of_mask in enumerate(zip(tokens, probabilities, strict=True))
        ]
        return {"filled": _join(texts, best), "masks": masks}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Filled."""
        found = cls.records(fields, outputs, set())
        masks = (
            tuple(FilledMask(*x.values()) for x in candidates)
            for candidates in found["masks"]
        )
        return Filled(found["filled"], tuple(masks))


def _join(texts: list[str], tokens: list[str]) -> str:
    """Returns texts joined by tokens; `##` continues the previous word."""
    filled = texts[0]
    for token, text in zip(tokens, texts[1:], strict=True):
        if token.startswith("##"):
            filled = filled.rstrip()
        filled += token.removeprefix("##") + text
    return filled
