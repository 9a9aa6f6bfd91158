"""Values of each step -> progress lines and TensorBoard."""

import json
import math
import os
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords import whole_files


def format_seconds(seconds: float) -> str:
    """Returns a duration as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"


def format_values(values: Mapping[str, float]) -> str:
    """Returns `name value` pairs, two blanks between them."""
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


class Writer:
    """Writes named values to TensorBoard and, a line a step, to steps.jsonl.

    Args:
      folder: for TensorBoard's files and `steps.jsonl`.
      start_step: updates done before this process; lines of later steps,
        which a restart is about to do again, are dropped.
    """

    def __init__(self, folder: str, start_step: int = 0):
        os.makedirs(folder, exist_ok=True)
        self.tensorboard = tf.summary.create_file_writer(folder)
        self.lines_path = os.path.join(folder, "steps.jsonl")
        if os.path.exists(self.lines_path):
            with open(self.lines_path, encoding="utf-8") as file:
                lines = [line for line in file if line.endswith("}\n")]
            kept = [ln for ln in lines if json.loads(ln)["step"] <= start_step]
            with whole_files.whole_file(self.lines_path) as file:
                file.writelines(kept)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Adds the values of one step."""
        with self.tensorboard.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.tensorboard.flush()
        with open(self.lines_path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | dict(values)) + "\n")


def _check_finite(step: int, values: Mapping[str, float]) -> None:
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise FloatingPointError(
            f"{', '.join(bad)} not finite at step {step}. Go on from an "
            "earlier checkpoint in another --output_dir, with a lower "
            "--learning_rate, or look at the records."
        )


class Report:
    """Prints a line and writes TensorBoard every `log_every_steps`.

    Values of a step stay on the device until a line is due; the line shows
    their means since the last one.

    Args:
      writer: for the values.
      num_train_steps: where the run ends, for the ETA.
      examples_per_step: over all replicas.
      tokens_per_example: padding included.
      log_every_steps: optimizer steps between two lines.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        num_train_steps: int,
        examples_per_step: int,
        tokens_per_example: int,
        log_every_steps: int,
    ):
        self.writer = writer
        self.num_train_steps = num_train_steps
        self.examples_per_step = examples_per_step
        self.tokens_per_example = tokens_per_example
        self.log_every_steps = log_every_steps
        self.pending: list[Mapping[str, tf.Tensor]] = []
        self.since = time.monotonic()

    def step(self, step: int, values: Mapping[str, tf.Tensor]) -> None:
        """Takes the values of update number `step`.

        Raises:
          FloatingPointError: if a mean since the last line is not finite.
        """
        self.pending.append(values)
        if step % self.log_every_steps and step != self.num_train_steps:
            return
        means = {
            name: float(np.mean([float(v[name]) for v in self.pending]))
            for name in values
        }
        each = (time.monotonic() - self.since) / len(self.pending)
        means["examples/s"] = self.examples_per_step / each
        means["tokens/s"] = means["examples/s"] * self.tokens_per_example
        self.pending.clear()
        self.writer.write(step, means)
        logging.info(
            "step %d/%d  %s  ETA %s",
            step,
            self.num_train_steps,
            format_values(means),
            format_seconds(each * (self.num_train_steps - step)),
        )
        _check_finite(step, means)
        self.since = time.monotonic()

    def check(self, step: int) -> None:
        """Raises FloatingPointError if a value since the last line is wrong.

        To be called before a checkpoint, so that none is written of weights
        that are lost.
        """
        for values in self.pending:
            _check_finite(step, {n: float(v) for n, v in values.items()})

    def pause(self, seconds: float) -> None:
        """Leaves time spent on checkpoints and evaluation out of the rates."""
        self.since += seconds
