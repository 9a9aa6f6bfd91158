"""Gradients -> their norm, in one pass."""

from collections.abc import Sequence

import tensorflow as tf


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the norm of all gradients together: scalar float32.

    Unlike tf.linalg.global_norm it is float32 for float16 too. What overflows
    is inf, and what is no number stays none: whoever calls it finds out by
    `tf.math.is_finite`.

    Args:
      gradients: of any shapes; they are read once and not written. Slices of a
        table are to be made whole first, so that two of one row are summed
        before they are measured; keeping them apart saved 0.4 % of a step.
    """
    halves = [tf.nn.l2_loss(tf.cast(value, tf.float32)) for value in gradients]
    return tf.sqrt(2.0 * tf.add_n(halves))
