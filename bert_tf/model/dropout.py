"""Seed, step, layer and example index -> dropout keep mask, without state.

Keras's Dropout is not used: it draws the same mask on every replica, and its
seed state is not saved in checkpoints. Here every bit of a mask has a fixed
position in one Philox stream, computed from seed, step, layer and example. So
a run that is resumed, or uses a different number of replicas, drops the same
values.

TPUs emulate 64-bit integers, and cannot bitcast arrays of them. So only numbers
that determine a position in the stream have 64 bits: step, index, counter.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import keras
import tensorflow as tf

# Values of `alg` of raw_ops.StatelessRandomUniformFullIntV2, by name.
GENERATORS = {
    "stateless": 1,  # Philox, on every device.
    "device": 3,  # Chosen by TensorFlow: on TPUs the generator in hardware.
}
_generator = contextvars.ContextVar("_generator", default="stateless")
_LEVELS = 2**16  # Each value uses 16 random bits: 0.1 becomes 6554 / 65536.
# The upper half of the counter is step * _IDS_PER_STEP + dropout_id: room for
# all dropout layers of a model (three for each encoder layer).
_IDS_PER_STEP = 4096


def make_key(seed, step, first_example) -> tf.Tensor:
    """Returns a batch's position in the random stream: [3] int64.

    Args:
      seed: seed of the run.
      step: optimizer updates already applied.
      first_example: index of the batch's first row in the global batch.
    """
    return tf.stack([tf.cast(x, tf.int64) for x in (seed, step, first_example)])


def draw_key(
    seed_generator: keras.random.SeedGenerator, rows: tf.Tensor
) -> tf.Tensor:
    """Returns a new key, [3] int64, for a call outside of our training loop.

    Every replica has its own copy of the state, and draws the same numbers. So
    that their masks differ, the rows are counted over the replicas. If these
    have as many rows each, they drop what one replica with all rows would.

    Args:
      seed_generator: its state is a seed and the number of draws before.
      rows: number of rows of this replica, a scalar integer.
    """
    seed, draws = tf.unstack(tf.cast(seed_generator.next(), tf.int64))
    context = tf.distribute.get_replica_context()
    replica = context.replica_id_in_sync_group if context else 0
    first_row = tf.cast(replica, tf.int64) * tf.cast(rows, tf.int64)
    return make_key(seed, draws, first_row)


@contextlib.contextmanager
def generator(name: str) -> Iterator[None]:
    """Selects the generator of the masks that are drawn in the context.

    Args:
      name: a key of `GENERATORS`. With "device" the masks of TPUs differ from
        those of other devices, and depend on the number of replicas.
    """
    token = _generator.set(name)
    try:
        yield
    finally:
        _generator.reset(token)


def keep_mask(
    shape: tf.TensorShape | tf.Tensor | tuple,
    rate: float,
    dropout_key: tf.Tensor,
    dropout_id: int,
) -> tf.Tensor:
    """Returns a bool mask of `shape` that is False with probability `rate`.

    Row b of the result depends on `dropout_key[2] + b` and not on the number
    of rows. A Philox block is four uint32, enough for eight values. Each row
    starts at a new block, so its counter follows from its example index.

    Args:
      shape: shape of the mask; the first dimension is examples.
      rate: probability of dropping, in [0, 1), rounded to 1 / 65536.
      dropout_key: [3] int64, from `make_key`.
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
        shape=tf.stack([rows, 4 * blocks]),
        key=tf.cast(seed, tf.uint64)[None],
        counter=tf.cast(counter, tf.uint64),
        alg=GENERATORS[_generator.get()],
        dtype=tf.uint32,
    )
    # Signed, since some devices cannot compare unsigned 16-bit integers.
    levels = tf.reshape(tf.bitcast(bits, tf.int16), [rows, 8 * blocks])
    threshold = round(rate * _LEVELS) - _LEVELS // 2
    return tf.reshape(levels[:, :values] >= threshold, shape)


def kept_scale(rate: float) -> float:
    """Returns the scale of kept values that preserves the mean."""
    return 1.0 / (1.0 - round(rate * _LEVELS) / _LEVELS)


class Dropout(keras.layers.Layer):
    """Dropout with masks that depend only on a key.

    Args:
      rate: probability of dropping a value, in [0, 1).
      dropout_id: number of this layer, unique in its model.

    Call arguments:
      inputs: [B, ...] float.
      training: whether to apply dropout.
      dropout_key: [3] int64, from `make_key`. Without it, as in Keras's
        `fit`, `draw_key` makes one for each call.
    """

    def __init__(self, rate: float, dropout_id: int, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.dropout_id = dropout_id
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def keep_mask(self, shape, training, dropout_key) -> tf.Tensor | None:
        """Returns the bool mask of kept values; None if nothing is dropped."""
        if not training or not self.rate:
            return None
        if dropout_key is None:
            dropout_key = draw_key(self.seed_generator, shape[0])
        return keep_mask(shape, self.rate, dropout_key, self.dropout_id)

    def call(self, inputs, training=None, dropout_key=None):
        keep = self.keep_mask(tf.shape(inputs), training, dropout_key)
        if keep is None:
            return inputs
        return inputs * (tf.cast(keep, inputs.dtype) * kept_scale(self.rate))
