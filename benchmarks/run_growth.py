r"""Text, steps and restarts -> seconds and memory of a pre-training run.

    python -m benchmarks.run_growth --input_file='text/*' \
      --vocab_file=vocab.txt --json=run_growth.json

Three tables of complete commands, each in a new process, for a model so small
that everything around its steps shows: the start of a run on more and more
records; runs of more and more steps, with a checkpoint and an evaluation after
every 200; and a run that is stopped and resumed more and more often. Linux
only, since memory is read from /proc.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from absl import flags

from benchmarks import comparison, processes, records_memory, settings
from bert_tf import config as bert_config
from run_scripts.flags import common_flags
from tfrecords.io import json_files
from tfrecords.text import text_files, vocab

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, vocab.VocabularyOptions, do_lower_case=True)
flags.DEFINE_string("input_file", None, "Text files.", flag_values=FLAGS)
flags.DEFINE_list(
    "times", ["1", "4", "16"], "Numbers of copies of the text.", FLAGS
)
flags.DEFINE_list(
    "steps", ["1000", "2000", "4000", "8000"], "Numbers of steps.", FLAGS
)
flags.DEFINE_list("restarts", ["0", "2", "8"], "Numbers of restarts.", FLAGS)
flags.DEFINE_string("json", "", "File for all results.", flag_values=FLAGS)
common_flags.require(FLAGS, "input_file", "vocab_file")

_STEPS_PER_CHECKPOINT = 200
_SEQ_LENGTH, _BATCH_SIZE = 32, 8


class Cost(NamedTuple):
    """Measurements of a run.

    Attributes:
      seconds: from the start of the process to its end.
      early_bytes: resident size after a quarter of the time.
      late_bytes: resident size at the end: median of the last tenth.
    """

    seconds: float
    early_bytes: int
    late_bytes: int


def run(module: str, *arguments: str) -> Cost:
    """Runs a script of this project and measures it.

    Raises:
      RuntimeError: if it fails, with the end of its output.
    """
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(
            [sys.executable, "-m", f"run_scripts.{module}", *arguments],
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        seconds, sizes, _ = records_memory.watch(child)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
        processes.check(module, child.returncode, output)
    # The last sample before the end may be of a process that is ending.
    sizes = [size for size in sizes if size][:-1] or sizes
    late = statistics.median_high(sizes[-max(1, len(sizes) // 10) :])
    return Cost(seconds[-1], sizes[len(sizes) // 4], late)


def make_records(folder: str, times: int) -> None:
    """Writes records of some copies of the text, in train/ and held_out/."""
    text = f"{folder}-text"
    os.mkdir(text)
    paths = text_files.expand_inputs(FLAGS.input_file)
    records_memory.repeat_text(paths, times, text)
    run(
        "make_pretraining_records",
        f"--input_file={text}/*",
        f"--vocab_file={FLAGS.vocab_file}",
        f"--do_lower_case={FLAGS.do_lower_case}",
        f"--output_dir={folder}",
        f"--max_seq_length={_SEQ_LENGTH}",
        "--max_predictions_per_seq=5",
        "--dupe_factor=1",
        "--held_out_prob=0.01",
        "--num_processes=2",
    )


def train(records: str, output_dir: str, steps: int, *arguments: str) -> Cost:
    """Pre-trains on records, with evaluations, for a number of steps."""
    return run(
        "run_pretraining",
        f"--input_file={records}/train",
        f"--eval_input_file={records}/held_out",
        "--max_eval_steps=4",
        f"--vocab_file={FLAGS.vocab_file}",
        f"--do_lower_case={FLAGS.do_lower_case}",
        f"--bert_config_file={records}.json",
        f"--output_dir={output_dir}",
        f"--train_batch_size={_BATCH_SIZE}",
        f"--num_train_steps={steps}",
        "--num_warmup_steps=1",
        f"--save_checkpoints_steps={_STEPS_PER_CHECKPOINT}",
        "--nodoctor",  # It refuses copies of a text, as duplicates.
        *arguments,
    )


def measure_starts(folder: str) -> list[dict]:
    """Times the first step on records of more and more text."""
    rows = []
    for times in map(int, FLAGS.times):
        records = os.path.join(folder, f"records-{times}")
        make_records(records, times)
        config = bert_config.BertConfig(
            vocab_size=len(vocab.read(FLAGS.vocab_file)),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
        )
        config.to_json_file(f"{records}.json")
        manifest = json_files.read(f"{records}/train/manifest.json")
        cost = train(records, f"{folder}/start-{times}", 1)
        rows.append(
            {"examples": manifest["statistics"]["examples"]} | cost._asdict()
        )
    return rows


def measure_steps(folder: str, records: str) -> list[dict]:
    """Times runs of more and more steps."""
    return [
        {"steps": steps}
        | train(records, f"{folder}/steps-{steps}", steps)._asdict()
        for steps in map(int, FLAGS.steps)
    ]


def measure_restarts(folder: str, records: str) -> list[dict]:
    """Times one run, stopped and resumed more and more often."""
    rows, steps = [], int(FLAGS.steps[0])
    for restarts in map(int, FLAGS.restarts):
        output_dir = f"{folder}/restarts-{restarts}"
        costs = [
            train(
                records,
                output_dir,
                steps,
                f"--stop_at_step={steps * (i + 1) // (restarts + 1)}",
            )
            for i in range(restarts)
        ]
        costs.append(train(records, output_dir, steps))
        seconds = sum(cost.seconds for cost in costs)
        rows.append(
            {"restarts": restarts}
            | costs[-1]._asdict()
            | {"seconds": round(seconds, 2)}
        )
    return rows


def format_table(rows: list[dict]) -> str:
    """Returns a Markdown table with what each further unit costs."""
    (unit, *_) = rows[0]
    lines = [
        f"| {unit} | seconds | seconds for one more | MB, early | MB, late |",
        "| --- | --- | --- | --- | --- |",
    ]
    for before, row in zip([None, *rows], rows, strict=False):
        more = ""
        if before:
            added = row["seconds"] - before["seconds"]
            more = f"{added / (row[unit] - before[unit]):.3g}"
        lines.append(
            f"| {row[unit]} | {row['seconds']:.1f} | {more} "
            f"| {row['early_bytes'] / 1e6:.0f} "
            f"| {row['late_bytes'] / 1e6:.0f} |"
        )
    return "\n".join(lines)


def show(report: dict, name: str, rows: list[dict]) -> None:
    """Prints a table, and writes all results so far to --json."""
    report[name] = rows
    print(f"\n{format_table(rows)}", flush=True)
    if FLAGS.json:
        json_files.write(FLAGS.json, report)


def main(argv: list[str]) -> None:
    """Measures all three, and prints their tables."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings.numbers("times", FLAGS.times)
    settings.numbers("steps", FLAGS.steps)
    settings.numbers("restarts", FLAGS.restarts, least=0)
    report = {"machine": comparison.machine([])}
    print(report["machine"])
    with tempfile.TemporaryDirectory() as folder:
        records = os.path.join(folder, f"records-{FLAGS.times[0]}")
        show(report, "starts", measure_starts(folder))
        show(report, "steps", measure_steps(folder, records))
        show(report, "restarts", measure_restarts(folder, records))


if __name__ == "__main__":
    common_flags.run(main)
