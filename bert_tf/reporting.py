"""Values of each step -> progress lines and TensorBoard."""

import json
import math
import os
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging


def format_seconds(seconds: float) -> str:
    """Returns a duration as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"


def format_values(values: Mapping[str, float]) -> str:
    """Returns `name value` pairs, two blanks between them."""
    return "  ".join(
        f"{name} {value:.3e}"
        if value and abs(value) < 1e-3
        else f"{name} {value:.4f}"
        for name, value in values.items()
    )


class Report:
    """Prints a line and writes TensorBoard every `log_every_steps`.

    Values of a step stay on the device until a line is due; the line shows
    their means since the last one.

    Args:
      folder: for TensorBoard's files, and `steps.jsonl` with every line.
      num_train_steps: where the run ends, for the ETA.
      start_step: updates done before this process.
      examples_per_step: over all replicas.
      tokens_per_example: padding included.
      log_every_steps: optimizer steps between two lines.
    """

    def __init__(
        self,
        folder: str,
        *,
        num_train_steps: int,
        start_step: int,
        examples_per_step: int,
        tokens_per_example: int,
        log_every_steps: int,
    ):
        self.num_train_steps = num_train_steps
        self.examples_per_step = examples_per_step
        self.tokens_per_example = tokens_per_example
        self.log_every_steps = log_every_steps
        os.makedirs(folder, exist_ok=True)
        self.writer = tf.summary.create_file_writer(folder)
        self.lines_path = os.path.join(folder, "steps.jsonl")
        self._drop_lines_after(start_step)
        self.pending: list[Mapping[str, tf.Tensor]] = []
        self.since = time.monotonic()

    def _drop_lines_after(self, step: int) -> None:
        """Forgets lines of steps that a restart is about to do again."""
        if not os.path.exists(self.lines_path):
            return
        with open(self.lines_path, encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("}\n")]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        with open(f"{self.lines_path}.tmp", "w", encoding="utf-8") as file:
            file.writelines(kept)
        os.replace(f"{self.lines_path}.tmp", self.lines_path)

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
        seconds = time.monotonic() - self.since
        each = seconds / len(self.pending)
        means["examples/s"] = self.examples_per_step / each
        means["tokens/s"] = means["examples/s"] * self.tokens_per_example
        self.pending.clear()
        self.write(step, means)
        left = format_seconds(each * (self.num_train_steps - step))
        logging.info(
            "step %d/%d  %s  ETA %s",
            step,
            self.num_train_steps,
            format_values(means),
            left,
        )
        bad = [name for name, mean in means.items() if not math.isfinite(mean)]
        if bad:
            raise FloatingPointError(
                f"{', '.join(bad)} not finite at step {step}. Lower "
                "--learning_rate or look at the records."
            )
        self.since = time.monotonic()

    def pause(self, seconds: float) -> None:
        """Leaves time spent on checkpoints and evaluation out of the rates."""
        self.since += seconds

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Adds values to TensorBoard and to steps.jsonl."""
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.writer.flush()
        with open(self.lines_path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | dict(values)) + "\n")
