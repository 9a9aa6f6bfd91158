"""Contexts and their endings -> batches, logits -> which ending fits best.

Letters: N contexts, C the most endings of one, M endings in all, S
max_seq_length, s the longest row. All of it runs in the graph, as in
text_signatures.py.
"""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.export import text_signatures
from tfrecords.text import segments


class Choices(tf.Module):
    """Contexts and endings -> one row for each ending that is there.

    Packed as `make_swag_records` does, each row for itself, so that contexts
    may have different numbers of endings.

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.

    Call arguments:
      context: [N] string.
      endings: [N, C] string; "" where a context has fewer than C.

    Returns:
      `schema.ENCODER_INPUTS`, each [M, 1, s]; `places` [M, 2] int64, the row
      and column of each in `endings`; and `endings` as given.
    """

    def __init__(self, tokenizer, max_seq_length: int):
        super().__init__()
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length

    def __call__(self, context, endings):
        """Returns the batch; see the class."""
        tf.debugging.assert_equal(
            tf.shape(endings)[0],
            tf.size(context),
            "endings should have one row for each context.",
        )
        places = tf.where(endings != "")  # [M, 2]
        rows = text_signatures.without_padding(
            segments.pack(
                tf.gather(self.tokenizer(context), places[:, 0]),
                self.tokenizer(tf.gather_nd(endings, places)),
                self.max_seq_length,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
            )
        )
        batch = {name: row[:, tf.newaxis] for name, row in rows.items()}
        return batch | {"places": places, "endings": endings}


def choose(outputs, batch) -> text_signatures.Answers:
    """Returns the best ending of each context, and how likely each is.

    Returns:
      `choice` [N] int32, from 0, or -1 without endings; `ending` [N] string,
      its text; `probabilities` [N, C] float32, 0 where no ending is; `logits`
      [N, C] float32, the lowest number there.
    """
    endings, places = batch["endings"], batch["places"]
    logits = tf.tensor_scatter_nd_update(
        tf.fill(tf.shape(endings), tf.float32.min),
        places,
        outputs["logits"][:, 0],
    )
    is_there = tf.cast(endings != "", tf.float32)
    # With a column more, so that there is one to take of no endings.
    best = tf.argmax(
        tf.pad(logits, [[0, 0], [0, 1]], constant_values=tf.float32.min),
        axis=1,
        output_type=tf.int32,
    )
    has_any = tf.reduce_any(endings != "", axis=1)
    texts = tf.gather(tf.pad(endings, [[0, 0], [0, 1]]), best, batch_dims=1)
    return {
        "choice": tf.where(has_any, best, -1),
        "ending": texts,
        "probabilities": tf.nn.softmax(logits) * is_there,
        "logits": logits,
    }


def of_choices(
    function: Callable[..., text_signatures.Answers],
) -> text_signatures.Function:
    """Returns a function of `context` [N] and `endings` [N, C]."""
    strings = tf.TensorSpec([None, None], tf.string)

    @tf.function(
        input_signature=[text_signatures.STRINGS, strings], autograph=False
    )
    def of_choice(context, endings):
        return function(context, endings)

    return of_choice
