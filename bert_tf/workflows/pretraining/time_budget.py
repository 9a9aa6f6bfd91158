"""Hours of training -> number of optimizer steps that fit."""

import gc
import time

import tensorflow as tf
from absl import logging

from bert_tf.config import BertConfig
from bert_tf.training import loop, optimizers, strategies
from bert_tf.workflows.pretraining.config import PretrainingConfig

# The first calls of a step compile it, and fill caches.
_UNTIMED_CALLS = 3
_TIMED_SECONDS = 15.0


def measure_steps(
    task,
    phases: list[loop.Phase],
    bert_config: BertConfig,
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
) -> int:
    """Times steps of each phase; returns the steps that fit `train_hours`.

    The timed steps are those of a model of their own, which is discarded: the
    run is the one that `num_train_steps` would make.

    Args:
      task: task of the run.
      phases: phases of the run; their `num_steps` are their shares.
      bert_config: config of the model.
      config: settings of the run.
      strategy: strategy of the run.

    Raises:
      ValueError: if not even one step fits.
    """
    seconds = 0.0  # Of a step, in the mean.
    total = sum(phase.num_steps for phase in phases)
    for phase in phases:
        each = _seconds_per_step(task, phase, bert_config, config, strategy)
        seconds += each * phase.num_steps / total
        gc.collect()  # A step and its function refer to each other.
    steps = int(config.train_hours * 3600 / seconds)
    # That of the chief, in all processes.
    steps = strategies.all_gather(strategy, min(steps, 2**31 - 1))[0]
    if not steps:
        raise ValueError(
            f"--train_hours={config.train_hours} is less than one step, which "
            f"takes {seconds:.1f} s. Increase it, or choose a smaller model "
            "or batch."
        )
    logging.info(
        "--train_hours=%g: %d steps of %.3f s",
        config.train_hours,
        steps,
        seconds,
    )
    return steps


def _seconds_per_step(task, phase, bert_config, config, strategy) -> float:
    """Returns the seconds of one step, without the first calls."""
    model = loop.build_model(task, bert_config, strategy, config)
    schedule = optimizers.make_schedule(config, phase.num_steps, 0)
    training_step = loop.make_step(task, model, config, strategy, schedule)
    batches = loop.read_batches(
        strategy, [phase], 0, phase.num_steps, config.steps_per_loop
    )
    begin, count, num_calls = time.monotonic(), 0, 0
    for _, end, batch in batches:
        values = training_step(batch, config.steps_per_loop)
        values["loss"].numpy()  # Waits for the device.
        num_calls += 1
        if num_calls == _UNTIMED_CALLS:
            begin, count = time.monotonic(), end
        elif num_calls > _UNTIMED_CALLS and strategies.of_chief(
            strategy, lambda b=begin: time.monotonic() - b > _TIMED_SECONDS
        ):
            break
    return (time.monotonic() - begin) / max(end - count, 1)
