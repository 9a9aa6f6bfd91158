"""Global batch -> updated weights: one step, the same on every replica.

Letters: R replicas, B rows of the global batch, n steps of one call, k
micro-batches of one step.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.model import dropout
from bert_tf.tasks import losses
from bert_tf.tasks import task as task_lib
from bert_tf.training import gradients, optimizers
from bert_tf.training.loss_scale import LossScale


class _Means(NamedTuple):
    """Names and epsilons of weighted means, and [means, 2] float32."""

    losses: tuple[str, ...]
    names: tuple[str, ...]
    epsilons: tuple[float, ...]
    totals: tf.Tensor  # Of each mean: total, weight.


def _stacked(
    task_losses: dict[str, losses.WeightedMean],
    accuracies: dict[str, losses.WeightedMean],
) -> _Means:
    """Returns all means of a batch as one tensor, to sum it in one go."""
    means = task_losses | accuracies
    totals = tf.stack([tf.stack([m.total, m.weight]) for m in means.values()])
    epsilons = tuple(mean.epsilon for mean in means.values())
    return _Means(tuple(task_losses), tuple(means), epsilons, totals)


def _values(means: _Means) -> dict[str, tf.Tensor]:
    """Returns `loss`, the sum of the losses, and every mean by name."""
    values = {
        name: losses.WeightedMean(pair[0], pair[1], epsilon).value()
        for name, epsilon, pair in zip(
            means.names, means.epsilons, tf.unstack(means.totals), strict=True
        )
    }
    return {"loss": tf.add_n([values[n] for n in means.losses])} | values


def _gradients(task, model, batch, dropout_key, weights, scale):
    """Returns this batch's share of the gradients of the loss, and its means.

    Args:
      task: whose losses to minimise.
      model: what maps the batch to logits.
      batch: rows of the global batch.
      dropout_key: see `dropout.make_key`.
      weights: of each loss, over the whole global batch.
      scale: factor of the loss, 1 but in float16.
    """
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True, dropout_key=dropout_key)
        task_losses = task.losses(outputs, batch)
        # A replica with fewer masked tokens weighs less: every total is
        # divided by the weight of the global batch.
        share = tf.add_n(
            [
                tf.math.divide_no_nan(m.total, weights[name] + m.epsilon)
                for name, m in task_losses.items()
            ]
        )
        scaled = share * scale
    found = tape.gradient(
        scaled,
        [w.value for w in model.trainable_weights],
        # Of single segments no loss reads the pooler and the head of pairs.
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    # Rows of a table may come several times over; their norm is that of their
    # sum, so they are summed before anything is measured. To keep slices apart
    # saved 0.4 % of a step.
    found = [tf.convert_to_tensor(gradient) for gradient in found]
    return found, _stacked(task_losses, task.accuracies(outputs, batch))


def _accumulated(
    gradients_of: Callable,
    batch: task_lib.Batch,
    k: int,
    shapes: Sequence[tf.TensorShape],
):
    """Sums gradients and means over k micro-batches, one after the other.

    Args:
      gradients_of: (rows, number of the first row) -> gradients, means.
      batch: rows of one replica.
      k: parts to cut it into, of which only one is in memory at a time.
      shapes: of the gradients.
    """
    rows = batch["is_real_example"].shape[0] // k
    if k == 1:
        return gradients_of(batch, 0)
    parts = {
        name: tf.reshape(value, [k, rows, *value.shape[1:]])
        for name, value in batch.items()
    }

    described: list[_Means] = []

    def body(i, sums, totals):
        more, means = gradients_of(
            {name: value[i] for name, value in parts.items()}, i * rows
        )
        described[:] = [means]
        sums = [a + b for a, b in zip(sums, more, strict=True)]
        return i + 1, sums, totals.write(i, means.totals)

    _, found, totals = tf.while_loop(
        lambda i, *_: i < k,
        body,
        [
            tf.constant(0),
            [tf.zeros(shape) for shape in shapes],
            tf.TensorArray(tf.float32, k),
        ],
        parallel_iterations=1,  # More would be in memory at once.
    )
    totals = tf.reduce_sum(totals.stack(), axis=0)
    return found, described[0]._replace(totals=totals)


def _sum_and_clip(summed, found, clip_norm, scale):
    """Returns gradients of all replicas, their norm, and what to scale them by.

    Clipped after the sum, so that the update is the same for any number of
    replicas.
    """
    found = summed(found)
    norm = gradients.global_norm(found) / scale
    return found, norm, clip_norm / tf.maximum(norm, clip_norm) / scale


def _clip_and_sum(summed, found, clip_norm, scale):
    """The same in the original's order: optimization.py, create_optimizer.

    It clips what each replica makes of its own mean, and takes the mean of
    that; here replicas are summed. The norm is the mean of theirs, which is not
    finite if one of them is not.
    """
    replica = tf.distribute.get_replica_context()
    own_norm = gradients.global_norm(found) / scale
    limit = clip_norm / replica.num_replicas_in_sync
    factor = limit / tf.maximum(own_norm, limit)
    found = summed([gradient * factor for gradient in found])
    return found, summed(own_norm), 1.0 / scale


def make_update(
    task: task_lib.Task,
    model: keras.Model,
    optimizer: optimizers.AdamW,
    *,
    clip_norm: float,
    seed: int,
    accumulation_steps: int = 1,
    clip_before_reduce: bool = False,
    loss_scale: LossScale | None = None,
) -> Callable[[task_lib.Batch, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns (rows of one replica, stop) -> values, which updates `model`.

    For arguments and values see `make_train_steps`. It runs in the context of
    a replica, with all others at once.

    Args:
      task: whose losses to minimise.
      model: maps a batch to logits.
      optimizer: of the model's trainable weights.
      clip_norm: global norm to which gradients are clipped.
      seed: of dropout.
      accumulation_steps: micro-batches that a replica cuts its rows into.
      clip_before_reduce: clip the gradients of each replica by themselves.
      loss_scale: in float16.

    Raises:
      ValueError: if `clip_norm` is not above 0.
    """
    if not clip_norm > 0:
        raise ValueError(
            f"clip_norm={clip_norm} should be above 0; a large one, such as "
            "1e9, clips nothing."
        )

    def update(batch, stop):
        replica = tf.distribute.get_replica_context()
        first = replica.replica_id_in_sync_group * tf.constant(
            batch["is_real_example"].shape[0]
        )

        def summed(tensors):
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

        weights = summed(task.loss_weights(batch))
        scale = loss_scale.value if loss_scale else 1.0

        def gradients_of(rows, first_row):
            dropout_key = dropout.make_key(
                seed, optimizer.step, first + first_row
            )
            return _gradients(task, model, rows, dropout_key, weights, scale)

        shapes = [weight.shape for weight in model.trainable_weights]
        found, means = _accumulated(
            gradients_of, batch, accumulation_steps, shapes
        )
        clip = _clip_and_sum if clip_before_reduce else _sum_and_clip
        found, norm, factor = clip(summed, found, clip_norm, scale)
        totals = summed(tf.concat([means.totals, [[stop, 0.0]]], axis=0))
        rate = optimizer.learning_rate(optimizer.step)
        is_finite = tf.math.is_finite(norm)

        # Weights that are lost are of no use to anybody: no update then.
        def apply():
            optimizer.apply(found, factor)

        def skip():
            optimizer.step.assign_add(1)  # The next batch is another one.

        tf.cond(is_finite, apply, skip)
        values = _values(means._replace(totals=totals[:-1]))
        values |= {"gradient_norm": norm, "learning_rate": rate}
        if loss_scale:
            values["loss_scale"] = tf.identity(scale)
            loss_scale.update(is_finite)
        return values | {"stop": totals[-1, 0]}

    return update


