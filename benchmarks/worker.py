"""Requests on a pipe -> answers of one implementation.

`turns.Worker` starts a process for each implementation, which then has its own
threads, memory and version of Keras.
"""

import os
import sys
import time
import traceback
from multiprocessing import connection

from benchmarks import peers, work


def peak_bytes() -> int:
    """Returns the peak resident size of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return 1024 * int(fields["VmHWM"].split()[0])


def answer(step: work.Step, batch, num_steps: int):
    """Runs steps on one batch.

    Args:
      step: step of the implementation.
      batch: a prepared batch.
      num_steps: number of steps.

    Returns:
      Seconds of each step, and their losses.
    """
    seconds, losses = [], []
    for _ in range(num_steps):
        begin = time.perf_counter()
        losses.append(step.run(batch))
        seconds.append(time.perf_counter() - begin)
    return seconds, losses


def serve(pipe: connection.Connection) -> None:
    """Answers requests until it receives None.

    A number is that of steps to run; what else is not "peak" is a batch for
    them.
    """
    name, setting, options = pipe.recv()
    step = peers.make(name, setting, options)
    pipe.send(step.num_parameters)
    batch = None
    while (question := pipe.recv()) is not None:
        if question == "peak":
            pipe.send(peak_bytes())
        elif isinstance(question, int):
            pipe.send(answer(step, batch, question))
        else:
            batch = step.prepare(question)
            pipe.send(True)


def main() -> None:
    """Serves on the pipe whose file descriptor is the only argument."""
    pipe = connection.Connection(int(sys.argv[1]))
    try:
        serve(pipe)
    except EOFError:
        pass  # The parent has exited.
    except Exception as error:
        traceback.print_exc()
        pipe.send(error.__class__(f"{error}"))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
