"""Hidden states of tokens -> those of a bidirectional LSTM."""

import keras
import tensorflow as tf


class BiLSTM(keras.layers.Layer):
    """Bidirectional LSTM over the tokens of a text.

    Section 5.1 of the paper adds one to a left-to-right model, to give each
    token its right context. It uses Keras's default initializers, computes in
    float32 under every policy, since its state accumulates over many steps,
    and has no dropout, whose state would not be saved in checkpoints.

    Args:
      units: U.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32, 1 for a token and 0 for padding, which must
        follow all tokens.

    Returns:
      [B, S, 2 U] float32, outputs of both directions; values at padding are
      finite but meaningless. And [B, 2 U] float32, the final output of each
      direction.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.forward, self.backward = (
            keras.layers.LSTM(
                units,
                return_sequences=True,
                return_state=True,
                go_backwards=name == "backward",
                name=name,
                dtype="float32",
            )
            for name in ("forward", "backward")
        )

    def build(self, hidden_shape, input_mask_shape=None):
        for side in (self.forward, self.backward):
            side.build(hidden_shape)

    def call(self, hidden, input_mask):
        hidden = tf.cast(hidden, tf.float32)
        is_token = tf.cast(input_mask, tf.bool)
        # Padding leaves the state unchanged.
        forward, last, _ = self.forward(hidden, mask=is_token)
        backward, first, _ = self.backward(hidden, mask=is_token)
        backward = tf.reverse(backward, [1])
        outputs = tf.concat([forward, backward], -1)
        return outputs, tf.concat([last, first], -1)
