"""Gradients -> updated weights: the original's AdamW, LAMB, Muon; schedules.

`AdamWeightDecay` is that AdamW as an optimizer of Keras.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import LEARNING_RATE_SCHEDULES

if TYPE_CHECKING:  # An optimizer alone needs no settings of a run.
    from bert_tf.training.config import TrainingConfig

# Appendix A.2: decay of weights, multiplied by the learning rate, and of the
# first moment.
_WEIGHT_DECAY, _BETA_1 = 0.01, 0.9
# Added to the square root of the second moment; optimization.py:
# create_optimizer.
_EPSILON = 1e-6
# Of the reference implementation of Jordan et al. 2024.
MUON_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_MUON_ITERATIONS = 5
_MUON_EPSILON = 1e-7

# Names of weights without weight decay: biases, and gamma and beta of LayerNorm
# (optimization.py: exclude_from_weight_decay).
_UNDECAYED = ("bias", "gamma", "beta")


# The original name: .keras files with an optimizer have it.
@keras.saving.register_keras_serializable("bert_tf", "WarmupLinearDecay")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warmup, then decay: by default linear, to zero.

    Devlin et al. 2018, appendix A.2. With W warmup steps of T steps in all, the
    rate after t updates is peak * t / W in the warmup, and then

      peak * (1 - t / T)          linear
      peak                        constant
      peak * (1 + cos(pi p)) / 2  cosine
      peak * (1 - p)              one_cycle

    where p = (t - W) / (T - W). As in optimization.py of the original, linear
    decay counts from step 0, so that the rate just after the warmup is below
    the peak; one_cycle counts from its end. one_cycle with W = T / 2 is the
    triangle of Geiping and Goldstein 2022 (arXiv 2212.14034), section 4.3.

    Args:
      learning_rate: the peak, e.g. 1e-4.
      num_train_steps: T, optimizer steps at which the decay ends.
      num_warmup_steps: W, optimizer steps, not examples; 0 for no warmup.
      schedule: one of `config.LEARNING_RATE_SCHEDULES`.

    Call arguments:
      step: scalar integer, t, the number of updates already applied.

    Returns:
      Scalar float32 learning rate.

    Raises:
      ValueError: if `num_warmup_steps` exceeds `num_train_steps`, or an
        argument is out of range.

    Example:
      >>> rate = bert_tf.WarmupDecay(1e-4, 1000, num_warmup_steps=100)
      >>> [round(float(rate(step)), 6) for step in (0, 50, 100, 550, 1000)]
      [0.0, 5e-05, 9e-05, 4.5e-05, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        schedule: str = "linear",
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
                "reach its peak. Lower --num_warmup_steps, or train for more "
                "steps."
            )
        if schedule not in LEARNING_RATE_SCHEDULES:
            raise ValueError(
                f"learning_rate_schedule={schedule} should be one of "
                f"{', '.join(LEARNING_RATE_SCHEDULES)}."
            )
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.schedule = schedule

    def __call__(self, step):
        """Returns the learning rate of the next update after `step` updates."""
        step = tf.cast(step, tf.float32)
        decayed = self.learning_rate * self._decay(step)
        warmup = self.learning_rate * (step / max(self.num_warmup_steps, 1))
        return tf.where(step < self.num_warmup_steps, warmup, decayed)

    def _decay(self, step):
        """Returns the part of the peak that is left after the warmup."""
        if self.schedule == "constant":
            return 1.0
        if self.schedule == "linear":
            return 1.0 - tf.minimum(step / self.num_train_steps, 1.0)
        steps = max(self.num_train_steps - self.num_warmup_steps, 1)
        part = tf.minimum((step - self.num_warmup_steps) / steps, 1.0)
        if self.schedule == "cosine":
            return 0.5 * (1.0 + tf.cos(math.pi * part))
        return 1.0 - part

    def get_config(self):
        """Returns the dict for `from_config`."""
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "schedule": self.schedule,
        }


def make_schedule(
    config: "TrainingConfig", num_train_steps: int, num_warmup_steps: int
) -> WarmupDecay:
    """Returns the schedule of a run; raises ValueError as `WarmupDecay`."""
    return WarmupDecay(
        config.learning_rate,
        num_train_steps,
        num_warmup_steps,
        config.learning_rate_schedule,
    )


def decays(variable: keras.Variable) -> bool:
    """Returns whether weight decay applies: False for LayerNorm and biases."""
    return variable.path.split("/")[-1] not in _UNDECAYED


def _slot(variable: keras.Variable, name: str) -> tf.Variable:
    """Returns a variable of zeros in the shape of a weight."""
    return tf.Variable(
        tf.zeros(variable.shape, tf.float32),
        trainable=False,
        name=f"{name}/{variable.path}",
    )


def _kernel_factor(beta_2: float) -> float:
    """Returns a gradient factor that makes TensorFlow's kernel exact.

    The kernel computes 1 - beta_2 in float32, 0.00099998713 for 0.999, so its
    second moments would be slightly too small. The factor corrects this. It
    also scales the first moments (by 1 + 6e-6), so the rate is divided by it.
    """
    rounded = 1.0 - float(np.float32(beta_2))
    return math.sqrt((1.0 - beta_2) / rounded)


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the global norm of all gradients: scalar float32.

    Unlike tf.linalg.global_norm it computes in float32 for float16 too. NaN
    propagates, and an overflow gives inf.

    Args:
      gradients: dense tensors of any shapes.
    """
    halves = [tf.nn.l2_loss(tf.cast(value, tf.float32)) for value in gradients]
    return tf.sqrt(2.0 * tf.add_n(halves))


