"""Command -> its output, the seconds that it took, and its peak memory."""

import json
import os
import subprocess
import sys
from typing import NamedTuple

# Linux counts the size of the process that starts another as a peak of the new
# one too, so a small process starts the command. Peaks of all its processes are
# included: those it does not wait for become children of the launcher (36 is
# PR_SET_CHILD_SUBREAPER).
_LAUNCHER = """
import ctypes, json, os, resource, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1)
begin = time.perf_counter()
done = subprocess.run(
    sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
)
seconds = time.perf_counter() - begin
try:
    while os.wait():
        pass
except ChildProcessError:
    pass
peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
output = done.stdout.decode(errors="replace")
print(json.dumps([seconds, peak_bytes, done.returncode, output]))
"""


class Ended(NamedTuple):
    """A command that has ended.

    Attributes:
      seconds: from its start to its end.
      peak_bytes: peak resident size of its largest process.
      status: exit status; minus the signal's number if a signal ended it.
      output: what it printed to stdout and stderr.
    """

    seconds: float
    peak_bytes: int
    status: int
    output: str


def measure(command: list[str]) -> Ended:
    """Runs a command, whatever its exit status."""
    answer = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, *command],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
    ).stdout
    return Ended(*json.loads(answer))


def run(name: str, command: list[str]) -> Ended:
    """Runs a command.

    Raises:
      RuntimeError: if it fails, with `name` and the end of its output.
    """
    ended = measure(command)
    if ended.status:
        end = ended.output[-2000:]
        raise RuntimeError(f"{name}: exit code {ended.status}\n{end}")
    return ended
