"""Weights after a step -> a checkpoint, evaluated, by the chief alone."""

import os
import time

from bert_tf.training import strategies
from tfrecords.io import atomic_files


class Saver:
    """Writes checkpoints and evaluates them, by the chief alone."""

    def __init__(self, strategy, saved, report, on_checkpoint):
        self.strategy = strategy
        self.saved = saved
        self.report = report
        self.on_checkpoint = on_checkpoint
        self.is_regular = lambda step: True
        self.last_step = 0
        run_dir = os.path.dirname(saved.folder)
        self.evaluated = os.path.join(run_dir, "logs", "evaluated.json")

    def save(self, step: int, stops: bool) -> None:
        """Writes a checkpoint, and evaluates it if it is a regular one.

        What stops has no time for an evaluation: the next start does it.
        """
        begin = time.monotonic()
        self.report.flush()  # No checkpoint of a loss that is not finite.
        if strategies.is_chief(self.strategy):
            self.saved.save(step, self.is_regular)
            if not stops:
                self.evaluate(step)
        strategies.barrier(self.strategy)
        self.last_step = step
        self.report.pause(time.monotonic() - begin)

    def begin(self, step: int) -> None:
        """Does what a run that stopped after `step` may have left undone."""
        self.last_step = step
        if step and strategies.is_chief(self.strategy):
            self.evaluate(step)

    def evaluate(self, step: int) -> None:
        """Evaluates the weights after a step, if that is due and not done."""
        if not (self.on_checkpoint and self.is_regular(step)):
            return
        if os.path.exists(self.evaluated):
            if atomic_files.read_json(self.evaluated)["step"] == step:
                return
        self.on_checkpoint(step)
        atomic_files.write_json(self.evaluated, {"step": step})

    def recovery_hint(self) -> str:
        """Returns words for somebody whose loss is not finite."""
        last = "There is no checkpoint yet"
        if self.last_step:
            last = f"The last good one is {self.saved.path(self.last_step)}"
        return (
            f"{last}. Start in another --output_dir, with it as "
            "--init_checkpoint if you like, and a lower --learning_rate; or "
            "look at these records."
        )