def all_reduce_sum(tensors):
    """Returns sums over all replicas; called in replica context."""
    replica = tf.distribute.get_replica_context()
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def sum_and_clip(gradients, clip_norm, loss_scale):
    """Returns gradients summed over replicas, their norm, a gradient factor.

    The optimizer multiplies gradients by this factor, which clips them and
    removes the loss scale. It is computed from the norm after the sum, so the
    update does not depend on the number of replicas.
    """
    gradients = all_reduce_sum(gradients)
    norm = global_norm(gradients) / loss_scale
    return gradients, norm, clip_norm / tf.maximum(norm, clip_norm) / loss_scale


class AdamW(tf.Module):
    """Adam with decoupled weight decay, by default without bias correction.

    optimization.py: AdamWeightDecayOptimizer. The gradients are already summed
    over replicas, so each replica updates its own copy of the slots without
    communication. Keras's AdamW corrects the bias of the moments; the original
    does not.

    Args:
      variables: weights to train.
      learning_rate: step -> scalar float32.
      beta_2: decay rate of the second moment.
      correct_bias: whether to divide the moments by 1 - beta^t, as in Kingma
        and Ba 2015.
      ema_decay: decay of a moving average of each weight; None for none. In
        the first steps t it is at most (1 + t) / (10 + t), as in TensorFlow's
        ExponentialMovingAverage, so that the initial weights are forgotten.
      make_slot: weight, name -> variable of zeros in its shape.

    Attributes:
      averages: the moving averages, in the order of `variables`; [] without.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        learning_rate: Callable[[tf.Tensor], tf.Tensor],
        *,
        beta_2: float = 0.999,
        correct_bias: bool = False,
        ema_decay: float | None = None,
        make_slot: Callable[[keras.Variable, str], tf.Variable] = _slot,
    ):
        super().__init__(name="optimizer")
        self.paths = [variable.path for variable in variables]
        self.variables_to_train = [variable.value for variable in variables]
        self.decay_rates = [
            _WEIGHT_DECAY if decays(variable) else 0.0 for variable in variables
        ]
        self.learning_rate = learning_rate
        self.beta_1, self.beta_2 = _BETA_1, beta_2
        self.epsilon = _EPSILON
        self.correct_bias = correct_bias
        self._kernel_factor = _kernel_factor(beta_2)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.first_moments = [make_slot(v, "m") for v in variables]
        self.second_moments = [
            make_slot(v, "v") if self._has_second_moment(v) else None
            for v in variables
        ]
        self.ema_decay = ema_decay
        self.averages = []
        if ema_decay is not None:
            self.averages = [make_slot(v, "average") for v in variables]
            for average, weight in zip(
                self.averages, self.variables_to_train, strict=True
            ):
                average.assign(tf.cast(weight, tf.float32))

    @staticmethod
    def _has_second_moment(variable: keras.Variable) -> bool:
        return True

    def slots(self) -> dict[str, tf.Variable]:
        """Returns the slots by name: `m/` or `v/` and the weight's path.

        With moving averages also `average/`, and `weight/`: a checkpoint's
        model has the averages, so that the weights are saved here.
        """
        slots_of = {"m": self.first_moments, "v": self.second_moments}
        if self.averages:
            slots_of["average"] = self.averages
            slots_of["weight"] = self.variables_to_train
        return {
            f"{slot_name}/{path}": slot
            for slot_name, slots in slots_of.items()
            for path, slot in zip(self.paths, slots, strict=True)
            if slot is not None
        }

    def swap_averages(self) -> None:
        """Exchanges weights and averages; does nothing without averages."""
        for average, weight in zip(
            self.averages, self.variables_to_train, strict=False
        ):
            value = tf.identity(weight)
            weight.assign(average)
            average.assign(value)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The model has the averages of its weights, if there are any."""
        self.swap_averages()
        try:
            yield
        finally:
            self.swap_averages()

    def apply(
        self,
        gradients: Sequence[tf.Tensor | None],
        gradient_factor: tf.Tensor | None = None,
    ) -> None:
        """Updates every variable once; called in replica context.

        Args:
          gradients: dense, in the order of `variables`, already summed over
            replicas. A variable with None stays as it is, without weight decay
            (optimization.py: apply_gradients).
          gradient_factor: scalar float32 to multiply them by, such as that of
            gradient clipping; None for 1.

        Raises:
          ValueError: if there is no gradient, or another number of weights.
        """
        found = sum(gradient is not None for gradient in gradients)
        if len(gradients) != len(self.paths) or not found:
            raise ValueError(
                f"{found} gradients in a list of {len(gradients)}, for "
                f"{len(self.paths)} weights. Give a list with a gradient or "
                "None for each weight; None for all means that the loss does "
                "not depend on them."
            )
        rate = self.learning_rate(self.step)
        adam_op = self._adam_op()
        if gradient_factor is None:
            gradient_factor = 1.0
        gradient_factor = self._kernel_factor * gradient_factor
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                self._update(i, gradient * gradient_factor, rate, adam_op)
        self._average()
        self.step.assign_add(1)

    def _average(self) -> None:
        """Updates the moving averages with the new weights."""
        if not self.averages:
            return
        step = tf.cast(self.step, tf.float32)
        decay = tf.minimum(self.ema_decay, (1.0 + step) / (10.0 + step))
        for average, weight in zip(
            self.averages, self.variables_to_train, strict=True
        ):
            average.assign_add((1.0 - decay) * (weight - average))

    def skip(self) -> None:
        """Counts a step without an update; training uses the next batch."""
        self.step.assign_add(1)

    def _adam_op(self) -> Callable[..., None]:
        """Returns a function of (variable, m, v, rate, gradient).

        It sets m to beta_1 m + (1 - beta_1) g and v to beta_2 v + (1 - beta_2)
        g^2 for a gradient g, and subtracts rate * m / (sqrt(v) + epsilon), with
        bias correction if configured, from the variable. This takes one pass
        over memory; separate TensorFlow operations take a dozen.
        """
        correction, root = 1.0, 1.0
        if self.correct_bias:
            updates = tf.cast(self.step + 1, tf.float32)
            # 1 - beta^t, without cancellation at small t.
            correction, squares = (
                -tf.math.expm1(updates * math.log(beta)) if beta else 1.0
                for beta in (self.beta_1, self.beta_2)
            )
            root = tf.sqrt(squares)
        correction *= self._kernel_factor

        def adam_op(variable, m, v, rate, gradient):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=0.0,  # Rate and epsilon correct the bias.
                beta2_power=0.0,
                lr=rate * (root / correction),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon * root,
                grad=gradient,
            )

        return adam_op

    def _update(self, i: int, gradient, rate, adam_op) -> None:
        """Updates weight i."""
        variable = self.variables_to_train[i]
        moments = self.first_moments[i], self.second_moments[i]
        if not self.decay_rates[i]:
            adam_op(variable, *moments, rate, gradient)
            return
        # The variable temporarily holds its update. Decay subtracted separately
        # would be lost to rounding: it is about 1e-7 of the weight.
        weight = tf.convert_to_tensor(variable)
        variable.assign(-rate * self.decay_rates[i] * weight)
        adam_op(variable, *moments, rate, gradient)
        variable.assign(weight + variable)


