"""Values of each step -> steps.jsonl, progress lines, TensorBoard."""

import contextlib
import errno
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecords.io import atomic_files, json_files
from tfrecords.io.json_files import Finite

LOG = "steps.jsonl"
SESSIONS = os.path.join("logs", "sessions.jsonl")
# Forms of their lines, see `json_files.check`.
LINE = {"step": int}
SESSION = {"seconds": Finite, "peak_memory_gb": Finite}
_SHOW_SECONDS = 10.0
_METRIC_WORDS = {
    "f1": "F1",
    "lm": "LM",
    "matthews": "Matthews",
    "mrr": "MRR",
    "ndcg@10": "nDCG@10",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
}
# As tf.summary.scalar, which TensorFlow 2.21 leaves to the package TensorBoard,
# writes it.
_SCALAR = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})


@contextlib.contextmanager
def session(run_dir: str, is_chief: bool) -> Iterator[None]:
    """Appends the time and memory of training to those of the run.

    Also if it is stopped.

    Args:
      run_dir: folder of the run.
      is_chief: whether this process writes.
    """
    started = time.monotonic()
    try:
        yield
    finally:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In kilobytes, but on macOS in bytes.
        peak *= 1 if sys.platform == "darwin" else 1024
        if is_chief and os.path.isdir(run_dir):
            line = {
                "seconds": round(time.monotonic() - started, 1),
                "peak_memory_gb": round(peak / 1e9, 2),
            }
            path = os.path.join(run_dir, SESSIONS)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def format_seconds(seconds: float) -> str:
    """Returns a duration as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"


def format_values(values: Mapping[str, float | None]) -> str:
    """Returns `name value` pairs, separated by two spaces."""
    return "  ".join(
        f"{name} {'undefined' if value is None else f'{value:.4g}'}"
        for name, value in values.items()
    )


def metric_words(name: str) -> str:
    """Returns the name of a metric as a person reads it: macro F1."""
    return " ".join(_METRIC_WORDS.get(word, word) for word in name.split("_"))


def read_lines(path: str, form: Mapping) -> Iterator[tuple[int, dict]]:
    """Yields the end of each line of a log, in bytes, and its values.

    Logs are informational: a damaged line, and one whose step is not between
    those around it, is left out with a warning. A last line without its end is
    still being written, or was cut by a kill.

    Args:
      path: path of the log, which need not exist.
      form: `LINE` or `SESSION`.

    Raises:
      OSError: if it cannot be read.
    """
    if not os.path.lexists(path):
        return
    faults: list[str] = []
    # A line is yielded when the one that follows has a higher step.
    before, last = None, -1
    for line in _parse_lines(path, form, faults):
        if before and line.step <= before.step:
            odd = line
            if last < line.step < before.step:
                odd, before = before, line
            faults.append(
                f"{path}:{odd.number}: step {odd.step} is not between the "
                "steps of the lines around it. Remove the line."
            )
            continue
        if before:
            yield before.end, before.values
            last = before.step
        before = line
    if before:
        yield before.end, before.values
    if faults:
        logging.warning("%s Lines left out: %d.", faults[0], len(faults))


class _Line(NamedTuple):
    number: int  # From 1 on.
    step: int  # Its number, in a log without steps.
    end: int  # In bytes.
    values: dict


def _parse_lines(
    path: str, form: Mapping, faults: list[str]
) -> Iterator[_Line]:
    """Yields the lines of a form; adds messages of others to `faults`."""
    end = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            end += len(line)
            try:
                values = json_files.parse(line, f"{path}:{number}", form)
            except ValueError as error:
                faults.append(str(error))
                continue
            yield _Line(number, values.get("step", number), end, values)


def _truncate(path: str, start_step: int) -> int:
    """Truncates a log after `start_step`, or before an incomplete line.

    Returns:
      The step of the last remaining line; -1 if none remains.
    """
    end, last = 0, -1
    for line_end, values in read_lines(path, LINE):
        if values["step"] <= start_step:
            end, last = line_end, values["step"]
    os.truncate(path, end)
    return last


class Writer:
    """Writes named values to TensorBoard and to steps.jsonl, a line per step.

    Args:
      folder: folder of TensorBoard's files and `steps.jsonl`.
      start_step: updates applied before this process; lines of later steps,
        which a resumed run repeats, are dropped.
    """

    def __init__(self, folder: str, start_step: int = 0):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.tensorboard = tf.summary.create_file_writer(folder)
        self.lines_path = os.path.join(folder, LOG)
        self.last_step = -1  # Step 0 is an evaluation before training.
        if os.path.exists(self.lines_path):
            self.last_step = _truncate(self.lines_path, start_step)

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Writes the values of one step to steps.jsonl and TensorBoard.

        None, of an undefined value, is null in the one and not in the other.
        """
        self.note([{"step": step} | dict(values)])
        defined = {n: x for n, x in values.items() if x is not None}
        self.draw(step, defined)

    def draw(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars to TensorBoard.

        Raises:
          OSError: with the path of the folder, if the disk is full.
        """
        with atomic_files.naming(self.folder):
            try:
                with self.tensorboard.as_default(step=step):
                    for name, value in values.items():
                        scalar = tf.cast(value, tf.float32)
                        tf.summary.write(name, scalar, metadata=_SCALAR)
                self.tensorboard.flush()
            except tf.errors.ResourceExhaustedError as error:
                # TensorFlow's error for a full disk.
                message = os.strerror(errno.ENOSPC)
                raise OSError(errno.ENOSPC, message) from error

    def note(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Appends lines to steps.jsonl and syncs it to disk.

        Args:
          lines: lines with increasing steps. Existing lines of the first of
            these steps and of later ones are replaced, so that each step has
            one line.

        Raises:
          OSError: with the path of the log, e.g. if the disk is full; then
            none of the lines is written.
        """
        if not lines:
            return
        if lines[0]["step"] <= self.last_step:
            _truncate(self.lines_path, lines[0]["step"] - 1)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        atomic_files.append(self.lines_path, text)
        self.last_step = lines[-1]["step"]


def _is_overflow(line: Mapping[str, float]) -> bool:
    """Returns whether this is a float16 overflow, which LossScale handles."""
    return (
        line.get("loss_scale", 0.0) > 1.0
        and not math.isfinite(line["gradient_norm"])
        and math.isfinite(line["loss"])
    )


class Report:
    """Logs every step, and prints a progress line every `log_every_steps`.

    Values stay on the device until the next progress line. The line and
    TensorBoard show the means over the steps since the previous line; of the
    learning rate, the current value. Between these, the first step and a step
    at least every 10 s are printed with their own values, which TensorBoard
    does not show.

    Args:
      writer: writer of the values; None in processes that write nothing.
      num_train_steps: steps of the run, for the ETA.
      log_every_steps: optimizer steps between two lines.
      where: step -> its batch and a recovery hint, for an error message.
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
        # Time and step of the last line on the screen.
        self.shown_at, self.shown_step = self.since, None

    def add(
        self,
        step: int,
        values: Mapping[str, tf.Tensor],
        examples: float,
        tokens: int,
    ) -> None:
        """Adds the values of one TrainStep call, which makes 1 or more updates.

        Args:
          step: number of the last update.
          values: [updates] float32 by name.
          examples: examples of these updates, over all replicas.
          tokens: tokens of these updates, including padding.

        Raises:
          FloatingPointError: as in `flush`.
        """
        self.unread.append((step, values))
        self.examples += examples
        self.tokens += tokens
        count = next(iter(values.values())).shape[0]
        is_due = step % self.log_every_steps < count
        if is_due or step == self.num_train_steps:
            self.flush()
            self._print(step)
            return
        waited = time.monotonic() - self.shown_at
        if self.shown_step is None or waited >= _SHOW_SECONDS:
            self._show(step, values)

    def _show(self, step: int, values: Mapping[str, tf.Tensor]) -> None:
        """Prints the values of one step, which waits until it is done."""
        if not self.writer:
            return
        text = f"step {step}/{self.num_train_steps}  "
        text += format_values({n: float(v[-1]) for n, v in values.items()})
        now = time.monotonic()
        if self.shown_step is None:  # It includes tracing: no basis of an ETA.
            end = f"after {format_seconds(now - self.shown_at)}"
        else:
            each = (now - self.shown_at) / (step - self.shown_step)
            left = each * (self.num_train_steps - step)
            end = f"ETA {format_seconds(left)}"
        logging.info("%s  %s", text, end)
        self.shown_at, self.shown_step = now, step

    def flush(self) -> None:
        """Writes all added values to steps.jsonl; call before a checkpoint.

        Raises:
          FloatingPointError: if a value is not finite, except in a float16
            overflow, see LossScale. The message has the step, its batch and
            the last checkpoint.
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
        """Prints a progress line, and writes its values to TensorBoard."""
        seconds = time.monotonic() - self.since
        steps = len(self.window)
        means = {}
        for name in self.window[-1]:
            column = [line[name] for line in self.window]
            finite = [value for value in column if math.isfinite(value)]
            means[name] = float(np.mean(finite)) if finite else math.nan
        del means["step"]
        if "learning_rate" in means:
            means["learning_rate"] = self.window[-1]["learning_rate"]
        if "loss_scale" in means:
            means["skipped"] = sum(_is_overflow(line) for line in self.window)
        means["examples/s"] = self.examples / seconds
        means["tokens/s"] = self.tokens / seconds
        self.window.clear()
        self.examples, self.tokens = 0.0, 0
        self.since = time.monotonic()
        self.shown_at, self.shown_step = self.since, step
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
        """Excludes the time of the body from examples/s, tokens/s and ETA."""
        start = time.monotonic()
        yield
        seconds = time.monotonic() - start
        self.since += seconds
        self.shown_at += seconds
