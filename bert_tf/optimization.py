"""Gradients -> updated weights: AdamW and its schedule, as the original's."""

import math
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

ADAM_EPSILON = 1e-6  # optimization.py: create_optimizer.
BETA_1 = 0.9  # Appendix A.2.
BETA_2 = 0.999
WEIGHT_DECAY_RATE = 0.01

# Last parts of the paths of weights that do not decay: biases, and gamma and
# beta of LayerNorm (optimization.py: exclude_from_weight_decay).
_UNDECAYED = ("bias", "gamma", "beta")


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


def decays(variable: keras.Variable) -> bool:
    """Returns whether weight decay applies: not to LayerNorm and biases."""
    return variable.path.split("/")[-1] not in _UNDECAYED


class AdamW(tf.Module):
    """Adam with decoupled weight decay, by default without bias correction.

    optimization.py: AdamWeightDecayOptimizer. Its slots are plain variables
    that each replica updates by itself from gradients summed before, so no
    replica ever waits for another here. Keras's AdamW corrects the bias of
    the moments; the original does not.

    Args:
      variables: what to train; one gradient for each goes to `apply`.
      learning_rate: step -> scalar float32.
      weight_decay_rate: share of a weight, times the learning rate, that an
        update takes away; not from LayerNorm and biases.
      correct_bias: divide the moments by 1 - beta^t, as Kingma and Ba 2015 do.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        learning_rate: Callable[[tf.Tensor], tf.Tensor],
        *,
        weight_decay_rate: float = WEIGHT_DECAY_RATE,
        beta_1: float = BETA_1,
        beta_2: float = BETA_2,
        epsilon: float = ADAM_EPSILON,
        correct_bias: bool = False,
    ):
        super().__init__(name="adamw")
        self.paths = [variable.path for variable in variables]
        self.variables_to_train = [variable.value for variable in variables]
        self.decay_rates = [
            weight_decay_rate if decays(variable) else 0.0
            for variable in variables
        ]
        self.learning_rate = learning_rate
        self.beta_1, self.beta_2 = beta_1, beta_2
        self.epsilon = epsilon
        self.correct_bias = correct_bias
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.first_moments = [self._slot(v, "m") for v in variables]
        self.second_moments = [self._slot(v, "v") for v in variables]

    @staticmethod
    def _slot(variable: keras.Variable, name: str) -> tf.Variable:
        return tf.Variable(
            tf.zeros(variable.shape, tf.float32),
            trainable=False,
            name=f"{name}/{variable.path}",
        )

    def slots(self) -> dict[str, tf.Variable]:
        """Returns every slot by name: `m/` or `v/` and its weight's path."""
        return {
            f"{kind}/{path}": slot
            for kind, slots in (
                ("m", self.first_moments),
                ("v", self.second_moments),
            )
            for path, slot in zip(self.paths, slots, strict=True)
        }

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Updates every variable once, in the graph of one replica.

        Args:
          gradients: dense, in the order of `variables`, already summed over
            replicas and clipped.
        """
        rate = self.learning_rate(self.step)
        corrections = 1.0, 1.0
        if self.correct_bias:
            updates = tf.cast(self.step + 1, tf.float32)
            # 1 - beta^t without the loss of digits at small t.
            corrections = [
                -tf.math.expm1(updates * math.log(beta))
                for beta in (self.beta_1, self.beta_2)
            ]
        # Written out, since TensorFlow's own Adam kernel takes 1 - 0.999 in
        # float32, which is 0.00099999.
        for variable, gradient, m, v, decay_rate in zip(
            self.variables_to_train,
            gradients,
            self.first_moments,
            self.second_moments,
            self.decay_rates,
            strict=True,
        ):
            new_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
            new_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
            update = (new_m / corrections[0]) / (
                tf.sqrt(new_v / corrections[1]) + self.epsilon
            )
            if decay_rate:
                update += decay_rate * variable
            m.assign(new_m)
            v.assign(new_v)
            variable.assign_sub(rate * update)
        self.step.assign_add(1)
