"""Texts with [MASK] -> batches, logits -> the most likely tokens there.

Letters: N texts, S max_seq_length, s the longest row of a batch, P most masks
of a text, V vocabulary, k candidates.
"""

import tensorflow as tf

from bert_tf.export import text_signatures

MASK = "[MASK]"


class MaskedTexts(tf.Module):
    """Texts with [MASK] -> a batch whose masked positions are these.

      text                 the [MASK] sat
      input_word_ids       CLS the MASK sat SEP
      masked_lm_positions           2

    Args:
      tokenizer: a BertTokenizer with "[MASK]" in `kept_tokens`; otherwise it
        reads that as text, as the original does.
      max_seq_length: S; a [MASK] beyond it is cut off.

    Call arguments:
      text: [N] string.

    Returns:
      `schema.ENCODER_INPUTS`, each [N, s] int32; `masked_lm_positions` [N, P]
      int32 and `masked_lm_weights` [N, P] float32, both 0 after the last.

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
        batch = text_signatures.pack(
            self.tokenizer, self.max_seq_length, self.tokenizer(text)
        )
        is_mask = batch["input_word_ids"] == self.tokenizer.mask_id
        rows, positions = tf.unstack(
            tf.cast(tf.where(is_mask), tf.int32), axis=1
        )
        positions = tf.RaggedTensor.from_value_rowids(
            positions, rows, nrows=tf.size(text)
        )
        weights = tf.ones_like(positions, tf.float32)
        return batch | {
            "masked_lm_positions": positions.to_tensor(),  # [N, P]
            "masked_lm_weights": weights.to_tensor(),
        }


def make_fill(tokenizer, top_k: int):
    """Returns (outputs, batch) -> `tokens`, `probabilities`, each [N, P, k].

    The best candidate comes first. Where a text has fewer than P masks, they
    are "" and 0.

    Args:
      tokenizer: a BertTokenizer.
      top_k: k.
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
