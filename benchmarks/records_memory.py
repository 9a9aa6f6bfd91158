r"""Repeated text files -> memory over time while making records, as a PNG.

    python -m benchmarks.records_memory --input_file='text/*' \
      --vocab_file=vocab.txt --times=1,10,100 --png=records_memory.png

Runs `make_pretraining_records` on 1, 10 and 100 copies of the text, in files
with names in random order, and records the resident size of its driver and of
each worker twice a second. Linux only, since it reads /proc.
"""

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from absl import flags, logging

from benchmarks import processes, settings
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files, records
from tfrecords.text import text_files
from tfrecords.text.vocab import VocabularyOptions

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_string(
    "input_file",
    None,
    "Text files, plain or .gz; names or globs, separated by commas.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "times", ["1", "10"], "Numbers of copies of the text.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "num_processes", 2, "Number of workers.", lower_bound=2, flag_values=FLAGS
)
flags.DEFINE_integer(
    "dupe_factor",
    5,
    "Times to repeat the text, with different masks.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_string("png", "", "File for the curves.", flag_values=FLAGS)
flags.DEFINE_string("json", "", "File for all results.", flag_values=FLAGS)
common_flags.require(FLAGS, "input_file", "vocab_file")

_PERIOD_SECONDS = 0.5


class Curve(NamedTuple):
    """Measurements of one run.

    Attributes:
      times: number of copies of the text.
      num_bytes: total size of the text.
      num_examples: number of examples written.
      seconds: time of each sample, from the start; the last one is the end.
      driver_bytes: resident size of the driver in each sample.
      worker_bytes: resident size of the largest worker in each sample.
    """

    times: int
    num_bytes: int
    num_examples: int
    seconds: list[float]
    driver_bytes: list[int]
    worker_bytes: list[int]


def resident_bytes(pid: int) -> int:
    """Returns the resident size of a process; 0 if it has exited."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def children(pid: int) -> list[int]:
    """Returns the child processes of a process, and their descendants."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        texts = [
            pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text("utf-8")
            for task in tasks
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = [int(word) for text in texts for word in text.split()]
    return found + [grandchild for c in found for grandchild in children(c)]


def repeat_text(paths: list[str], times: int, folder: str) -> int:
    """Makes `times` links to each file, in random order; returns the bytes."""
    copies = [path for path in paths for _ in range(times)]
    random.Random(times).shuffle(copies)
    for number, path in enumerate(copies):
        # The file extension determines how a file is read.
        end = "".join(pathlib.Path(path).suffixes)
        link = os.path.join(folder, f"{number:06d}{end}")
        os.symlink(os.path.abspath(path), link)
    return times * sum(os.path.getsize(path) for path in paths)


def watch(child: subprocess.Popen) -> tuple[list, list, list]:
    """Samples times, driver and largest worker bytes until a process exits.

    The last time is that of its exit, where it has no size.
    """
    begin = time.monotonic()
    seconds, drivers, workers = [], [], []
    while True:
        seconds.append(round(time.monotonic() - begin, 2))
        drivers.append(resident_bytes(child.pid))
        workers.append(max(map(resident_bytes, children(child.pid)), default=0))
        if child.returncode is not None:
            return seconds, drivers, workers
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_PERIOD_SECONDS)


def run(paths: list[str], times: int) -> Curve:
    """Makes the records of the repeated text and measures memory.

    Raises:
      RuntimeError: if the script fails, with the end of its output.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as printed,
    ):
        text = os.path.join(folder, "text")
        os.mkdir(text)
        num_bytes = repeat_text(paths, times, text)
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "run_scripts.make_pretraining_records",
                f"--input_file={text}/*",
                f"--vocab_file={FLAGS.vocab_file}",
                f"--do_lower_case={str(FLAGS.do_lower_case).lower()}",
                f"--output_dir={folder}/records",
                f"--dupe_factor={FLAGS.dupe_factor}",
                f"--num_processes={FLAGS.num_processes}",
            ],
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        samples = watch(child)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
        processes.check("make_pretraining_records", child.returncode, output)
        found = records.Records.open(os.path.join(folder, "records", "train"))
        return Curve(times, num_bytes, len(found), *samples)


def draw(curves: list[Curve], path: str) -> None:
    """Plots memory over the percentage of each run's time."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for number, curve in enumerate(curves):
        passed = [100 * s / curve.seconds[-1] for s in curve.seconds]
        label = (
            f"{curve.num_bytes / 1e6:,.0f} MB of text, "
            f"{curve.num_examples:,} examples, {curve.seconds[-1]:,.0f} s"
        )
        for name, sizes, style in (
            ("largest worker", curve.worker_bytes, "-"),
            ("driver", curve.driver_bytes, "--"),
        ):
            axes.plot(
                passed,
                [size / 1e6 for size in sizes],
                style,
                color=f"C{number}",
                label=f"{name}: {label}" if style == "-" else name,
            )
    axes.set_xlabel("time, % of the run")
    axes.set_ylabel("resident size, MB")
    axes.set_ylim(0)
    axes.set_title("Making pre-training records: memory of each process")
    axes.legend(loc="lower right", fontsize="small")
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)
    pyplot.close(figure)


def main(argv: list[str]) -> None:
    """Runs the script on each number of copies and plots memory."""
    common_flags.parse(FLAGS, argv, __doc__)
    numbers = settings.numbers("times", FLAGS.times)
    paths = text_files.expand_inputs(FLAGS.input_file)
    curves = []
    print("| text, MB | examples | seconds | peak MB, a worker | driver |")
    print("| --- | --- | --- | --- | --- |")
    for times in numbers:
        curves.append(curve := run(paths, times))
        print(
            f"| {curve.num_bytes / 1e6:.1f} | {curve.num_examples} "
            f"| {curve.seconds[-1]:.0f} | {max(curve.worker_bytes) / 1e6:.0f} "
            f"| {max(curve.driver_bytes) / 1e6:.0f} |",
            flush=True,
        )
        if FLAGS.json:
            content = [curve._asdict() for curve in curves]
            json_files.write(FLAGS.json, {"curves": content})
    if FLAGS.png:
        draw(curves, FLAGS.png)
        logging.info("drew %s", FLAGS.png)


if __name__ == "__main__":
    common_flags.run(main)
