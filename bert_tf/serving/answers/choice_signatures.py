"""Contexts and their endings -> batches; logits -> the best ending of each.

Shapes: N contexts, C maximum endings per context, M endings in total, S
max_seq_length, s length of the longest row in a batch.
"""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.serving.answers import text_signatures


def pack_choices(
    tokenizer, max_seq_length: int, context: tf.Tensor, endings: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the batch of contexts and endings, with a row for each ending.

    Rows are packed as in `make_swag_records`, but each is an example with one
    choice, so that contexts may have different numbers of endings.

      context         The cat sat.    It rained.
      endings         on   ""         all  day
      rows            CLS the cat sat . SEP on SEP
                      CLS it rained . SEP all SEP
                      CLS it rained . SEP day SEP
      indices         [0, 0] [1, 0] [1, 1]

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.
      context: [N] string.
      endings: [N, C] string, padded with "".

    Returns:
      `schema.ENCODER_INPUTS`, each [M, 1, s] int32; `indices` [M, 2] int64,
      row and column of each ending in `endings`; and `endings`.
    """
    endings = text_signatures.check_rows(
        endings, context, "endings should have one row for each context."
    )
    indices = tf.where(endings != "")  # [M, 2]
    contexts, present = tokenizer.tokenize_each(
        context, tf.gather_nd(endings, indices)
    )
    rows = text_signatures.pack(
        tokenizer, max_seq_length, tf.gather(contexts, indices[:, 0]), present
    )
    batch = {name: row[:, tf.newaxis] for name, row in rows.items()}
    return batch | {"indices": indices, "endings": endings}


def choose(outputs, batch) -> text_signatures.Answers:
    """Returns the best ending of each context, and the scores of all endings.

    Returns:
      `choice` [N] int32, from 0, or -1 if there are no endings; `ending` [N]
      string, its text; `probabilities` and `logits` [N, C] float32, for missing
      endings 0 and the lowest float.
    """
    endings, indices = batch["endings"], batch["indices"]
    logits = tf.tensor_scatter_nd_update(
        tf.fill(tf.shape(endings), tf.float32.min),
        indices,
        outputs["logits"][:, 0],
    )
    is_ending = endings != ""
    # An extra column, as there may be no endings.
    best = tf.argmax(
        tf.pad(logits, [[0, 0], [0, 1]], constant_values=tf.float32.min),
        axis=1,
        output_type=tf.int32,
    )
    texts = tf.gather(tf.pad(endings, [[0, 0], [0, 1]]), best, batch_dims=1)
    return {
        "choice": tf.where(tf.reduce_any(is_ending, axis=1), best, -1),
        # Clients decode it; invalid bytes are U+FFFD, as in other answers.
        "ending": tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"),
        "probabilities": tf.nn.softmax(logits) * tf.cast(is_ending, tf.float32),
        "logits": logits,
    }


def of_choices(
    function: Callable[..., text_signatures.Answers],
) -> text_signatures.Function:
    """Returns a signature of `context` [N] and `endings` [N, C] string."""
    strings = tf.TensorSpec([None, None], tf.string)

    @tf.function(
        input_signature=[text_signatures.STRINGS, strings], autograph=False
    )
    def of_choice(context, endings):
        return function(context, endings)

    return of_choice