@keras.saving.register_keras_serializable("bert_tf", "AdamWeightDecay")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """The original's AdamW for `compile`: the same updates as in a run.

    optimization.py: AdamWeightDecayOptimizer. Keras's AdamW corrects the bias
    of the moments, has an epsilon of 1e-7 and decays all weights; this one
    corrects nothing, has 1e-6, and decays neither biases nor LayerNorm (weights
    named `bias`, `gamma` or `beta`). Weight decay is 0.01. Gradients are
    clipped after the sum over replicas, so that the updates do not depend on
    the number of replicas.

    Args:
      learning_rate: a float, or a schedule such as `WarmupDecay`.
      global_clipnorm: largest global norm of the gradients.
      name: its name in Keras.

    Raises:
      ValueError: if `global_clipnorm` is not above 0.

    Example:
      >>> rate = bert_tf.WarmupDecay(
      ...     5e-5, num_train_steps=1000, num_warmup_steps=100
      ... )
      >>> config = bert_tf.BertConfig.from_name("tiny", vocab_size=99)
      >>> model = bert_tf.BertClassifier(config, num_classes=2)
      >>> model.compile(bert_tf.AdamWeightDecay(rate), metrics=["accuracy"])
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        global_clipnorm: float = 1.0,
        name: str = "adam_weight_decay",
    ):
        super().__init__(learning_rate, name=name)
        if not global_clipnorm > 0:
            raise ValueError(
                f"global_clipnorm={global_clipnorm} should be above 0."
            )
        self.global_clipnorm = global_clipnorm

    def build(self, variables):
        """Makes the moments of the weights to train."""
        if self.built:
            return
        super().build(variables)
        self._adamw = AdamW(
            variables,
            lambda step: tf.convert_to_tensor(self.learning_rate),
            make_slot=lambda *args: (
                self.add_variable_from_reference(*args).value
            ),
        )
        self._adamw.step = self.iterations.value

    def apply(self, grads, trainable_variables=None):
        """Updates the weights; those whose gradient is None stay.

        Raises:
          ValueError: if every gradient is None.
        """
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        trainable_variables = list(trainable_variables)
        self.build(trainable_variables)
        self._check_variables_are_known(trainable_variables)
        found = {
            self._get_variable_index(variable): tf.convert_to_tensor(gradient)
            for gradient, variable in zip(
                grads, trainable_variables, strict=True
            )
            if gradient is not None
        }
        if not found:
            raise ValueError(
                "No weight has a gradient. Give `compile` a loss, and a model "
                "whose output depends on its trainable weights."
            )
        summed, _, gradient_factor = sum_and_clip(
            list(found.values()), self.global_clipnorm, 1.0
        )
        gradients = [None] * len(self._trainable_variables)
        for i, gradient in zip(found, summed, strict=True):
            gradients[i] = gradient
        self._adamw.apply(gradients, gradient_factor)

    def get_config(self):
        """Returns the dict for `from_config`."""
        config = super().get_config()
        names = ("learning_rate", "global_clipnorm", "name")
        return {name: config[name] for name in names}


class Lamb(AdamW):
    """LAMB: AdamW with updates scaled to the norm of each weight matrix.

    You et al. 2020 (arXiv 1904.00962), algorithm 2, which has `correct_bias`,
    with phi(x) = x: for very large batches. The update, including weight decay,
    is multiplied by the trust ratio: the norm of the weight over the norm of
    the update, or 1 if either is 0. LayerNorm and biases, which have no weight
    decay, are not scaled either, as in the authors' code.
    """

    def _update(self, i: int, gradient, rate, adam_op) -> None:
        """Updates weight i."""
        if not self.decay_rates[i]:
            super()._update(i, gradient, rate, adam_op)
            return
        variable = self.variables_to_train[i]
        weight = tf.convert_to_tensor(variable)
        variable.assign(-self.decay_rates[i] * weight)
        moments = self.first_moments[i], self.second_moments[i]
        adam_op(variable, *moments, 1.0, gradient)
        change = tf.convert_to_tensor(variable)
        variable.assign(weight + rate * _trust(weight, change) * change)


def _trust(weight: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
    """Returns LAMB's trust ratio; 1 if either norm is 0."""
    # One pass over memory each; tf.norm needs two.
    norm, change_norm = (
        tf.sqrt(2.0 * tf.nn.l2_loss(value)) for value in (weight, change)
    )
    is_zero = tf.equal(norm * change_norm, 0.0)
    safe_norm = tf.where(is_zero, 1.0, change_norm)
    return tf.where(is_zero, 1.0, norm / safe_norm)


