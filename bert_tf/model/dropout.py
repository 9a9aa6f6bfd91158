"""Seed, step, layer and example -> keep mask, with no state to save.

By hand, since Keras draws the same dropout mask on every replica and keeps
seeds that no checkpoint holds. Here each bit of a mask has a position in one
endless Philox stream, computed from where the bit is used. So a run that is
stopped and resumed, or spread over other replicas, drops the very same values.
"""

import keras
import tensorflow as tf

_PHILOX = 1  # The `alg` of raw_ops.StatelessRandomUniformFullIntV2.
_LEVELS = 2**16  # A decision takes 16 bits: 0.1 becomes 6554 / 65536.
# Steps lie this far apart in the stream's upper half, so that every dropout
# layer of a model (three a layer) has a number of its own in between.
_IDS_PER_STEP = 4096


def make_key(seed, step, first_example) -> tf.Tensor:
    """Returns where a batch's masks lie in the stream: [3] int64.

    Args:
      seed: of the run.
      step: optimizer updates already applied.
      first_example: index of the batch's first row in the global batch.
    """
    return tf.stack([tf.cast(x, tf.int64) for x in (seed, step, first_example)])


def keep_mask(
    shape: tf.TensorShape | tf.Tensor | tuple,
    rate: float,
    dropout_key: tf.Tensor,
    dropout_id: int,
) -> tf.Tensor:
    """Returns which values stay: bool of `shape`, False with chance `rate`.

    Row b of the result depends on `dropout_key[2] + b` and not on the number
    of rows. A Philox block is two uint64, that is eight decisions: each row
    starts on a block of its own, and counting blocks counts rows.

    Args:
      shape: the mask's; the first dimension is the examples.
      rate: share to drop, in [0, 1), rounded to 1 / 65536.
      dropout_key: [3] int64 of `make_key`.
      dropout_id: number of the dropout layer in its model.
    """
    rows, row_shape = shape[0], shape[1:]
    values = tf.reduce_prod(row_shape)
    blocks = (values + 7) // 8
    seed, step, first_example = tf.unstack(dropout_key)
    counter = tf.stack(
        [
            first_example * tf.cast(blocks, tf.int64),
            step * _IDS_PER_STEP + dropout_id,
        ]
    )
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=tf.stack([rows, 2 * blocks]),
        key=tf.cast(seed, tf.uint64)[None],
        counter=tf.cast(counter, tf.uint64),
        alg=_PHILOX,
        dtype=tf.uint64,
    )
    # Signed, since not every device compares unsigned 16-bit numbers.
    levels = tf.reshape(tf.bitcast(bits, tf.int16), [rows, 8 * blocks])
    threshold = round(rate * _LEVELS) - _LEVELS // 2
    return tf.reshape(levels[:, :values] >= threshold, shape)


def kept_scale(rate: float) -> float:
    """Returns the factor of kept values that preserves the mean."""
    return 1.0 / (1.0 - round(rate * _LEVELS) / _LEVELS)


class Dropout(keras.layers.Layer):
    """Drops values of its input and scales up the others.

    Args:
      rate: share to drop, in [0, 1).
      dropout_id: number of this layer in its model; no two may share one.

    Call arguments:
      inputs: [B, ...] float.
      training: whether to drop at all.
      dropout_key: [3] int64 of `make_key`. Without it, as in Keras's
        own `fit`, a Keras seed generator gives a new key for each call.
    """

    def __init__(self, rate: float, dropout_id: int, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.dropout_id = dropout_id
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def keep_mask(self, shape, training, dropout_key) -> tf.Tensor | None:
        """Returns which values of a tensor stay; None if all of them do."""
        if not training or not self.rate:
            return None
        if dropout_key is None:
            low, high = tf.unstack(tf.cast(self.seed_generator.next(), "int64"))
            dropout_key = make_key(low, high, 0)
        return keep_mask(shape, self.rate, dropout_key, self.dropout_id)

    def call(self, inputs, training=None, dropout_key=None):
        keep = self.keep_mask(tf.shape(inputs), training, dropout_key)
        if keep is None:
            return inputs
        return inputs * (tf.cast(keep, inputs.dtype) * kept_scale(self.rate))
