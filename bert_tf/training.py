"""Batches -> trained weights: one step function and one loop."""

import os
import time
from collections.abc import Callable

import keras
import tensorflow as tf
from absl import logging

from bert_tf import (
    checkpoints,
    dropout,
    model_folders,
    optimization,
    reporting,
)
from bert_tf import config as bert_config
from bert_tf.tasks import task as task_lib
from tfrecords import whole_files


def make_train_step(
    task: task_lib.Task,
    model: keras.Model,
    optimizer: optimization.AdamW,
    strategy: tf.distribute.Strategy,
    *,
    clip_norm: float,
    seed: int,
):
    """Returns a compiled batch -> named scalars that updates `model` once.

    The scalars are those of the global batch: the task's losses and
    accuracies, `loss`, `gradient_norm` and `learning_rate`.
    """
    variables = [weight.value for weight in model.trainable_weights]

    def replica_step(batch):
        replica = tf.distribute.get_replica_context()
        rows = tf.shape(batch["is_real_example"])[0]
        first = replica.replica_id_in_sync_group * rows
        place = dropout.place(seed, optimizer.step, first)

        def summed(tensors):
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

        with tf.GradientTape() as tape:
            outputs = model(batch, training=True, place=place)
            losses = task.losses(outputs, batch)
            # A replica with fewer masked tokens weighs less: every total is
            # divided by the weight of the global batch.
            weights = summed({name: m.weight for name, m in losses.items()})
            shares = [
                tf.math.divide_no_nan(m.total, weights[name] + m.epsilon)
                for name, m in losses.items()
            ]
            share = tf.add_n(shares)
        gradients = tape.gradient(share, variables)
        # Rows of a table may come several times over; their norm is that of
        # their sum, so they are summed before anything is measured.
        gradients = summed([tf.convert_to_tensor(g) for g in gradients])
        # Clipped after the sum, so that the update is the same for any number
        # of replicas. The original clips each replica before it.
        gradients, norm = tf.clip_by_global_norm(gradients, clip_norm)
        rate = optimizer.learning_rate(optimizer.step)
        optimizer.apply(gradients)  # Local: every replica does the same.

        means = losses | task.accuracies(outputs, batch)
        totals = summed({n: (m.total, m.weight) for n, m in means.items()})
        values = {
            name: means[name]._replace(total=total, weight=weight).value()
            for name, (total, weight) in totals.items()
        }
        loss = tf.add_n([values[name] for name in losses])
        extra = {"gradient_norm": norm, "learning_rate": rate}
        return {"loss": loss} | values | extra

    # Nothing here branches on a tensor; autograph would only take time.
    @tf.function(autograph=False)
    def train_step(batch):
        values = strategy.run(replica_step, args=(batch,))
        return {
            name: strategy.experimental_local_results(value)[0]
            for name, value in values.items()
        }

    return train_step


