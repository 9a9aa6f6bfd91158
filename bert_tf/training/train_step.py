"""Global batch -> updated weights: a training step on all replicas.

Shapes: B rows, n steps of one call, k micro-batches of one step, M means (one
for each loss and accuracy).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.model import dropout
from bert_tf.tasks import losses as losses_lib
from bert_tf.training import optimizers, strategies
from bert_tf.training.config import TrainingConfig

Batch = Mapping[str, tf.Tensor]

_FIRST_LOSS_SCALE = 2.0**15
_GROWTH_STEPS = 2000  # Updates without overflow until the loss scale doubles.
_MIN_LOSS_SCALE, _MAX_LOSS_SCALE = 1.0, 2.0**24


class LossScale(tf.Module):
    """Dynamic loss scale for float16; the same on every replica.

    Micikevicius et al. 2018 (arXiv 1710.03740), section 3.2: small gradients
    underflow in float16 unless the loss is scaled up. The scale doubles after
    2,000 updates without overflow, and halves if a gradient overflows;
    that update is skipped. Create it in the strategy's scope, and save
    `state()` in checkpoints.
    """

    def __init__(self):
        super().__init__(name="loss_scale")
        self.value = tf.Variable(_FIRST_LOSS_SCALE, trainable=False)
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64)

    def state(self) -> dict[str, tf.Variable]:
        """Returns the variables to save in checkpoints, by name."""
        return {
            "loss_scale/value": self.value,
            "loss_scale/good_steps": self.good_steps,
            "loss_scale/skipped": self.skipped,
        }

    def update(self, is_finite: tf.Tensor) -> None:
        """Updates the scale after a step; called in replica context.

        Args:
          is_finite: scalar bool, whether the gradients of the global batch are
            finite.
        """
        good = tf.where(is_finite, self.good_steps + 1, 0)
        grows = good >= _GROWTH_STEPS
        larger = tf.where(grows, self.value * 2.0, self.value)
        value = tf.where(is_finite, larger, self.value / 2.0)
        self.value.assign(
            tf.clip_by_value(value, _MIN_LOSS_SCALE, _MAX_LOSS_SCALE)
        )
        self.good_steps.assign(tf.where(grows, tf.zeros_like(good), good))
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))


class Means(NamedTuple):
    """Losses and accuracies of rows, by name."""

    losses: dict[str, losses_lib.WeightedMean]
    accuracies: dict[str, losses_lib.WeightedMean]

    def totals(self) -> tf.Tensor:
        """Returns total and weight of each mean: [M, 2] float32."""
        means = (self.losses | self.accuracies).values()
        return tf.stack([tf.stack([m.total, m.weight]) for m in means])

    def with_totals(self, totals: tf.Tensor) -> "Means":
        """Returns the same means with other totals and weights, [M, 2]."""
        means = self.losses | self.accuracies
        summed = {
            name: losses_lib.WeightedMean(pair[0], pair[1], mean.epsilon)
            for (name, mean), pair in zip(
                means.items(), tf.unstack(totals), strict=True
            )
        }
        return Means(*({name: summed[name] for name in part} for part in self))

    def values(self) -> dict[str, tf.Tensor]:
        """Returns `loss`, the sum of the losses, and all means by name."""
        values = {
            n: m.value() for n, m in (self.losses | self.accuracies).items()
        }
        loss = tf.add_n([values[name] for name in self.losses])
        return {"loss": loss} | values


class TrainStep:
    """Updates the weights with global batches, which all replicas share.

    Args:
      task: task whose losses to minimize.
      model: maps a batch to logits.
      optimizer: optimizer of the model's trainable weights.
      config: reads `seed` (for dropout), `dropout`, `clip_norm`,
        `gradient_accumulation_steps` and `jit_compile`.
      strategy: strategy whose replicas share each batch.
      loss_scale: loss scale for float16; None otherwise.

    Attributes:
      stop: float32 variable of this process, above 0 to ask all processes to
        stop. It may be assigned by another thread during a call.
      save: float32 variable, above 0 to ask all for a checkpoint.

    Call arguments:
      batches: a global batch, for one update; or an iterator over batches of
        one static shape, for several.
      num_steps: number of updates; a call ends early if a process asks to stop.

    Returns:
      Name -> [n] float32 for the global batch, with n the updates made: the
      task's losses and accuracies; `loss`, the sum of the losses;
      `gradient_norm`, before clipping; `learning_rate`; `loss_scale` in
      float16; and `stop` and `save`, sums of the variables over all replicas.
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
        with tf.device("CPU:0"):  # Read by the host, between steps.
            self.stop = tf.Variable(0.0, trainable=False)
            self.save = tf.Variable(0.0, trainable=False)
        self.functions: dict[tuple, tf.types.experimental.GenericFunction] = {}
        self._update = self.update
        if config.jit_compile:
            self._update = tf.function(
                self.update, autograph=False, jit_compile=True
            )

    def __call__(self, batches: Batch | Iterator, num_steps: int = 1):
        """Runs up to `num_steps` updates; see the class."""
        # One graph for each shape.
        if isinstance(batches, Mapping):
            local = self.strategy.experimental_local_results
            key = ("one", *local(batches["input_mask"])[0].shape)
            function, args = self.one_step, (batches,)
        else:
            key = ("several", str(batches.element_spec))
            function = self.several_steps
            args = batches, tf.constant(num_steps)
        if key not in self.functions:
            # No Python control flow depends on tensors, so autograph is not
            # needed and would only cost time.
            self.functions[key] = tf.function(function, autograph=False)
        return self.functions[key](*args)

    def one_step(self, batch):
        """Runs an update, in cross-replica context."""
        values = self._step(batch, self.requests())
        return {name: value[None] for name, value in values.items()}

    def several_steps(self, batches, num_steps):
        """Runs up to `num_steps` updates, in cross-replica context."""
        is_alone = strategies.num_workers(self.strategy) == 1
        names = []  # Of the values, as a loop in a graph returns only tensors.

        # The loop is outside `strategy.run`, since all-reduce is not allowed in
        # a loop inside it.
        def body(i, stop, logged):
            requests = self.requests()
            values = self._step(batches.get_next(), requests)
            names[:] = values
            # Without other processes, the host need not wait for the device.
            stop = requests[0] if is_alone else values["stop"]
            return i + 1, stop, logged.write(i, tf.stack(list(values.values())))

        steps, _, logged = tf.while_loop(
            lambda i, stop, _: (i < num_steps) & (stop == 0.0),
            body,
            [
                tf.constant(0),
                tf.constant(0.0),
                tf.TensorArray(tf.float32, num_steps),
            ],
            parallel_iterations=1,
        )
        columns = tf.unstack(logged.gather(tf.range(steps)), len(names), axis=1)
        return dict(zip(names, columns, strict=True))

    def requests(self) -> tf.Tensor:
        """Returns [2] float32: `stop` and `save`."""
        return tf.stack([self.stop.read_value(), self.save.read_value()])

    def _step(self, batch, requests):
        """Returns name -> scalar float32, of an update on all replicas."""
        values = self.strategy.run(self._update, args=(batch, requests))
        local = self.strategy.experimental_local_results
        return {name: local(value)[0] for name, value in values.items()}

    def update(self, batch: Batch, requests: tf.Tensor) -> dict[str, tf.Tensor]:
        """Updates the weights once, in replica context.

        Args:
          batch: rows of this replica.
          requests: [2] float32, `stop` and `save` of this process.

        Returns:
          Name -> scalar float32, the same on every replica.
        """
        # 1. Divisors of the losses: weights of the global batch, so that every
        # masked token counts the same on all replicas.
        normalizers = optimizers.all_reduce_sum(self.task.loss_weights(batch))
        loss_scale = self.loss_scale.value if self.loss_scale else 1.0
        # 2. Forward and backward.
        with dropout.generator(self.config.dropout):
            gradients, is_read, means = self._gradients_of_rows(
                batch, normalizers, loss_scale
            )
        # 3. Sum over all replicas, clip.
        gradients, norm, gradient_factor = optimizers.sum_and_clip(
            gradients, self.config.clip_norm, loss_scale
        )
        # As in the original, weights that no loss reads do not decay.
        gradients_or_none = [
            gradient if reads else None
            for reads, gradient in zip(is_read, gradients, strict=True)
        ]
        totals = tf.concat([means.totals(), requests[None]], axis=0)
        totals = optimizers.all_reduce_sum(totals)  # [M + 1, 2]
        # 4. Update, unless gradients are not finite.
        rate = self.optimizer.learning_rate(self.optimizer.step)
        is_finite = tf.math.is_finite(norm)
        tf.cond(
            is_finite,
            lambda: self.optimizer.apply(gradients_or_none, gradient_factor),
            self.optimizer.skip,
        )
        # 5. Values to log.
        values = means.with_totals(totals[:-1]).values()
        values |= {"gradient_norm": norm, "learning_rate": rate}
        if self.loss_scale:
            values["loss_scale"] = tf.identity(loss_scale)
            self.loss_scale.update(is_finite)
        return values | {"stop": totals[-1, 0], "save": totals[-1, 1]}

    def _gradients_of_rows(self, batch, normalizers, loss_scale):
        """Returns `gradients` of a replica's rows, in k micro-batches.

        They run one after the other: activations of only one are in memory.
        """
        k = self.config.gradient_accumulation_steps
        replica = tf.distribute.get_replica_context()
        num_rows = batch["is_real_example"].shape[0]
        first = replica.replica_id_in_sync_group * tf.constant(num_rows)
        if k == 1:
            return self.gradients(batch, first, normalizers, loss_scale)
        rows = num_rows // k
        parts = {
            name: tf.reshape(value, [k, rows, *value.shape[1:]])
            for name, value in batch.items()
        }
        noted = []  # `is_read` and means, as a loop returns only tensors.

        def body(i, sums, totals):
            gradients, is_read, means = self.gradients(
                _batch_of(parts, i), first + i * rows, normalizers, loss_scale
            )
            noted[:] = is_read, means
            sums = [a + b for a, b in zip(sums, gradients, strict=True)]
            return i + 1, sums, totals.write(i, means.totals())

        shapes = [weight.shape for weight in self.model.trainable_weights]
        _, gradients, totals = tf.while_loop(
            lambda i, *_: i < k,
            body,
            [
                tf.constant(0),
                [tf.zeros(shape) for shape in shapes],
                tf.TensorArray(tf.float32, k),
            ],
            parallel_iterations=1,  # To save memory.
        )
        is_read, means = noted
        totals = tf.reduce_sum(totals.stack(), axis=0)
        return gradients, is_read, means.with_totals(totals)

    def gradients(
        self, batch, first_row, normalizers, loss_scale
    ) -> tuple[list[tf.Tensor], list[bool], Means]:
        """Returns the contribution of rows to the gradients, and their means.

        Args:
          batch: rows of the global batch.
          first_row: index of the first row in the global batch.
          normalizers: loss -> its weight over the global batch, which divides
            its total.
          loss_scale: factor on the loss; 1 unless float16.

        Returns:
          Dense gradients of the trainable weights, zeros where no loss depends
          on the weight; whether a loss depends on each (not on the pooler of a
          tagger; with single segments, not on pooler and next-sentence head);
          and the means of the rows.
        """
        dropout_key = dropout.make_key(
            self.config.seed, self.optimizer.step, first_row
        )
        with tf.GradientTape() as tape:
            outputs = self.task.outputs(self.model, batch, dropout_key)
            losses = self.task.losses(outputs, batch)
            shares = [
                tf.math.divide_no_nan(
                    mean.total, normalizers[name] + mean.epsilon
                )
                for name, mean in losses.items()
            ]
            scaled = tf.add_n(shares) * loss_scale
        gradients = tape.gradient(
            scaled, [weight.value for weight in self.model.trainable_weights]
        )
        is_read = [gradient is not None for gradient in gradients]
        # Of keras.layers.Embedding they are IndexedSlices, whose rows may
        # repeat: their sum is a dense tensor, and its norm the correct one.
        gradients = [
            tf.zeros(weight.shape)
            if gradient is None
            else tf.convert_to_tensor(gradient)
            for gradient, weight in zip(
                gradients, self.model.trainable_weights, strict=True
            )
        ]
        means = Means(losses, self.task.accuracies(outputs, batch))
        return gradients, is_read, means


def _batch_of(batches: Batch, i: tf.Tensor) -> Batch:
    """Returns batch i of stacked batches."""
    return {name: value[i] for name, value in batches.items()}
