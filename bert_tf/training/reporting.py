"""Values of each step -> a log of every step, progress lines, TensorBoard."""

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords.io import atomic_files

LOG = "steps.jsonl"


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


def _truncate(path: str, start_step: int) -> int:
    """Cuts a log after the line of `start_step`, and what a kill left.

    Returns:
      The step of the last line that stays; 0 if none does.
    """
    end, last = 0, 0
    with open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"}\n"):
                break
            step = json.loads(line)["step"]
            if step > start_step:
                break
            end += len(line)
            last = step
    os.truncate(path, end)
    return last


class Writer:
    """Writes named values to TensorBoard and, a line a step, to steps.jsonl.

    Args:
      folder: for TensorBoard's files and `steps.jsonl`.
      start_step: updates done before this process; lines of later steps,
        which a restart is about to do again, are dropped.
    """

    def __init__(self, folder: str, start_step: int = 0):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.tensorboard = tf.summary.create_file_writer(folder)
        self.lines_path = os.path.join(folder, LOG)
        self.last_step = 0
        if os.path.exists(self.lines_path):
            self.last_step = _truncate(self.lines_path, start_step)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Adds the values of one step to both."""
        self.note([{"step": step} | dict(values)])
        self.draw(step, values)

    def draw(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a point to each curve of TensorBoard.

        Raises:
          OSError: that names the folder, if the disk is full.
        """
        with atomic_files.naming(self.folder):
            try:
                with self.tensorboard.as_default(step=step):
                    for name, value in values.items():
                        tf.summary.scalar(name, value)
                self.tensorboard.flush()
            except tf.errors.ResourceExhaustedError as error:
                # What TensorFlow calls a full disk.
                message = os.strerror(errno.ENOSPC)
                raise OSError(errno.ENOSPC, message) from error

    def note(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Adds lines to steps.jsonl; they are on the disk afterwards.

        Args:
          lines: with steps that rise. Lines that are there from the first of
            them on go: evaluated once more, a step still has one line.

        Raises:
          OSError: that names the log, as of a full disk; none of the lines is
            there then.
        """
        if not lines:
            return
        if lines[0]["step"] <= self.last_step:
            _truncate(self.lines_path, lines[0]["step"] - 1)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        atomic_files.append(self.lines_path, text)
        self.last_step = lines[-1]["step"]


def _is_overflow(line: Mapping[str, float]) -> bool:
    """Returns whether float16's loss scale has met one, and deals with it."""
    return (
        line.get("loss_scale", 0.0) > 1.0
        and not math.isfinite(line["gradient_norm"])
        and math.isfinite(line["loss"])
    )


class Report:
    """Logs every step, and prints a line every `log_every_steps`.

    Values stay on the device until a line is due. The line and TensorBoard
    show means since the last line, but the current learning rate.

    Args:
      writer: for the values; None in processes that write nothing.
      num_train_steps: where the run ends, for the ETA.
      log_every_steps: optimizer steps between two lines.
      where: step -> its batch and how to recover, in words for an error.
    """

    def __init__(
        self,
        writer: Writer | None,
        *,
        num_train_steps: int,
        log_every_steps: int,
        where: Callable[[int], str] = "step {}".format,
    ):
        self.writer = writer
        self.num_train_steps = num_train_steps
        self.log_every_steps = log_every_steps
        self.where = where
        self.unread: list[tuple[int, Mapping[str, tf.Tensor]]] = []
        self.window: list[dict[str, float]] = []
        self.examples = 0.0
        self.tokens = 0
        self.since = time.monotonic()

    def add(
        self,
        step: int,
        values: Mapping[str, tf.Tensor],
        examples: float,
        tokens: int,
    ) -> None:
        """Takes the values of updates up to number `step`.

        Args:
          step: number of the last of them.
          values: [updates] float32 by name.
          examples: of these updates, over all replicas.
          tokens: of these updates, padding included.

        Raises:
          FloatingPointError: as `flush` does.
        """
        self.unread.append((step, values))
        self.examples += examples
        self.tokens += tokens
        count = next(iter(values.values())).shape[0]
        is_due = step % self.log_every_steps < count
        if is_due or step == self.num_train_steps:
            self.flush()
            self._print(step)

    def flush(self) -> None:
        """Logs what was added; to be called before a checkpoint, too.

        Raises:
          FloatingPointError: if a loss or gradient is not finite, with step,
            batch and last checkpoint; float16 may skip steps, see LossScale.
        """
        lines = []
        for last, values in self.unread:
            columns = {n: v.numpy().tolist() for n, v in values.items()}
            rows = [
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            ]
            for step, row in enumerate(rows, last - len(rows) + 1):
                lines.append({"step": step} | row)
        self.unread.clear()
        self.window += lines
        if self.writer:
            self.writer.note(lines)
        for line in lines:
            bad = [n for n, v in line.items() if not math.isfinite(v)]
            if bad and not _is_overflow(line):
                raise FloatingPointError(
                    f"{', '.join(bad)} not finite at {self.where(line['step'])}"
                )

    def _print(self, step: int) -> None:
        """Prints and draws the means since the last line."""
        seconds = time.monotonic() - self.since
        steps = len(self.window)
        means = {}
        for name in self.window[-1].keys() - {"step"}:
            column = [line[name] for line in self.window]
            finite = [value for value in column if math.isfinite(value)]
            means[name] = float(np.mean(finite)) if finite else math.nan
        means = {n: means[n] for n in self.window[-1] if n in means}
        if "learning_rate" in means:
            means["learning_rate"] = self.window[-1]["learning_rate"]
        if "loss_scale" in means:
            means["skipped"] = sum(_is_overflow(line) for line in self.window)
        means["examples/s"] = self.examples / seconds
        means["tokens/s"] = self.tokens / seconds
        self.window.clear()
        self.examples, self.tokens = 0.0, 0
        self.since = time.monotonic()
        if not self.writer:
            return
        self.writer.draw(step, means)
        each = seconds / steps
        logging.info(
            "step %d/%d  %s  ETA %s",
            step,
            self.num_train_steps,
            format_values(means),
            format_seconds(each * (self.num_train_steps - step)),
        )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves time spent on checkpoints and evaluation out of the rates."""
        began = time.monotonic()
        yield
        self.since += time.monotonic() - began
