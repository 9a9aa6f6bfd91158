"""Hidden -> hidden: an LSTM in each direction, between encoder and head.

Letters: B batch, S sequence, H hidden, U units of a direction.
"""

import keras
import tensorflow as tf


class BiLSTM(keras.layers.Layer):
    """Reads the tokens of a text from both ends.

    What section 5.1 of the paper puts on top of a left-to-right model, so that
    each token knows what follows it. Its first weights are Keras's own, and it
    is float32 under every policy, since its state is summed over many steps.
    There is no dropout inside, whose state no checkpoint would hold.

    Args:
      units: U.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32, 1 for a token and 0 for padding, which stands
        after all tokens.

    Returns:
      [B, S, 2 U] float32, of which rows at padding are finite but mean
      nothing; and [B, 2 U] float32, what each direction knows at its end.
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
        # The state stays as it is where there is no token.
        ahead, at_end, _ = self.forward(hidden, mask=is_token)
        back, at_begin, _ = self.backward(hidden, mask=is_token)
        back = tf.reverse(back, [1])
        return tf.concat([ahead, back], -1), tf.concat([at_end, at_begin], -1)
