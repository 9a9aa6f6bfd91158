"""Batches -> trained weights: the loop around train_step.py's step."""

import contextlib
import functools
import json
import os
import zlib
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from absl import logging

from bert_tf import config as bert_config
from bert_tf.tasks import task as task_lib
from bert_tf.training import (
    checkpoints,
    loss_scale,
    model_folders,
    optimizers,
    reporting,
    run_folders,
    run_lock,
    saving,
    stopping,
    strategies,
    train_step,
)
from bert_tf.training import phases as phases_lib

_UPDATE = functools.partial(train_step.make_update, clip_norm=1.0, seed=12345)
POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}


def build_model(
    task: task_lib.Task,
    config: bert_config.BertConfig,
    strategy: tf.distribute.Strategy,
    *,
    seed: int,
    precision: str = "float32",
    remat: bool = False,
) -> keras.Model:
    """Returns a new model under a strategy; the same weights for a seed.

    Args:
      task: whose model to build.
      config: its sizes.
      strategy: whose devices hold the weights.
      seed: of the first weights.
      precision: "float32", or "bfloat16" or "float16" for its matrix products;
        weights are float32 either way.
      remat: whether layers forget what is inside them, and compute it again
        for the gradients; see `BertEncoder`.
    """
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        model = task.build_model(config, dtype=POLICIES[precision])
    remat and model.encoder.enable_remat()
    return model


