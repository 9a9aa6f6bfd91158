"""Gradients -> updated weights: AdamW as the original's, LAMB, the schedule."""

import math
import re
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


def layerwise_factors(paths: Sequence[str], decay: float) -> list[float]:
    """Returns a factor of the learning rate for each weight, less further down.

    Heads and pooler learn at the whole rate, layer i of L at
    decay^(L - i) of it, embeddings at decay^(L + 1) (Howard and Ruder 2018,
    section 3.2, layer by layer; ELECTRA's has one more between head and top
    layer).

    Args:
      paths: of the weights, as Keras gives them.
      decay: in (0, 1]; 1 for the same rate everywhere.

    Raises:
      ValueError: if `decay` is out of its range.
    """
    if not 0.0 < decay <= 1.0:
        raise ValueError(
            f"layerwise_lr_decay={decay} should be above 0 and at most 1, "
            "which is the same rate for all layers."
        )
    layers = [re.search(r"/layer_(\d+)/", path) for path in paths]
    num_layers = 1 + max((int(m[1]) for m in layers if m), default=-1)

    def depth(path, match):
        if "/embeddings/" in path:
            return num_layers + 1
        return num_layers - int(match[1]) if match else 0

    pairs = zip(paths, layers, strict=True)
    return [decay ** depth(path, match) for path, match in pairs]


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
      beta_1: share of the first moment that an update keeps.
      beta_2: share of the second moment that an update keeps.
      epsilon: what is added to the root of the second moment.
      correct_bias: divide the moments by 1 - beta^t, as Kingma and Ba 2015 do.
      layerwise_lr_decay: see `layerwise_factors`.
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
        layerwise_lr_decay: float = 1.0,
    ):
        super().__init__(name="optimizer")
        self.paths = [variable.path for variable in variables]
        self.variables_to_train = [variable.value for variable in variables]
        self.decay_rates = [
            weight_decay_rate if decays(variable) else 0.0
            for variable in variables
        ]
        self.is_spared = [not decays(variable) for variable in variables]
        self.rate_factors = layerwise_factors(self.paths, layerwise_lr_decay)
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
        for i, (variable, gradient, m, v) in enumerate(
            zip(
                self.variables_to_train,
                gradients,
                self.first_moments,
                self.second_moments,
                strict=True,
            )
        ):
            new_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
            new_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
            update = (new_m / corrections[0]) / (
                tf.sqrt(new_v / corrections[1]) + self.epsilon
            )
            if self.decay_rates[i]:
                update += self.decay_rates[i] * variable
            update = self._adapted(update, variable, self.is_spared[i])
            m.assign(new_m)
            v.assign(new_v)
            variable.assign_sub(rate * self.rate_factors[i] * update)
        self.step.assign_add(1)

    def _adapted(self, update, variable, is_spared: bool) -> tf.Tensor:
        """Returns the update, before its learning rate; LAMB scales it."""
        del variable, is_spared
        return update


class Lamb(AdamW):
    """AdamW whose update of each weight matrix is as long as the matrix.

    You et al. 2020 (arXiv 1904.00962), algorithm 2, with phi(x) = x: for very
    large batches. The update, decay in it, is multiplied by the norm of the
    weights over its own norm; by 1 where either is 0. LayerNorm and biases,
    which do not decay, are not scaled either, as in the authors' code.

    Args:
      variables: as for `AdamW`.
      learning_rate: step -> scalar float32.
      correct_bias: as algorithm 2 has it; False leaves it out.
      **kwargs: the other arguments of `AdamW`.
    """

    def __init__(
        self, variables, learning_rate, *, correct_bias: bool = True, **kwargs
    ):
        super().__init__(
            variables, learning_rate, correct_bias=correct_bias, **kwargs
        )

    def _adapted(self, update, variable, is_spared: bool) -> tf.Tensor:
        if is_spared:
            return update
        weight_norm, update_norm = tf.norm(variable), tf.norm(update)
        is_zero = tf.equal(weight_norm * update_norm, 0.0)
        safe_norm = tf.where(is_zero, 1.0, update_norm)
        return update * tf.where(is_zero, 1.0, weight_norm / safe_norm)


# By the name of the flag.
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}
