"""Texts -> batches, every layer's outputs -> one vector for each text.

Letters: N texts, s tokens of the longest, H hidden, K chosen layers. All of it
runs in the graph, as in text_signatures.py.
"""

from collections.abc import Sequence

import tensorflow as tf

POOLINGS = ("cls", "mean")


def make_embed(pooling: str, layers: Sequence[int]):
    """Returns (encoder outputs, batch) -> `embedding` [N, K H] float32.

    Layers stand one after the other, in the order given.

    Args:
      pooling: "cls", the vector at [CLS]; "mean", that of all tokens without
        padding, [CLS] and [SEP] among them, as sentence-transformers has it.
      layers: K numbers from `layer_outputs.parse`.
    """

    def embed(outputs, batch):
        hidden = [outputs.encoder_outputs[i] for i in layers]
        if pooling == "cls":
            hidden = [x[:, 0] for x in hidden]  # [N, H]
        hidden = tf.cast(tf.concat(hidden, axis=-1), tf.float32)
        if pooling == "mean":
            is_token = tf.cast(batch["input_mask"], tf.float32)  # [N, s]
            lengths = tf.reduce_sum(is_token, axis=1, keepdims=True)
            hidden = tf.einsum("nsh,ns->nh", hidden, is_token) / lengths
        return {"embedding": hidden}

    return embed
