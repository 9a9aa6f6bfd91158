r"""GLUE rows, not padded -> rows/s of our and of other implementations.

    python -m benchmarks.real_lengths --data_dir=glue --vocab_file=vocab.txt \
      --task_name=SST-2,CoLA,MRPC --json=real_lengths.json

`--data_dir` has one subfolder per task. An evenly spaced sample of its training
rows is converted to records. All implementations get the same rows, in batches
of --batch_size:

    ours             tfrecords.reading.batches pads to one of a few lengths
                     chosen by static_lengths.choose; rows are sorted by length,
                     in training within a window only
    hugging_face     each batch is padded to its longest row
    others           all batches are padded to --max_seq_length; as they take
                     the same time, only --padded_batches of them are run

Batches are in memory before timing starts. Steps are those of
benchmarks/train_step.py and benchmarks/inference.py, with two classes.
"""

import os
import statistics
import tempfile

import numpy as np
from absl import flags, logging

from benchmarks import comparison, peers, settings, turns
from bert_tf.tasks import glue
from run_scripts.flags import common_flags
from tfrecords.io import json_files, records
from tfrecords.reading import batches, static_lengths
from tfrecords.tasks import glue_examples, glue_tables
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text.vocab import VocabularyOptions

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_integer(
    "max_seq_length", 128, "Tokens in an example.", 5, flag_values=FLAGS
)
settings.define_flags(FLAGS)
flags.DEFINE_string(
    "data_dir", None, "Folder with one subfolder per task.", flag_values=FLAGS
)
flags.DEFINE_list(
    "task_name", ["SST-2", "CoLA", "MRPC"], "GLUE tasks.", flag_values=FLAGS
)
flags.DEFINE_list(
    "mode", ["inference", "training"], "Modes to time.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "rows", 512, "Rows in the sample.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_integer(
    "batch_size", 32, "Rows in a batch.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_integer(
    "padded_batches",
    2,
    "Batches per round for implementations that pad to --max_seq_length.",
    lower_bound=1,
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "data_dir", "vocab_file")
FLAGS.set_default("rounds", 3)
# No hugging_face_compiled, since torch.compile is limited to eight lengths.
FLAGS.set_default("peers", "model_garden,keras_hub,hugging_face")


def sample_lines(lines: list[str], num_rows: int, has_header: bool):
    """Returns the header, if any, and evenly spaced rows."""
    header, rows = lines[:has_header], lines[has_header:]
    count = min(num_rows, len(rows))
    return header + [rows[i * len(rows) // count] for i in range(count)]


def make_sample(name: str, folder: str) -> records.Records:
    """Writes and opens records of a sample of a task's training rows.

    Raises:
      ValueError: if the task's file is missing, or has less than a batch.
    """
    task = glue_tables.find(name)
    file = task.files["train"]
    source = os.path.join(FLAGS.data_dir, task.name, file)
    if not os.path.isfile(source):
        raise ValueError(
            f"{source} is missing. Give as --data_dir a folder that contains "
            f"the official folder {task.name}, or give another --task_name."
        )
    with open(source, encoding="utf-8", newline="\n") as lines:
        lines = list(lines)
    has_header = task.header is None
    num_rows = min(FLAGS.rows, len(lines) - has_header)
    # Whole batches: of a rest, each way of batching would leave out other rows.
    num_rows -= num_rows % FLAGS.batch_size
    if not num_rows:
        raise ValueError(
            f"{source} has fewer rows than a batch, --batch_size="
            f"{FLAGS.batch_size}. Give a smaller one."
        )
    sample = sample_lines(lines, num_rows, has_header)
    with open(os.path.join(folder, file), "w", encoding="utf-8") as aside:
        aside.writelines(sample)
    found = glue_examples.make_records(
        task,
        folder,
        os.path.join(folder, "records"),
        tokenizer_lib.BertTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case),
        max_seq_length=FLAGS.max_seq_length,
        dev_share=0.0,
    )
    return records.Records.open(found["train"])


def cut(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns a batch truncated to its longest row."""
    mask = batch["input_mask"]
    length = int(mask.sum(axis=1).max())
    return {
        name: value[:, :length] if value.shape == mask.shape else value
        for name, value in batch.items()
    }


def make_batches(found: records.Records, is_training: bool, schema) -> dict:
    """Returns the batches of all rows: "ours", "cut" and "padded"."""
    sizes = {"max_seq_length": FLAGS.max_seq_length}
    lengths = static_lengths.read(found, FLAGS.max_seq_length)
    buckets = static_lengths.choose(lengths, FLAGS.max_seq_length)
    logging.info("%.1f tokens per row; lengths %s", lengths.mean(), buckets)
    num_batches = len(found) // FLAGS.batch_size
    keywords = {"batch_size": FLAGS.batch_size}
    if is_training:
        make = batches.training_batches
        keywords |= {"seed": 1, "num_batches": num_batches}
    else:
        make = batches.evaluation_batches

    def arrays(**more):
        dataset = make(found, schema, sizes, **keywords, **more)
        return list(dataset.take(num_batches).as_numpy_iterator())

    padded = arrays()
    return {
        "ours": arrays(bucket_lengths=buckets),
        "cut": [cut(batch) for batch in padded],
        "padded": padded[: FLAGS.padded_batches],
    }


def batches_of(name: str, made: dict) -> list:
    """Returns the batches for an implementation."""
    if name == comparison.OURS:
        return made["ours"]
    return made["cut" if name.startswith("hugging_face") else "padded"]


def rows_per_second(given: list, seconds: list[float]) -> list[float]:
    """Returns rows/s in each round, from the mean seconds of its steps."""
    rows = sum(batch["is_real_example"].sum() for batch in given) / len(given)
    return [float(rows) / s for s in seconds]


def format_table(rows: list[dict]) -> str:
    """Returns a Markdown table."""
    lines = [
        "| | rows/s | speed-up of ours, median (range) | positions per row "
        "| peak MB |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        median, least, most = turns.spread(row["ratios"])
        lines.append(
            f"| {row['name']} | {statistics.median(row['rows_per_second']):.1f}"
            f" | {median:.2f}x ({least:.2f} to {most:.2f}) "
            f"| {row['places']:.1f} | {row['peak_bytes'] / 1e6:.0f} |"
        )
    return "\n".join(lines)


def rows_of(names: list[str], found: list, made: dict) -> list[dict]:
    """Returns a row of the table for each implementation that ran."""
    rows = []
    for name in names:
        groups = [group for group in found if name in group]
        if not groups:
            continue
        given = batches_of(name, made)
        speeds, ours = [], []
        for group in groups:
            speeds += rows_per_second(given, group[name].seconds)
            ours += rows_per_second(
                made["ours"], group[comparison.OURS].seconds
            )
        rows.append(
            {
                "name": name,
                "rows_per_second": speeds,
                "ratios": turns.ratios(ours, speeds),
                "places": float(
                    np.mean([b["input_mask"].shape[1] for b in given])
                ),
                "peak_bytes": max(g[name].peak_bytes for g in groups),
            }
        )
    return rows


def compare(task_name: str, mode: str, precision: str, folder: str) -> dict:
    """Times one task; prints its table and returns the results."""
    names = comparison.with_ours(FLAGS.peers)
    (setting,) = settings.combinations(
        FLAGS.size,
        ["fine_tuning"],
        [FLAGS.max_seq_length],
        [FLAGS.batch_size],
        [precision],
        is_training=mode == "training",
    )
    schema = glue.Glue(glue_tables.find(task_name)).schema
    sample = make_sample(task_name, folder)
    made = make_batches(sample, setting.is_training, schema)
    found, failures = comparison.run_groups(
        FLAGS,
        setting,
        names,
        batches={name: batches_of(name, made) for name in names},
    )
    rows = rows_of(names, found, made)
    lengths = sorted({b["input_mask"].shape[1] for b in made["ours"]})
    title = f"{task_name}, {mode}, {FLAGS.size}, {precision}"
    print(f"\n{title}; our lengths: {lengths}")
    print(format_table(rows), flush=True)
    for failure in failures:
        print(f"skipped: {failure}", flush=True)
    return {
        "title": title,
        "lengths": lengths,
        "rows": rows,
        "left_out": failures,
    }


def main(argv: list[str]) -> None:
    """Times all tasks, modes and precisions."""
    common_flags.parse(FLAGS, argv, __doc__)
    modes = settings.among("mode", FLAGS.mode, ["inference", "training"])
    settings.among("peers", FLAGS.peers, peers.PEERS)
    if FLAGS.rows % FLAGS.batch_size:
        raise ValueError(
            f"--rows={FLAGS.rows} should be a multiple of --batch_size="
            f"{FLAGS.batch_size}, so that all implementations get the same "
            "rows."
        )
    report = {"machine": comparison.machine(FLAGS.peers), "tables": []}
    print(report["machine"])
    for task_name in FLAGS.task_name:
        for mode in modes:
            for precision in FLAGS.precision:
                with tempfile.TemporaryDirectory() as folder:
                    table = compare(task_name, mode, precision, folder)
                report["tables"].append(table)
                if FLAGS.json:
                    json_files.write(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