def check_batch(
    strategy: tf.distribute.Strategy, batch_size: int, accumulation_steps: int
) -> None:
    """Raises ValueError if replicas and micro-batches cannot share a batch."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * accumulation_steps):
        raise ValueError(
            f"train_batch_size={batch_size} is not a multiple of "
            f"{replicas} replicas x gradient_accumulation_steps="
            f"{accumulation_steps}. Choose one that is."
        )


def _loop(calls, steps, report, saver, request, end_step) -> None:
    """Takes one step after another, and saves when it is time to."""
    for phase, begin, count in calls:
        step = begin + count
        report.add(step, *steps(phase, begin, count, request.is_made))
        stops = steps.all_stop(request.is_made)
        if stops or step == end_step or saver.is_regular(step):
            saver.save(step, stops)
            # Somebody may have asked meanwhile.
            stops = stops or steps.all_stop(request.is_made)
        if stops:
            raise stopping.Stopped(
                f"after step {step}, which is saved; the same command goes on "
                "from here"
            )


def check_calls(
    strategy: tf.distribute.Strategy,
    steps_per_loop: int,
    save_checkpoints_steps: int,
    jit_compile: bool,
) -> None:
    """Raises ValueError unless a call of the graph may be what these say."""
    if save_checkpoints_steps % steps_per_loop:
        raise ValueError(
            f"save_checkpoints_steps={save_checkpoints_steps} is not a "
            f"multiple of steps_per_loop={steps_per_loop}, within which "
            "nothing is saved. Choose one that is."
        )
    replicas = strategy.num_replicas_in_sync
    on_cpus = all("CPU" in d for d in strategy.extended.worker_devices)
    if jit_compile and replicas > 1 and on_cpus:
        raise ValueError(
            f"jit_compile with {replicas} replicas on a CPU: XLA compiles for "
            "one CPU device only. Leave one of the two away."
        )


def _check_start(strategy, start_step: int, end_step: int, flags: list) -> None:
    """Raises ValueError unless this can go on, and all workers begin alike.

    They would train on, each at its own step, and nothing else would tell.
    """
    text = json.dumps(
        [start_step, end_step, flags], sort_keys=True, default=str
    )
    sums = strategies.all_gather(strategy, zlib.crc32(text.encode()) >> 1)
    if len(set(sums)) > 1:
        raise ValueError(
            f"The workers do not begin alike; this one begins after step "
            f"{start_step} of its --output_dir, with {flags}. Give all of them "
            "the same flags and one --output_dir that all of them share."
        )
    if start_step > end_step:
        raise ValueError(
            f"stop_at_step={end_step} is over: the run is at step "
            f"{start_step}. Leave the flag away, or raise it."
        )


def _restore(model, strategy, folder, make_optimizer, **keywords):
    """Returns optimizer, loss scale, checkpoints, and the step they are at."""
    is_chief = strategies.is_chief(strategy)
    with strategy.scope():
        optimizer = make_optimizer(model.trainable_weights)
        in_float16 = model.dtype_policy.compute_dtype == "float16"
        scale = loss_scale.LossScale() if in_float16 else None
    saved = checkpoints.RunCheckpoints(
        folder,
        model,
        optimizer,
        extra=scale.state() if scale else None,
        is_chief=is_chief,
        **keywords,
    )
    # Others after the chief, which moves damaged ones out of the way.
    start_step = strategies.chief_first(strategy, saved.restore_latest)
    return optimizer, scale, saved, start_step


def train(
    task: task_lib.Task,
    model: keras.Model,
    phases: Sequence[phases_lib.Phase],
    *,
    strategy: tf.distribute.Strategy,
    output_dir: str,
    settings: dict,
    metadata: dict,
    vocab_file: str | None,
    num_warmup_steps: int,
    learning_rate: float,
    make_optimizer: Callable[..., optimizers.AdamW] = optimizers.AdamW,
    make_update: Callable[..., Callable] = _UPDATE,
    steps_per_loop: int = 1,
    jit_compile: bool = False,
    save_checkpoints_steps: int = 1000,
    keep_checkpoint_max: int = 3,
    log_every_steps: int = 100,
    stop_at_step: int | None = None,
    on_checkpoint: Callable[[int], None] | None = None,
) -> str:
    """Trains to the end of all phases, from the last checkpoint if any.

    Args:
      task: what is trained.
      model: from `build_model` with the same strategy.
      phases: what to read, and for how many updates.
      strategy: whose replicas share each batch.
      output_dir: holds `run.json`, `checkpoints/` and `logs/train/`.
      settings: what makes this run this run; a folder of another is refused.
      metadata: for `model.json`, see `model_folders.save_model`.
      vocab_file: vocabulary to keep with each checkpoint, if any.
      num_warmup_steps: updates until the peak of the learning rate.
      learning_rate: its peak.
      make_optimizer: (weights, schedule) -> optimizer.
      make_update: (task, model, optimizer, loss_scale=) -> update, see
        `train_step.make_update`.
      steps_per_loop: updates in one call of the graph.
      jit_compile: have XLA compile the step.
      save_checkpoints_steps: updates between two checkpoints.
      keep_checkpoint_max: newest checkpoints to keep.
      log_every_steps: updates between two progress lines.
      stop_at_step: if given, stop there with a checkpoint, to go on later.
      on_checkpoint: called with the step after each regular checkpoint is
        written, to evaluate and keep what is best; by the next start if this
        one stops there.

    Returns:
      The sha256 of the final weights.

    Raises:
      ValueError: if `output_dir` holds another run, or a setting is out of
        range.
      FloatingPointError: if a loss or gradient is not finite.
      stopping.Stopped: after a checkpoint, if a signal or `stop_at_step` asks
        for it; or if another worker process is gone.
    """
    num_train_steps = sum(phase.num_steps for phase in phases)
    end_step = min(num_train_steps, stop_at_step or num_train_steps)
    schedule = optimizers.WarmupLinearDecay(
        learning_rate, num_train_steps, num_warmup_steps
    )
    check_calls(strategy, steps_per_loop, save_checkpoints_steps, jit_compile)
    logs = os.path.join(output_dir, "logs", "train")
    is_chief = strategies.is_chief(strategy)
    run_folders.check(output_dir, settings, is_chief=is_chief)
    with contextlib.ExitStack() as stack:
        if is_chief:
            stack.enter_context(run_lock.lock(output_dir))
        request = stack.enter_context(stopping.on_signals())
        stack.enter_context(strategies.clear_errors(strategy))
        optimizer, scale, saved, start_step = _restore(
            model,
            strategy,
            os.path.join(output_dir, "checkpoints"),
            lambda weights: make_optimizer(weights, schedule),
            keep=keep_checkpoint_max,
            metadata=metadata,
            vocab_file=vocab_file,
        )
        flags = [settings, steps_per_loop, save_checkpoints_steps]
        _check_start(strategy, start_step, end_step, flags)
        update = make_update(task, model, optimizer, loss_scale=scale)
        steps = phases_lib.Steps(update, strategy, phases, jit_compile)
        report = reporting.Report(
            reporting.Writer(logs, start_step) if is_chief else None,
            num_train_steps=num_train_steps,
            log_every_steps=log_every_steps,
        )
        saver = saving.Saver(strategy, saved, report, on_checkpoint)
        saver.is_regular = lambda step: (
            step % save_checkpoints_steps == 0 or step == num_train_steps
        )
        saver.begin(start_step)
        report.where = lambda n: f"{steps.batch_of(n)}. {saver.recovery_hint()}"
        calls = phases_lib.calls(start_step, end_step, phases, steps_per_loop)
        _loop(calls, steps, report, saver, request, end_step)
    if end_step < num_train_steps:
        message = f"after step {end_step}, as --stop_at_step says"
        raise stopping.Stopped(f"{message}; without it the command goes on", 0)
    weights_sha256 = model_folders.digest(model)
    logging.info("step %d  weights sha256 %s", num_train_steps, weights_sha256)
    return weights_sha256
