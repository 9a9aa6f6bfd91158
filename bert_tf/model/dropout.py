"""(seed, step, site, example) -> keep mask, with no state to save.

Keras draws the same dropout mask on every replica and keeps seeds that no
checkpoint holds. Here each bit of a mask has a place in one endless Philox
stream, found from where it is used. So a run stopped and started again, or
spread over other replicas, drops the very same values.
"""

import keras
import tensorflow as tf

_PHILOX = 1  # The `alg` of raw_ops.StatelessRandomUniformFullIntV2.
_LEVELS = 2**16  # A decision takes 16 bits: 0.1 becomes 6554 / 65536.
# Steps lie this far apart in the stream's upper half, so that every dropout
# layer of a model (three a layer) has a number of its own in between.
_SITES_PER_STEP = 4096


def place(seed, step, first_example) -> tf.Tensor:
    """Returns where a batch's masks lie in the stream: [3] int64.

    Args:
      seed: of the run.
      step: optimizer updates already applied.
      first_example: the place of the batch's first row in the global batch.
    """
    return tf.stack([tf.cast(x, tf.int64) for x in (seed, step, first_example)])


def keep_mask(
    shape: tf.TensorShape | tf.Tensor | tuple,
    rate: float,
    place: tf.Tensor,
    site: int,
) -> tf.Tensor | None:
    """Returns which values stay: bool of `shape`, False with chance `rate`.

    None where `rate` is 0 and all of them stay.

    Row b of the result depends on `place[2] + b` and not on the number of
    rows. A Philox block is two uint64, that is eight decisions: each row
    starts on a block of its own, and counting blocks counts rows.

    Args:
      shape: the mask's; the first dimension is the examples.
      rate: share to drop, in [0, 1), rounded to 1 / 65536.
      place: [3] int64 as from `place`.
      site: number of the dropout layer in its model.
    """
    if not rate:
        return None
    rows, row_shape = shape[0], shape[1:]
    values = tf.reduce_prod(row_shape)
    blocks = (values + 7) // 8
    seed, step, first_example = tf.unstack(place)
    counter = tf.stack(
        [
            first_example * tf.cast(blocks, tf.int64),
            step * _SITES_PER_STEP + site,
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
    """Returns what kept values are multiplied by, so that the mean stays."""
    return 1.0 / (1.0 - round(rate * _LEVELS) / _LEVELS)


class Dropout(keras.layers.Layer):
    """Drops values of its input and scales up the others.

    Args:
      rate: share to drop, in [0, 1).
      site: number of this layer in its model; no two may share one.

    Call arguments:
      inputs: [B, ...] float.
      training: whether to drop at all.
      place: [3] int64 of `dropout.place`. Without it, as inside somebody
        else's `fit`, masks come from a Keras seed generator.
    """

    def __init__(self, rate: float, site: int, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.site = site
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def call(self, inputs, training=None, place=None):
        if not training or not self.rate:
            return inputs
        if place is None:
            return keras.random.dropout(
                inputs, self.rate, seed=self.seed_generator
            )
        keep = keep_mask(tf.shape(inputs), self.rate, place, self.site)
        return inputs * (tf.cast(keep, inputs.dtype) * kept_scale(self.rate))
