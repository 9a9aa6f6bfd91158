"""Settings of a run, its replicas and its start -> errors before it begins."""

import json
import os
import zlib

import tensorflow as tf

from bert_tf.config import FROZEN_WEIGHTS
from bert_tf.training import stopping, strategies
from bert_tf.training.config import TrainingConfig


def check_preemption(config: TrainingConfig) -> None:
    """Raises an error if the machine is preempted, or its server is silent."""
    server = config.preemption_server
    if not server:
        return
    try:
        is_preempted = stopping.is_preempted(server, attempts=3)
    except OSError as error:
        raise ValueError(
            f"--preemption_server={server} does not answer ({error}). Omit the "
            "flag unless this is a machine of Google Cloud; there it is "
            "metadata.google.internal."
        ) from error
    if is_preempted:
        raise stopping.Stopped(f"because {server} says it will be preempted")


def check_batch(
    strategy: tf.distribute.Strategy, batch_size: int, accumulation_steps: int
) -> None:
    """Raises ValueError if a batch cannot be split evenly.

    Args:
      strategy: strategy whose replicas share the batch.
      batch_size: size of the global batch.
      accumulation_steps: micro-batches per replica.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * accumulation_steps):
        raise ValueError(
            f"A batch of {batch_size} examples is not a multiple of "
            f"{replicas} replicas x gradient_accumulation_steps="
            f"{accumulation_steps}. Choose a multiple for --train_batch_size, "
            "and for all of --batch_size_ramp if that is given."
        )


def check_calls(
    strategy: tf.distribute.Strategy,
    config: TrainingConfig,
    save_checkpoints_steps: int,
    eval_steps: int | None = None,
) -> None:
    """Raises ValueError if steps_per_loop or jit_compile cannot be used.

    Also if TensorFlow is set to assume that weights stay the same.
    """
    frozen = os.environ.get(FROZEN_WEIGHTS, "")
    if frozen.lower() not in ("", "0", "false"):
        raise ValueError(
            f"{FROZEN_WEIGHTS}={frozen} is set: TensorFlow would go on "
            "computing with the weights of the first step. To train, unset it: "
            f"unset {FROZEN_WEIGHTS}"
        )
    for name, steps in (
        ("save_checkpoints_steps", save_checkpoints_steps),
        ("eval_steps", eval_steps or 0),
    ):
        if steps % config.steps_per_loop:
            raise ValueError(
                f"{name}={steps} is not a multiple of steps_per_loop="
                f"{config.steps_per_loop}; checkpoints are saved, and "
                "evaluated, only between loops. Choose a multiple."
            )
    replicas = strategy.num_replicas_in_sync
    on_cpus = all("CPU" in d for d in strategy.extended.worker_devices)
    if config.jit_compile and replicas > 1 and on_cpus:
        raise ValueError(
            f"jit_compile with {replicas} replicas on a CPU: XLA compiles for "
            "one CPU device only. Omit --jit_compile, or use one replica."
        )


def check_start(strategy, start_step: int, end_step: int, flags: list) -> None:
    """Raises ValueError if the run cannot resume, or workers differ.

    Without this check, workers that restored different steps or were given
    different flags would train on without an error.
    """
    text = json.dumps(
        [start_step, end_step, flags], sort_keys=True, default=str
    )
    sums = strategies.all_gather(strategy, zlib.crc32(text.encode()) >> 1)
    if len(set(sums)) > 1:
        raise ValueError(
            "The workers have different flags or checkpoints; this one starts "
            f"after step {start_step} of its --output_dir, with {flags}. Give "
            "all workers the same flags and one shared --output_dir."
        )
    if start_step > end_step:
        raise ValueError(
            f"stop_at_step={end_step} has passed: the run is at step "
            f"{start_step}. Omit the flag, or increase it."
        )
