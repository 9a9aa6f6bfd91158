"""Gradients, some of them slices of tables -> their norm, in one pass."""

from collections.abc import Sequence

import tensorflow as tf


def summed_rows(slices: tf.IndexedSlices) -> tf.Tensor:
    """Returns each row of a table's gradient once, whatever its place.

    A token that occurs twice has two slices; its gradient is their sum, added
    in the order of the tokens, so that it repeats to the bit. Every shape is
    static, which XLA wants.

    Args:
      slices: values [N, H] of N tokens.

    Returns:
      [N, H] of the values' dtype: as many sums as there are different
      indices, then rows of zeros.
    """
    order = tf.argsort(slices.indices, stable=True)  # [N]
    indices = tf.gather(slices.indices, order)
    is_new = tf.cast(indices[1:] != indices[:-1], tf.int32)
    place = tf.concat([tf.zeros_like(order[:1]), tf.cumsum(is_new)], axis=0)
    return tf.math.unsorted_segment_sum(
        tf.gather(slices.values, order), place, tf.shape(order)[0]
    )


def global_norm(
    gradients: Sequence[tf.Tensor | tf.IndexedSlices],
) -> tf.Tensor:
    """Returns the norm of all gradients together: scalar float32.

    Unlike tf.linalg.global_norm it is right for slices that share a row, and
    float32 for float16 too. What overflows is inf, and what is no number
    stays none: whoever calls it finds out by `tf.math.is_finite`.

    Args:
      gradients: of any shapes; they are read once and not written.
    """
    values = [
        summed_rows(g) if isinstance(g, tf.IndexedSlices) else g
        for g in gradients
    ]
    halves = [tf.nn.l2_loss(tf.cast(value, tf.float32)) for value in values]
    return tf.sqrt(2.0 * tf.add_n(halves))