def is_hidden_matrix(variable: keras.Variable) -> bool:
    """Returns whether a weight is a matrix of an encoder layer."""
    parts = variable.path.split("/")
    in_layer = any(part.startswith("layer_") for part in parts)
    return in_layer and parts[-1] == "kernel" and len(variable.shape) == 2


class Muon(AdamW):
    """Momentum, made orthogonal, for the layers' matrices; AdamW for the rest.

    Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon/). The
    singular values of an update are near 1, so that directions with small
    gradients are learned, too. With the factor of Liu et al. 2025 (arXiv
    2502.16982, section 2.2) its elements are about as large as AdamW's, so
    that both can share learning rate and weight decay. These matrices have no
    second moments.

    Args:
      variables: as in `AdamW`.
      learning_rate: step -> scalar float32.
      matrix_factor: factor on the learning rate of these matrices.
      product_dtype: dtype of the matrix products that make updates orthogonal;
        bfloat16 is precise enough, as Jordan et al. found, and with AMX or on
        a GPU several times faster.
      **kwargs: the other arguments of `AdamW`.
    """

    def __init__(
        self,
        variables,
        learning_rate,
        *,
        matrix_factor: float = 1.0,
        product_dtype: str = "float32",
        **kwargs,
    ):
        super().__init__(variables, learning_rate, **kwargs)
        self.matrix_factor = matrix_factor
        self.product_dtype = product_dtype

    @staticmethod
    def _has_second_moment(variable: keras.Variable) -> bool:
        return not is_hidden_matrix(variable)

    def _update(self, i: int, gradient, rate, adam_op) -> None:
        """Updates weight i."""
        if self.second_moments[i] is not None:
            super()._update(i, gradient, rate, adam_op)
            return
        variable, momentum = self.variables_to_train[i], self.first_moments[i]
        momentum.assign(MUON_MOMENTUM * momentum + gradient)
        # Nesterov's: as if the momentum were already updated once more.
        update = gradient + MUON_MOMENTUM * momentum
        update = orthogonalized(update, self.product_dtype)
        update *= 0.2 * math.sqrt(max(variable.shape))
        rate *= self.matrix_factor
        variable.assign_sub(rate * (update + self.decay_rates[i] * variable))


def orthogonalized(
    matrix: tf.Tensor, product_dtype: str = "float32"
) -> tf.Tensor:
    """Returns U V^T of the singular value decomposition U S V^T, about.

    Five Newton-Schulz iterations with the polynomial of Jordan et al. 2024: its
    singular values are between 0.7 and 1.2, which is as good for training. A
    matrix of zeros stays one.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = tf.transpose(matrix) if is_tall else matrix
    x = tf.cast(x / (tf.norm(x) + _MUON_EPSILON), product_dtype)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_MUON_ITERATIONS):
        products = tf.matmul(x, x, transpose_b=True)
        products = b * products + c * tf.matmul(products, products)
        x = a * x + tf.matmul(products, x)
    x = tf.cast(x, matrix.dtype)
    return tf.transpose(x) if is_tall else x


OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb, "muon": Muon}


def make_optimizer(
    config: "TrainingConfig",
    variables: Sequence[keras.Variable],
    learning_rate: Callable[[tf.Tensor], tf.Tensor],
) -> AdamW:
    """Returns a new optimizer; must be called in the strategy's scope.

    Args:
      config: reads `optimizer`, `adam_beta_2`, `corrects_bias` and `ema_decay`;
        for Muon also `learning_rate`, `muon_learning_rate` and `precision`.
      variables: weights to train.
      learning_rate: step -> scalar float32.
    """
    settings = {
        "beta_2": config.adam_beta_2,
        "correct_bias": config.corrects_bias,
        "ema_decay": config.ema_decay,
    }
    if config.optimizer == "muon":
        if config.precision == "bfloat16":
            settings["product_dtype"] = "bfloat16"
        if config.muon_learning_rate is not None:
            settings["matrix_factor"] = (
                config.muon_learning_rate / config.learning_rate
            )
    return OPTIMIZERS[config.optimizer](variables, learning_rate, **settings)
