"""Texts with [MASK] -> batches; logits -> the likeliest tokens per [MASK].

Shapes: N texts, S max_seq_length, s length of the longest row in a batch, P
maximum masks per text, k candidates.
"""

import tensorflow as tf

from bert_tf.serving.answers import text_signatures
from tfrecords.text.vocab import MASK


def pack_masked(
    tokenizer, max_seq_length: int, text: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the batch of texts with [MASK], and the positions to predict.

      text                 the [MASK] sat
      input_word_ids       CLS the MASK sat SEP
      masked_lm_positions           2

    Args:
      tokenizer: a BertTokenizer with "[MASK]" in `kept_tokens`; without it the
        string would be split like other text, as in the original.
      max_seq_length: S; a [MASK] beyond it is cut off.
      text: [N] string.

    Returns:
      `schema.ENCODER_INPUTS`, each [N, s] int32; `masked_lm_positions` [N, P]
      int32 and `masked_lm_weights` [N, P] float32, both padded with 0.

    Raises:
      ValueError: if the tokenizer does not keep [MASK].
    """
    if MASK not in tokenizer.kept_tokens:
        raise ValueError(
            f"The tokenizer keeps {tokenizer.kept_tokens}, so it splits "
            f"{MASK}; create it with kept_tokens=({MASK!r},)."
        )
    batch = text_signatures.pack(tokenizer, max_seq_length, tokenizer(text))
    # Padding has the id 0, and in some vocabularies, such as BETO's, so has
    # [MASK].
    is_mask = batch["input_word_ids"] == tokenizer.mask_id
    is_mask &= batch["input_mask"] == 1
    rows, positions = tf.unstack(tf.cast(tf.where(is_mask), tf.int32), axis=1)
    positions = tf.RaggedTensor.from_value_rowids(
        positions, rows, nrows=tf.size(text)
    )
    weights = tf.ones_like(positions, tf.float32)
    return batch | {
        "masked_lm_positions": positions.to_tensor(),  # [N, P]
        "masked_lm_weights": weights.to_tensor(),
    }


def fill(outputs, batch, *, tokenizer, top_k: int) -> text_signatures.Answers:
    """Returns `tokens` string and `probabilities` float32, each [N, P, k].

    The best candidate is first. Rows of texts with fewer than P masks are
    padded with "" and 0.
    """
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
