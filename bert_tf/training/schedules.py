"""Step -> learning rate: a linear rise, then a linear fall."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `learning_rate`, then falls linearly to zero.

    Devlin et al. 2018, appendix A.2. As in optimization.py of the original,
    decay counts from step 0, not from the end of warmup, so the rate just
    after warmup is `learning_rate * (1 - num_warmup_steps / num_train_steps)`.

    Args:
      learning_rate: learning rate the decay line starts from, e.g. 1e-4.
      num_train_steps: optimizer steps at which the rate reaches zero.
      num_warmup_steps: optimizer steps, not examples; 0 for no warmup.

    Call arguments:
      step: scalar integer, the number of updates already applied.

    Returns:
      Scalar float32 learning rate.

    Raises:
      ValueError: if `num_warmup_steps` exceeds `num_train_steps`, or either
        or the rate is out of range.
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
    ):
        if learning_rate < 0:
            raise ValueError(
                f"learning_rate={learning_rate} should be 0 or more."
            )
        if num_train_steps < 1 or num_warmup_steps < 0:
            raise ValueError(
                f"num_train_steps={num_train_steps} should be at least 1 and "
                f"num_warmup_steps={num_warmup_steps} at least 0."
            )
        if num_warmup_steps > num_train_steps:
            raise ValueError(
                f"num_warmup_steps={num_warmup_steps} exceeds "
                f"num_train_steps={num_train_steps}; the rate would never "
                "reach its peak. Lower --num_warmup_steps or raise "
                "--num_train_steps."
            )
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        """Returns the learning rate of the update after `step` of them."""
        step = tf.cast(step, tf.float32)
        decay = 1.0 - tf.minimum(step / self.num_train_steps, 1.0)
        warmup = step / max(self.num_warmup_steps, 1)
        share = tf.where(step < self.num_warmup_steps, warmup, decay)
        return self.learning_rate * share

    def get_config(self):
        """Returns what `from_config` takes."""
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }
