"""Global batch -> updated weights: one step, the same on every replica.

Letters: B rows of the global batch, n steps of one call, k micro-batches of one
step, M means, N values to log.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.model import dropout
from bert_tf.tasks import losses
from bert_tf.training import optimizers
from bert_tf.training.config import TrainingConfig

Batch = Mapping[str, tf.Tensor]

FIRST_LOSS_SCALE = 2.0**15
GROWTH_STEPS = 2000  # Updates without overflow until the loss scale doubles.
_LEAST_LOSS_SCALE, _MOST_LOSS_SCALE = 1.0, 2.0**24


class LossScale(tf.Module):
    """The factor of the loss in float16; every replica keeps the same.

    Micikevicius et al. 2018 (arXiv 1710.03740), section 3.2: small gradients
    are zero in float16 unless the loss is multiplied first. The factor doubles
    while all goes well and halves when a gradient overflows, which costs that
    update. Make it under the strategy's scope, and let checkpoints keep
    `state()`.

    Args:
      first: factor to begin with.
      growth_steps: updates without overflow until it doubles.
    """

    def __init__(
        self, first: float = FIRST_LOSS_SCALE, growth_steps: int = GROWTH_STEPS
    ):
        super().__init__(name="loss_scale")
        self.growth_steps = growth_steps
        self.value = tf.Variable(first, trainable=False, dtype=tf.float32)
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64)

    def state(self) -> dict[str, tf.Variable]:
        """Returns the variables that a checkpoint keeps, by name."""
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
        self.value.assign(
            tf.clip_by_value(value, _LEAST_LOSS_SCALE, _MOST_LOSS_SCALE)
        )
        self.good_steps.assign(tf.where(grows, tf.zeros_like(good), good))
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the norm of all gradients together: scalar float32.

    Unlike tf.linalg.global_norm it is float32 for float16 too. NaN propagates,
    and what overflows is inf.

    Args:
      gradients: of any shapes, dense.
    """
    halves = [tf.nn.l2_loss(tf.cast(value, tf.float32)) for value in gradients]
    return tf.sqrt(2.0 * tf.add_n(halves))


def all_reduce_sum(tensors):
    """Returns the sums of tensors over all replicas, in one's context."""
    replica = tf.distribute.get_replica_context()
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def sum_and_clip(gradients, clip_norm, scale):
    """Returns gradients of all replicas, their norm, and the factor that clips.

    The optimizer multiplies by the factor. It comes of the norm after the sum,
    so the update is the same for any number of replicas.
    """
    gradients = all_reduce_sum(gradients)
    norm = global_norm(gradients) / scale
    return gradients, norm, clip_norm / tf.maximum(norm, clip_norm) / scale


def clip_and_sum(gradients, clip_norm, scale):
    """The same in the original's order: optimization.py, create_optimizer.

    There each replica clips the gradient of its own mean, and the clipped ones
    are averaged. Here a replica has a share of the global mean, so the limit is
    a share too, and the clipped ones are summed. The norm is the sum of theirs,
    which is not finite if one of them is not.
    """
    replica = tf.distribute.get_replica_context()
    own_norm = global_norm(gradients) / scale
    limit = clip_norm / replica.num_replicas_in_sync
    factor = limit / tf.maximum(own_norm, limit)
    gradients = all_reduce_sum([gradient * factor for gradient in gradients])
    return gradients, all_reduce_sum(own_norm), 1.0 / scale


class _MeanNames(NamedTuple):
    """Names of a batch's means, in the order of their totals and weights."""

    losses: tuple[str, ...]
    epsilons: dict[str, float]  # By name, of losses and accuracies.


