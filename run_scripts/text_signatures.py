"""Strings -> batches, outputs -> answers: the text side of an export.

Letters: N texts, S max_seq_length, s the longest row of a batch, P masks in a
text, C classes, k candidates.

All of it runs in the graph and is saved with the model.
"""

from collections.abc import Mapping

import tensorflow as tf

from bert_tf import export
from tfrecords import segments

MASK = "[MASK]"


def _without_padding(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Cuts off columns that are padding in every row: most texts are short."""
    used = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
    used = tf.maximum(used, 1)  # The maximum of no rows is no length.
    return {name: tensor[:, :used] for name, tensor in batch.items()}


class Pairs(tf.Module):
    """One text or two -> a batch, packed as `make_glue_records` does.

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.

    Call arguments:
      text_a: [N] string.
      text_b: [N] string, "" for none.

    Returns:
      `schema.ENCODER_INPUTS`, each [N, s] with s the longest row's, up to S.
    """

    def __init__(self, tokenizer, max_seq_length: int):
        super().__init__()
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length

    def __call__(self, text_a, text_b):
        """Returns the batch; see the class."""
        return _without_padding(
            segments.pack(
                self.tokenizer(text_a),
                self.tokenizer(text_b),
                self.max_seq_length,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
            )
        )


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
        batch = _without_padding(
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


def make_classify(labels: list[str]):
    """Returns (outputs, batch) -> label [N], probabilities, logits [N, C]."""

    def classify(outputs, batch):
        best = tf.argmax(outputs["logits"], axis=-1)
        return {
            "label": tf.gather(tf.constant(labels), best),
            "probabilities": tf.nn.softmax(outputs["logits"]),
            "logits": outputs["logits"],
        }

    return classify


def score(outputs, batch):
    """Returns the score [N]."""
    return {"score": outputs["predictions"]}


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


def make_encode(has_pooler: bool):
    """Returns (outputs, batch) -> encoder outputs.

    With `input_mask`, to tell which are padding.
    """

    def encode(outputs, batch):
        values = export.encoder_interface(outputs, has_pooler)
        return {"input_mask": batch["input_mask"], **export.flatten(values)}

    return encode
