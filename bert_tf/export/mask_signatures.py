"""Texts with [MASK] -> batches, outputs -> what may have stood there.

Letters: N texts, S max_seq_length, s the longest row of a batch, P masks in a
text, k candidates. All of it runs in the graph, as in text_signatures.py.
"""

import tensorflow as tf

from bert_tf.export import text_signatures
from tfrecords.text import segments

MASK = "[MASK]"


class MaskedTexts(tf.Module):
    """Texts with [MASK] in them -> a batch that asks for what stood there.

      text                 the [MASK] sat
      input_word_ids       CLS the MASK sat SEP
      masked_lm_positions           2

    Args:
      tokenizer: a BertTokenizer with `kept_tokens` of "[MASK]", or else it
        would take that for text, as the original does.
      max_seq_length: S; a [MASK] beyond it is cut off with the rest.

    Call arguments:
      text: [N] string.

    Returns:
      `schema.ENCODER_INPUTS`, `masked_lm_positions` and `masked_lm_weights`,
      the last two [N, P] with P the most masks in one of these texts.

    Raises:
      ValueError: if the tokenizer does not keep [MASK].
    """

    def __init__(self, tokenizer, max_seq_length: int):
        super().__init__()
        if MASK not in tokenizer.kept_tokens:
            raise ValueError(
                f"The tokenizer keeps {tokenizer.kept_tokens}, so it splits "
                f"{MASK}; make it with kept_tokens=({MASK!r},)."
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length

    def __call__(self, text):
        """Returns the batch; see the class."""
        batch = text_signatures.without_padding(
            segments.pack(
                self.tokenizer(text),
                None,
                self.max_seq_length,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
            )
        )
        is_mask = batch["input_word_ids"] == self.tokenizer.mask_id
        row_and_place = tf.cast(tf.where(is_mask), tf.int32)  # [masks, 2]
        positions = tf.RaggedTensor.from_value_rowids(
            row_and_place[:, 1], row_and_place[:, 0], nrows=tf.size(text)
        )
        weights = tf.ones_like(positions, tf.float32)
        return batch | {
            "masked_lm_positions": positions.to_tensor(),  # [N, P]
            "masked_lm_weights": weights.to_tensor(),
        }


def make_fill(tokenizer, top_k: int):
    """Returns (outputs, batch) -> tokens, probabilities, each [N, P, k].

    Best first. A text with fewer than P masks has "" and 0 at its end.
    """

    def fill(outputs, batch):
        logits = outputs["masked_lm_logits"][..., : tokenizer.vocab_size]
        probabilities, ids = tf.math.top_k(
            tf.nn.softmax(logits), min(top_k, tokenizer.vocab_size)
        )
        tokens = tokenizer.detokenize(tf.reshape(ids, [-1, 1]))
        tokens = tf.reshape(tokens, tf.shape(ids))
        weights = batch["masked_lm_weights"][..., tf.newaxis]  # [N, P, 1]
        return {
            "tokens": tf.where(weights > 0, tokens, ""),
            "probabilities": probabilities * weights,
        }

    return fill
