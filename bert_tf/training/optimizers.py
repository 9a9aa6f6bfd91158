"""Gradients -> updated weights: AdamW as the original's, LAMB, the schedule."""

import math
import re
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.training.config import TrainingConfig

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
        """Returns the arguments of `from_config`."""
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


def _kernel_scale(beta_2: float) -> float:
    """Returns a factor of gradients that makes TensorFlow's kernel exact.

    It takes 1 - beta_2 in float32, which is 0.00099998713 for 0.999, so its
    second moments would be too small by that. The factor makes up for it; the
    rate is divided by it, since the first moments grow with it (by 6e-6).
    """
    kernels = 1.0 - float(np.float32(beta_2))
    return math.sqrt((1.0 - beta_2) / kernels)


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
        self._kernel_scale = _kernel_scale(beta_2)
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

    def apply(
        self, gradients: Sequence[tf.Tensor], scale: tf.Tensor | None = None
    ) -> None:
        """Updates every variable once, in the graph of one replica.

        Args:
          gradients: dense, in the order of `variables`, already summed over
            replicas.
          scale: scalar float32 to multiply each of them by, such as the
            share of them that clipping leaves; None for 1.
        """
        rate = self.learning_rate(self.step)
        kernel = self._kernel()
        scale = self._kernel_scale * (1.0 if scale is None else scale)
        for i, gradient in enumerate(gradients):
            self._update(
                i, gradient * scale, rate * self.rate_factors[i], kernel
            )
        self.step.assign_add(1)

    def skip(self) -> None:
        """Counts an update without doing it: the next batch is another one."""
        self.step.assign_add(1)

    def _kernel(self) -> Callable[..., None]:
        """Returns (variable, m, v, rate, gradient) -> Adam's update of three.

        In one pass over memory, where TensorFlow's other ops take a dozen:
        the moments move on, and rate * m / (root of v + epsilon), corrected
        for bias where that is wanted, is taken from the variable.
        """
        factor, root = 1.0, 1.0
        if self.correct_bias:
            updates = tf.cast(self.step + 1, tf.float32)
            # 1 - beta^t without the loss of digits at small t.
            factor, squares = (
                -tf.math.expm1(updates * math.log(beta))
                for beta in (self.beta_1, self.beta_2)
            )
            root = tf.sqrt(squares)
        factor *= self._kernel_scale

        def kernel(variable, m, v, rate, gradient):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=0.0,  # Bias is corrected by rate and epsilon.
                beta2_power=0.0,
                lr=rate * (root / factor),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon * root,
                grad=gradient,
            )

        return kernel

    def _update(self, i: int, gradient, rate, kernel) -> None:
        """Updates weight i."""
        variable = self.variables_to_train[i]
        moments = self.first_moments[i], self.second_moments[i]
        if not self.decay_rates[i]:
            kernel(variable, *moments, rate, gradient)
            return
        # The variable briefly holds its own change. Decay taken from the
        # weight by itself would be lost in its last digit: it is 1e-7 of it.
        weight = tf.convert_to_tensor(variable)
        variable.assign(-rate * self.decay_rates[i] * weight)
        kernel(variable, *moments, rate, gradient)
        variable.assign(weight + variable)


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

    def _update(self, i: int, gradient, rate, kernel) -> None:
        """Updates weight i."""
        if self.is_spared[i]:
            super()._update(i, gradient, rate, kernel)
            return
        variable = self.variables_to_train[i]
        weight = tf.convert_to_tensor(variable)
        variable.assign(-self.decay_rates[i] * weight)
        kernel(
            variable,
            self.first_moments[i],
            self.second_moments[i],
            1.0,
            gradient,
        )
        change = tf.convert_to_tensor(variable)
        variable.assign(weight + rate * _trust(weight, change) * change)


def _trust(weight: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
    """Returns the norm of a weight over that of its change; 1 for none."""
    # One pass over memory each, where tf.norm takes two.
    norm, change_norm = (
        tf.sqrt(2.0 * tf.nn.l2_loss(value)) for value in (weight, change)
    )
    is_zero = tf.equal(norm * change_norm, 0.0)
    safe_norm = tf.where(is_zero, 1.0, change_norm)
    return tf.where(is_zero, 1.0, norm / safe_norm)


OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


def make_optimizer(
    config: TrainingConfig,
    variables: Sequence[keras.Variable],
    learning_rate: Callable[[tf.Tensor], tf.Tensor],
) -> AdamW:
    """Returns a new optimizer; to be called under the strategy's scope.

    Args:
      config: reads `optimizer`, `weight_decay_rate`, `correct_bias` and
        `layerwise_lr_decay`.
      variables: what to train.
      learning_rate: step -> scalar float32.
    """
    settings = {
        "weight_decay_rate": config.weight_decay_rate,
        "layerwise_lr_decay": config.layerwise_lr_decay,
    }
    if config.correct_bias is not None:
        settings["correct_bias"] = config.correct_bias
    return OPTIMIZERS[config.optimizer](variables, learning_rate, **settings)