def make_train_steps(
    update: Callable,
    strategy: tf.distribute.Strategy,
    *,
    steps_per_loop: int = 1,
    jit_compile: bool = False,
) -> Callable[[task_lib.Batch, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns a compiled (batches, stop) -> values of one or more updates.

    `batches` is a global batch, or with n = `steps_per_loop` above 1, n of
    them along a first dimension. `stop` is a scalar float32: above 0 if this
    process wants to stop. The values are [n] float32 each, of the global
    batch: the task's losses and accuracies, `loss`, `gradient_norm` before it
    is clipped, `learning_rate`, and `stop`, summed over all processes.

    Args:
      update: from `make_update`.
      strategy: whose replicas share each batch.
      steps_per_loop: n.
      jit_compile: have XLA compile the whole call.
    """
    names: list[str] = []

    def step(batch, stop):
        found = strategy.run(update, args=(batch, stop))
        found = {
            name: strategy.experimental_local_results(value)[0]
            for name, value in found.items()
        }
        names[:] = found
        return tf.stack(list(found.values()))  # [values]

    def chosen(batches, i):
        """Batch i of each replica."""
        return strategy.run(
            lambda parts: {n: v[i] for n, v in parts.items()}, args=(batches,)
        )

    # Nothing here branches in Python on a tensor: autograph only takes time.
    @tf.function(autograph=False, jit_compile=jit_compile)
    def train_steps(batches, stop):
        if steps_per_loop == 1:
            return _columns(names, step(batches, stop)[None])

        def body(i, rows):
            return i + 1, rows.write(i, step(chosen(batches, i), stop))

        _, rows = tf.while_loop(
            lambda i, _: i < steps_per_loop,
            body,
            [tf.constant(0), tf.TensorArray(tf.float32, steps_per_loop)],
            parallel_iterations=1,
        )
        return _columns(names, rows.stack())

    return train_steps


def _columns(names: Sequence[str], rows: tf.Tensor) -> dict[str, tf.Tensor]:
    """[n, values] -> [n] float32 by name."""
    columns = tf.unstack(tf.transpose(rows))
    return dict(zip(names, columns, strict=True))
