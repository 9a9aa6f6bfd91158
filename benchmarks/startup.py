r"""Scripts -> seconds and memory of --help and of an unknown flag.

    python -m benchmarks.startup --json=startup.json
    python -m benchmarks.startup --scripts=score_squad,make_vocab --rounds=3

Starts each script of run_scripts `--rounds` times as a user would, with --help
and with an unknown flag. Prints the median seconds from start to exit, their
range, and the peak resident size of the process.
"""

import os
import pathlib
import platform
import sys
from typing import NamedTuple

from absl import flags

import run_scripts
from benchmarks import processes, settings, turns
from run_scripts.flags import common_flags
from tfrecords.io import json_files

FLAGS = flags.FlagValues()
flags.DEFINE_list(
    "scripts",
    [],
    "Names of scripts, such as run_glue. Default: all of them.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "rounds", 5, "Starts of each script.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_string(
    "json", "", "File for the results of all rounds.", flag_values=FLAGS
)

# Argument of a script -> expected exit status.
ARGUMENTS = {"--help": 0, "--no_such_flag": 1}


class Start(NamedTuple):
    """Measurements of one script with one argument.

    Attributes:
      script: module of run_scripts.
      argument: a key of `ARGUMENTS`.
      seconds: from start to exit, in each round.
      peak_bytes: peak resident size, in each round.
    """

    script: str
    argument: str
    seconds: list[float]
    peak_bytes: list[int]


def all_scripts() -> list[str]:
    """Returns the modules of run_scripts that `python -m` can run."""
    folder = pathlib.Path(*run_scripts.__path__)
    modules = [
        path.stem
        for path in folder.glob("*.py")
        if "\ndef main(" in path.read_text("utf-8")
    ]
    packages = [path.parent.name for path in folder.glob("*/__main__.py")]
    return sorted(modules + packages)


def start(script: str, argument: str) -> tuple[float, int]:
    """Starts a script once.

    Returns:
      Seconds until it exits, and its peak resident size in bytes.

    Raises:
      RuntimeError: if its exit status is not the one in `ARGUMENTS`.
    """
    ended = processes.measure(
        [sys.executable, "-m", f"run_scripts.{script}", argument]
    )
    if ended.status != ARGUMENTS[argument]:
        raise RuntimeError(
            f"{script} {argument}: exit status {ended.status}\n"
            f"{ended.output[-2000:]}"
        )
    return ended.seconds, ended.peak_bytes


def measure(scripts: list[str], num_rounds: int) -> list[Start]:
    """Starts each script with each argument once per round."""
    starts = {
        (script, argument): Start(script, argument, [], [])
        for script in scripts
        for argument in ARGUMENTS
    }
    start(scripts[0], "--help")  # Loads files into the page cache.
    for _ in range(num_rounds):
        for key, times in starts.items():
            seconds, peak_bytes = start(*key)
            times.seconds.append(round(seconds, 4))
            times.peak_bytes.append(peak_bytes)
    return list(starts.values())


def format_table(starts: list[Start]) -> str:
    """Returns a Markdown table with a row for each script."""
    lines = [
        "| script | --help, s (range) | MB | unknown flag, s (range) | MB |",
        "| --- | --- | --- | --- | --- |",
    ]
    for script in dict.fromkeys(each.script for each in starts):
        cells = [script]
        for each in starts:
            if each.script == script:
                median, least, most = turns.spread(each.seconds)
                cells.append(f"{median:.2f} ({least:.2f} to {most:.2f})")
                cells.append(f"{max(each.peak_bytes) / 1e6:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Starts the scripts, prints the table, writes `--json`."""
    common_flags.parse(FLAGS, argv, __doc__)
    known = all_scripts()
    scripts = settings.among("scripts", FLAGS.scripts or known, known)
    starts = measure(scripts, FLAGS.rounds)
    print(format_table(starts))
    if FLAGS.json:
        machine = {"cores": len(os.sched_getaffinity(0))}
        machine["python"] = platform.python_version()
        content = {"machine": machine, "starts": [s._asdict() for s in starts]}
        json_files.write(FLAGS.json, content)


if __name__ == "__main__":
    common_flags.run(main)
