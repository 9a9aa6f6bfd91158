"""Whether gradients are finite -> the factor of the loss in float16.

Micikevicius et al. 2018 (arXiv 1710.03740), section 3.2: small gradients are
zero in float16 unless the loss is multiplied first. The factor doubles while
all goes well and halves when a gradient overflows, which costs that update.
"""

import tensorflow as tf

FIRST = 2.0**15
GROWTH_STEPS = 2000  # Updates without overflow until the factor doubles.
_LEAST, _MOST = 1.0, 2.0**24


class LossScale(tf.Module):
    """The factor, and what it goes by; every replica keeps the same.

    Make it under the strategy's scope, and let checkpoints keep `state()`.

    Args:
      first: factor to begin with.
      growth_steps: updates without overflow until it doubles.
    """

    def __init__(self, first: float = FIRST, growth_steps: int = GROWTH_STEPS):
        super().__init__(name="loss_scale")
        self.growth_steps = growth_steps
        self.value = tf.Variable(first, trainable=False, dtype=tf.float32)
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64)

    def state(self) -> dict[str, tf.Variable]:
        """Returns what a checkpoint has to keep, by name."""
        return {
            "loss_scale/value": self.value,
            "loss_scale/good_steps": self.good_steps,
            "loss_scale/skipped": self.skipped,
        }

    def update(self, is_finite: tf.Tensor) -> None:
        """Takes note of one step, in the graph of one replica.

        Args:
          is_finite: scalar bool, of the gradients of the global batch.
        """
        good = tf.where(is_finite, self.good_steps + 1, 0)
        grows = good >= self.growth_steps
        larger = tf.where(grows, self.value * 2.0, self.value)
        value = tf.where(is_finite, larger, self.value / 2.0)
        self.value.assign(tf.clip_by_value(value, _LEAST, _MOST))
        self.good_steps.assign(tf.where(grows, tf.zeros_like(good), good))
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))