class TrainStep:
    """Updates the weights by global batches, each shared by all replicas.

    Args:
      task: whose losses to minimise.
      model: maps a batch to logits.
      optimizer: of the model's trainable weights.
      config: reads `seed`, of dropout, `clip_norm`, `clip_before_reduce`,
        `gradient_accumulation_steps` and `jit_compile`.
      strategy: whose replicas share each batch.
      loss_scale: in float16.

    Call arguments:
      batches: a global batch; with n = `num_steps` above 1, n of them along a
        first dimension.
      num_steps: n, the updates to do.
      stop: whether this process wants to stop.

    Returns:
      Name -> [n] float32 of the global batch: the task's losses and
      accuracies; `loss`, the sum of its losses; `gradient_norm`, before it is
      clipped; `learning_rate`; in float16 `loss_scale`; and `stop`, the number
      of replicas whose process wants to.
    """

    def __init__(
        self,
        task,
        model: keras.Model,
        optimizer: optimizers.AdamW,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        loss_scale: LossScale | None = None,
    ):
        self.task = task
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.strategy = strategy
        self.loss_scale = loss_scale
        self.functions: dict[tuple, tf.types.experimental.GenericFunction] = {}
        # Known when a graph is made, where loops give back tensors alone.
        self._means: _MeanNames | None = None
        self._names: list[str] = []

    def __call__(self, batches: Batch, num_steps: int, stop: bool):
        """Does one call of the graph; see the class."""
        local = self.strategy.experimental_local_results(batches["input_mask"])
        # A graph for each number of steps, of which the last call may have
        # fewer, and for each length.
        key = (num_steps, *local[0].shape)
        if key not in self.functions:
            self.functions[key] = self.compiled(num_steps)
        # Python may change the dict that it gets.
        return dict(self.functions[key](batches, tf.constant(float(stop))))

    def compiled(self, num_steps: int = 1):
        """Returns a compiled (batches, scalar float32 stop) -> values."""
        # Nothing here branches in Python on a tensor: autograph only takes
        # time.
        return tf.function(
            functools.partial(self._steps, num_steps),
            autograph=False,
            jit_compile=self.config.jit_compile,
        )

    def _steps(self, num_steps, batches, stop):
        """Does n updates, in the context of all replicas."""
        if num_steps == 1:
            rows = self._step(batches, stop)[None]  # [1, N]
        else:
            # Several steps loop outside of `strategy.run`: sums over replicas
            # may not stand in a loop inside of it.
            def body(i, rows):
                batch = self.strategy.run(_batch_of, args=(batches, i))
                return i + 1, rows.write(i, self._step(batch, stop))

            _, rows = tf.while_loop(
                lambda i, _: i < num_steps,
                body,
                [tf.constant(0), tf.TensorArray(tf.float32, num_steps)],
                parallel_iterations=1,
            )
            rows = rows.stack()  # [n, N]
        columns = tf.unstack(tf.transpose(rows))  # N times [n]
        return dict(zip(self._names, columns, strict=True))

    def _step(self, batch, stop):
        values = self.strategy.run(self.update, args=(batch, stop))
        return self.strategy.experimental_local_results(values)[0]  # [N]

    def update(self, batch: Batch, stop: tf.Tensor) -> tf.Tensor:
        """Updates the weights once, in the context of a replica.

        Args:
          batch: rows of this replica.
          stop: scalar float32, above 0 to stop.

        Returns:
          [N] float32, the same on every replica.
        """
        # 1. What the losses are divided by: weights of the global batch, so
        # that a replica with fewer masked tokens weighs less.
        loss_weights = all_reduce_sum(self.task.loss_weights(batch))
        scale = self.loss_scale.value if self.loss_scale else 1.0
        # 2. Forward and backward.
        gradients, totals = self._gradients_of_rows(batch, loss_weights, scale)
        # 3. Over all replicas.
        clip = clip_and_sum if self.config.clip_before_reduce else sum_and_clip
        gradients, norm, factor = clip(gradients, self.config.clip_norm, scale)
        totals = all_reduce_sum(tf.concat([totals, [[stop, 0.0]]], axis=0))
        # 4. The update; none by gradients that are not finite.
        rate = self.optimizer.learning_rate(self.optimizer.step)
        is_finite = tf.math.is_finite(norm)
        tf.cond(
            is_finite,
            lambda: self.optimizer.apply(gradients, factor),
            self.optimizer.skip,
        )
        # 5. What to log.
        values = self._named(totals[:-1])
        values |= {"gradient_norm": norm, "learning_rate": rate}
        if self.loss_scale:
            values["loss_scale"] = tf.identity(scale)
            self.loss_scale.update(is_finite)
        values["stop"] = totals[-1, 0]
        self._names = list(values)
        return tf.stack(list(values.values()))

    def _gradients_of_rows(self, batch, loss_weights, scale):
        """Returns gradients and totals of a replica's rows, in k parts.

        The micro-batches come one after the other: only one of them is in
        memory at a time.
        """
        k = self.config.gradient_accumulation_steps
        replica = tf.distribute.get_replica_context()
        num_rows = batch["is_real_example"].shape[0]
        first = replica.replica_id_in_sync_group * tf.constant(num_rows)
        if k == 1:
            return self._gradients(batch, first, loss_weights, scale)
        rows = num_rows // k
        parts = {
            name: tf.reshape(value, [k, rows, *value.shape[1:]])
            for name, value in batch.items()
        }

        def body(i, sums, totals):
            gradients, more = self._gradients(
                _batch_of(parts, i), first + i * rows, loss_weights, scale
            )
            sums = [a + b for a, b in zip(sums, gradients, strict=True)]
            return i + 1, sums, totals.write(i, more)

        shapes = [weight.shape for weight in self.model.trainable_weights]
        _, gradients, totals = tf.while_loop(
            lambda i, *_: i < k,
            body,
            [
                tf.constant(0),
                [tf.zeros(shape) for shape in shapes],
                tf.TensorArray(tf.float32, k),
            ],
            parallel_iterations=1,  # More would be in memory at once.
        )
        return gradients, tf.reduce_sum(totals.stack(), axis=0)

    def _gradients(self, batch, first_row, loss_weights, scale):
        """Returns a batch's share of the gradients of the loss, and its totals.

        Args:
          batch: rows of the global batch.
          first_row: index of the first of them there.
          loss_weights: of each loss, over the whole global batch.
          scale: factor of the loss, 1 but in float16.

        Returns:
          A dense gradient for each trainable weight, and [M, 2] float32: total
          and weight of each loss and accuracy.
        """
        dropout_key = dropout.make_key(
            self.config.seed, self.optimizer.step, first_row
        )
        with tf.GradientTape() as tape:
            outputs = self.model(batch, training=True, dropout_key=dropout_key)
            task_losses = self.task.losses(outputs, batch)
            shares = [
                tf.math.divide_no_nan(
                    mean.total, loss_weights[name] + mean.epsilon
                )
                for name, mean in task_losses.items()
            ]
            scaled = tf.add_n(shares) * scale
        gradients = tape.gradient(
            scaled,
            [weight.value for weight in self.model.trainable_weights],
            # Of single segments no loss reads the pooler and the head of pairs.
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Rows of a table may come several times over; their norm is that of
        # their sum, so they are summed before anything is measured. To keep
        # slices apart saved 0.4 % of a step.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        means = task_losses | self.task.accuracies(outputs, batch)
        self._means = _MeanNames(
            tuple(task_losses), {n: mean.epsilon for n, mean in means.items()}
        )
        totals = [tf.stack([m.total, m.weight]) for m in means.values()]
        return gradients, tf.stack(totals)

    def _named(self, totals) -> dict[str, tf.Tensor]:
        """Returns `loss`, the sum of the losses, and every mean by name."""
        values = {
            name: losses.WeightedMean(pair[0], pair[1], epsilon).value()
            for (name, epsilon), pair in zip(
                self._means.epsilons.items(), tf.unstack(totals), strict=True
            )
        }
        loss = tf.add_n([values[name] for name in self._means.losses])
        return {"loss": loss} | values


def _batch_of(batches: Batch, i: tf.Tensor) -> Batch:
    """Returns batch i of those along a first dimension."""
    return {name: value[i] for name, value in batches.items()}
