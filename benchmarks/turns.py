"""Implementations, each in its own process -> their seconds per step, by round.

In every round each implementation runs its steps while the others wait; the
order rotates from round to round. Ratios are computed within a round, so that
changes in the speed of the machine affect both sides.
"""

import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from absl import logging

from benchmarks import work
from bert_tf import config

# Idle threads of TensorFlow and torch spin for some milliseconds before sleep.
_PAUSE_SECONDS = 0.05
# Fraction of a core that waiting processes may use without a warning.
_IDLE_SHARE = 0.05
_WARM_UP_STEPS = 2
_MAX_STEPS = 1000


class Worker:
    """A process that runs steps of one implementation on request.

    The constructor starts it; it is ready after `wait`.

    Args:
      name: a key of `peers.PEERS`.
      setting: task, sizes and precision.
      options: keyword arguments for its `make`.
      python: the Python that runs it.

    Attributes:
      num_parameters: trainable weights; set by `wait`.
    """

    def __init__(
        self,
        name: str,
        setting: work.Setting,
        options=None,
        python: str = sys.executable,
    ):
        self.name = name
        self._output = tempfile.TemporaryFile()
        self._pipe, end = multiprocessing.Pipe()
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
        if not setting.is_training:
            # As in run_scripts/predict.py, for every implementation.
            environment[config.FROZEN_WEIGHTS] = "1"
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", str(end.fileno())],
            pass_fds=[end.fileno()],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        end.close()
        self._pipe.send((name, setting, options or {}))
        self.num_parameters = None

    def wait(self) -> None:
        """Waits until the model is built.

        Raises:
          RuntimeError: as in `ask`.
        """
        self.num_parameters = self._receive()

    def ask(self, question):
        """Sends a request to the process and returns its answer.

        Raises:
          RuntimeError: if it fails, with the end of its output.
        """
        try:
            self._pipe.send(question)
        except (BrokenPipeError, ConnectionResetError):
            pass  # `_receive` raises the error.
        return self._receive()

    def _receive(self):
        try:
            answer = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            answer = None
        if answer is None or isinstance(answer, Exception):
            code = self._process.wait()
            self._output.seek(0)
            printed = self._output.read().decode(errors="replace")[-2000:]
            cause = (
                "killed, out of memory?" if code == -9 else f"exit code {code}"
            )
            raise RuntimeError(f"{self.name}: {cause}\n{printed}")
        return answer

    def cpu_seconds(self) -> float:
        """Returns the CPU time that the process has used so far."""
        with open(f"/proc/{self._process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._output.close()


class Times(NamedTuple):
    """Measurements of a worker over all rounds.

    Attributes:
      seconds: mean seconds of a step in each round.
      step_seconds: seconds of each step of all rounds.
      first_loss: loss of the first step.
      last_loss: loss of the last step.
      peak_bytes: peak resident size.
      num_parameters: trainable weights.
    """

    seconds: list[float]
    step_seconds: list[float]
    first_loss: float
    last_loss: float
    peak_bytes: int
    num_parameters: int


def order(names: list[str], number: int) -> list[str]:
    """Returns the names in the order of a round, rotated by its number."""
    first = number % len(names)
    return names[first:] + names[:first]


def ratios(theirs: list[float], ours: list[float]) -> list[float]:
    """Returns theirs / ours for each round."""
    return [a / b for a, b in zip(theirs, ours, strict=True)]


def spread(values: list[float]) -> tuple[float, float, float]:
    """Returns the median, minimum and maximum."""
    return statistics.median(values), min(values), max(values)


def steps_a_round(seconds_of_a_step: float, seconds: float) -> int:
    """Returns the number of steps that take about `seconds`, at least one."""
    return min(_MAX_STEPS, max(1, math.ceil(seconds / seconds_of_a_step)))


def warm_up(worker: Worker, seconds: float) -> tuple[int, float]:
    """Runs the first steps of a worker, which trace and compile.

    Args:
      worker: a worker whose `wait` has returned.
      seconds: approximate duration of its turn in a round.

    Returns:
      Number of steps in a round, and the loss of the first step.
    """
    _, losses = worker.ask(_WARM_UP_STEPS)
    (once,), _ = worker.ask(1)
    return steps_a_round(once, seconds), losses[0]


def take(
    workers: dict[str, Worker],
    num_rounds: int,
    warm: dict[str, tuple[int, float]],
) -> dict[str, Times]:
    """Times all rounds and returns the measurements of each worker.

    Args:
      workers: by name; all are running.
      num_rounds: rounds to time.
      warm: name -> result of `warm_up`.
    """
    means = {name: [] for name in workers}
    steps = {name: [] for name in workers}
    last = {}
    for number in range(num_rounds):
        for name in order(list(workers), number):
            time.sleep(_PAUSE_SECONDS)
            (each, losses), share = _alone(workers, name, warm[name][0])
            means[name].append(statistics.fmean(each))
            steps[name] += each
            last[name] = losses[-1]
            if share > _IDLE_SHARE:
                logging.warning(
                    "others used %.0f %% of a core during the turn of %s",
                    100 * share,
                    name,
                )
        logging.info(
            "round %d of %d  %s",
            number + 1,
            num_rounds,
            "  ".join(f"{n} {1e3 * means[n][-1]:.1f} ms" for n in workers),
        )
    return {
        name: Times(
            means[name],
            steps[name],
            warm[name][1],
            last[name],
            worker.ask("peak"),
            worker.num_parameters,
        )
        for name, worker in workers.items()
    }


def _alone(workers, name, num_steps):
    """Returns a worker's answer, and the others' CPU use, as cores."""
    others = [worker for n, worker in workers.items() if n != name]
    used = sum(worker.cpu_seconds() for worker in others)
    begin = time.perf_counter()
    answer = workers[name].ask(num_steps)
    passed = time.perf_counter() - begin
    used = sum(worker.cpu_seconds() for worker in others) - used
    return answer, used / passed


def groups(names: list[str], at_once: int) -> list[list[str]]:
    """Returns groups of `at_once` names, all starting with the first."""
    first, *others = names
    size = max(1, at_once - 1)
    return [
        [first, *others[i : i + size]]
        for i in range(0, max(1, len(others)), size)
    ]