def distribute(
    strategy: tf.distribute.Strategy,
    batches: Callable[[int, int], tf.data.Dataset],
    batch_size: int,
    start_step: int,
):
    """Returns an iterator over global batches from `start_step` on.

    Args:
      strategy: whose replicas share each batch.
      batches: (batch size, start batch) -> dataset; see
        `tfrecords.batches.training_batches`.
      batch_size: of all replicas together.
      start_step: updates already done.

    Raises:
      ValueError: if replicas cannot share `batch_size` evenly.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"train_batch_size={batch_size} is not a multiple of the "
            f"{replicas} replicas. Choose one that is."
        )
    return iter(
        strategy.distribute_datasets_from_function(
            lambda _: batches(batch_size // replicas, start_step * replicas)
        )
    )


# What runs did before there was a setting for it: their run.json lacks it.
_FORMERLY = {"optimizer": "adamw", "layerwise_lr_decay": 1.0}


def check_run(output_dir: str, settings: dict, *, has_begun: bool) -> None:
    """Writes `run.json` of a new run, or checks it for one that goes on.

    Args:
      output_dir: of the run.
      settings: what makes this run this run.
      has_begun: whether the folder holds work already; if not, a run.json
        there is of a run that failed at once, and is replaced.

    Raises:
      ValueError: if the folder holds a run with other settings, or files that
        are no run's.
    """
    path = os.path.join(output_dir, "run.json")
    if not has_begun:
        os.makedirs(output_dir, exist_ok=True)
        whole_files.write_json(path, settings)
        return
    if not os.path.exists(path):
        raise ValueError(
            f"{output_dir} holds a run without a run.json. Choose another "
            "--output_dir."
        )
    found = whole_files.read_json(path)
    for name in set(_FORMERLY) & set(settings):
        found.setdefault(name, _FORMERLY[name])
    differences = [
        f"  {name}: {found.get(name)!r} there, {settings.get(name)!r} now"
        for name in sorted(set(found) | set(settings))
        if found.get(name) != settings.get(name)
    ]
    if differences:
        raise ValueError(
            f"{output_dir} holds another run:\n"
            + "\n".join(differences)
            + "\nChoose another --output_dir, or the settings it began with."
        )


def build_model(
    task: task_lib.Task,
    config: bert_config.BertConfig,
    strategy: tf.distribute.Strategy,
    *,
    seed: int,
    precision: str = "float32",
) -> keras.Model:
    """Returns a new model under a strategy; the same weights for a seed.

    Args:
      task: whose model to build.
      config: its sizes.
      strategy: whose devices hold the weights.
      seed: of the first weights.
      precision: "float32", or "bfloat16" for its matrix products; weights are
        float32 either way.
    """
    policy = "mixed_bfloat16" if precision == "bfloat16" else precision
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        return task.build_model(config, dtype=policy)


def train(
    task: task_lib.Task,
    model: keras.Model,
    batches: Callable[[int, int], tf.data.Dataset],
    *,
    strategy: tf.distribute.Strategy,
    output_dir: str,
    settings: dict,
    description: dict,
    vocab_file: str | None,
    train_batch_size: int,
    tokens_per_example: int,
    num_train_steps: int,
    num_warmup_steps: int,
    learning_rate: float,
    make_optimizer: Callable[..., optimization.AdamW] = optimization.AdamW,
    clip_norm: float = 1.0,
    seed: int = 12345,
    save_checkpoints_steps: int = 1000,
    keep_checkpoint_max: int = 3,
    log_every_steps: int = 100,
    on_checkpoint: Callable[[int], None] | None = None,
) -> str:
    """Trains to `num_train_steps` updates, from the last checkpoint if any.

    Args:
      task: what is trained.
      model: from `build_model` with the same strategy.
      batches: (batch size, start batch) -> dataset; see
        `tfrecords.batches.training_batches`.
      strategy: whose replicas share each batch.
      output_dir: holds `run.json`, `checkpoints/` and `logs/train/`.
      settings: what makes this run this run; a folder of another is refused.
      description: for `model.json`, see `model_folders.save_model`.
      vocab_file: vocabulary to keep with each checkpoint, if any.
      train_batch_size: examples a step, over all replicas.
      tokens_per_example: padding included, for the tokens/s shown.
      num_train_steps: updates at the end of the run.
      num_warmup_steps: updates until the peak of the learning rate.
      learning_rate: its peak.
      make_optimizer: (weights, schedule) -> optimizer.
      clip_norm: global norm to clip gradients to.
      seed: of dropout; the order of batches has its own.
      save_checkpoints_steps: updates between two checkpoints.
      keep_checkpoint_max: newest checkpoints to keep.
      log_every_steps: updates between two progress lines.
      on_checkpoint: called with the step before each checkpoint is written,
        to evaluate and keep what is best.

    Returns:
      The sha256 of the final weights.

    Raises:
      ValueError: if `output_dir` holds another run, or a setting is out of
        range.
      FloatingPointError: if a loss is not finite.
    """
    schedule = optimization.WarmupLinearDecay(
        learning_rate, num_train_steps, num_warmup_steps
    )
    has_begun = checkpoints.newest_step(output_dir) > 0
    check_run(output_dir, settings, has_begun=has_begun)
    with strategy.scope():
        optimizer = make_optimizer(model.trainable_weights, schedule)
    saved = checkpoints.RunCheckpoints(
        os.path.join(output_dir, "checkpoints"),
        model,
        optimizer,
        keep=keep_checkpoint_max,
        description=description,
        vocab_file=vocab_file,
    )
    start_step = saved.restore_latest()
    report = reporting.Report(
        reporting.Writer(os.path.join(output_dir, "logs", "train"), start_step),
        num_train_steps=num_train_steps,
        examples_per_step=train_batch_size,
        tokens_per_example=tokens_per_example,
        log_every_steps=log_every_steps,
    )
    train_step = make_train_step(
        task, model, optimizer, strategy, clip_norm=clip_norm, seed=seed
    )
    data = distribute(strategy, batches, train_batch_size, start_step)
    for step in range(start_step + 1, num_train_steps + 1):
        report.step(step, train_step(next(data)))
        if step % save_checkpoints_steps == 0 or step == num_train_steps:
            begin = time.monotonic()
            report.check(step)
            # Before the checkpoint: a run killed in between does it again.
            if on_checkpoint:
                on_checkpoint(step)
            saved.save(step)
            report.pause(time.monotonic() - begin)
    weights_sha256 = model_folders.digest(model)
    logging.info("step %d  weights sha256 %s", num_train_steps, weights_sha256)
    return weights_sha256
