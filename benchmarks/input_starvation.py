r"""Pre-training records -> step time when reading them, and on one batch.

    python -m benchmarks.input_starvation --input_file='text/*.txt' \
      --vocab_file=vocab.txt --size=tiny,base

One process alternates between training steps on batches that it reads, shuffles
and parses as in training, and as many steps on a single batch in memory. The
ratio of the two times is 1 if steps never wait for input. Small models wait
first, as their steps are short. Records are those of --records, which may be
masked when read, packed or without pairs, or are made from --input_file in a
temporary folder.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags, logging

from benchmarks import comparison, settings, turns, work
from benchmarks.peers import ours
from bert_tf import config as bert_config
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import loop, strategies
from bert_tf.workflows import training_phases
from run_scripts.flags import common_flags
from tfrecords.io import json_files, records
from tfrecords.text.vocab import VocabularyOptions

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_integer(
    "max_seq_length", 128, "Tokens in an example.", 5, flag_values=FLAGS
)
settings.define_machine_flags(FLAGS)
flags.DEFINE_string(
    "input_file",
    "",
    "Text files, plain or .gz; names or globs, separated by commas.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "records",
    "",
    "Folder of records to use instead of --input_file.",
    flag_values=FLAGS,
)
flags.DEFINE_list("size", ["tiny", "base"], "Model sizes.", flag_values=FLAGS)
flags.DEFINE_integer(
    "batch_size", 32, "Rows in a batch.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_enum(
    "precision",
    "bfloat16",
    list(work.PRECISIONS),
    "Dtype of the matrix products.",
    flag_values=FLAGS,
)
FLAGS.set_default("seconds", 10.0)
_WARM_UP_STEPS = 3


def make_records(folder: str) -> str:
    """Returns a folder of records: --records, or records made from the text.

    Raises:
      ValueError: if neither is given.
    """
    if FLAGS.records:
        return FLAGS.records
    if not (FLAGS.input_file and FLAGS.vocab_file):
        raise ValueError(
            "Give --records=FOLDER, or --input_file=TEXT and --vocab_file."
        )
    subprocess.run(
        [
            sys.executable,
            "-m",
            "run_scripts.make_pretraining_records",
            f"--input_file={FLAGS.input_file}",
            f"--vocab_file={FLAGS.vocab_file}",
            f"--do_lower_case={FLAGS.do_lower_case}",
            f"--output_dir={folder}",
            f"--max_seq_length={FLAGS.max_seq_length}",
            "--dupe_factor=1",
        ],
        check=True,
    )
    return os.path.join(folder, "train")


def timed(step, next_batch, num_steps: int) -> float:
    """Returns the mean seconds of a step, until the last loss is computed."""
    begin = time.perf_counter()
    for _ in range(num_steps):
        loss = step(next_batch())["loss"]
    loss.numpy()
    return (time.perf_counter() - begin) / num_steps


def measure(size: str, found: records.Records) -> dict:
    """Returns seconds per step for each source of batches, and the ratios."""
    sizes = found.manifest.sizes
    config = bert_config.BertConfig.from_name(
        size,
        vocab_size=found.manifest.vocabulary["size"],
        max_position_embeddings=max(512, sizes["max_seq_length"]),
    )
    strategy = strategies.make_strategy("one_device")
    task = pretraining.task_of(found, config)
    settings = training_config.TrainingConfig(
        output_dir="unused",
        seed=1,
        precision=FLAGS.precision,
        learning_rate=1e-5,
    )
    model = loop.build_model(task, config, strategy, settings)
    step = ours.make_train_steps(task, model, strategy, settings)
    phase = training_phases.make_phase(
        found,
        task.schema,
        sizes,
        num_steps=10**9,
        vocab_size=config.vocab_size,
        batch_size=FLAGS.batch_size,
        seed=1,
    )
    data = strategies.distribute_batches(strategy, phase.batches, 0)
    batch = next(data)
    sources = {"records": lambda: next(data), "one batch": lambda: batch}
    for source in sources.values():
        timed(step, source, _WARM_UP_STEPS)
    once = timed(step, sources["one batch"], 1)
    count = turns.steps_a_round(once, FLAGS.seconds)
    seconds = {name: [] for name in sources}
    for number in range(FLAGS.rounds):
        for name in turns.order(list(sources), number):
            seconds[name].append(timed(step, sources[name], count))
        logging.info("round %d of %d", number + 1, FLAGS.rounds)
    ratios = turns.ratios(seconds["records"], seconds["one batch"])
    return {"size": size, "steps": count, "seconds": seconds, "ratios": ratios}


def format_table(rows: list[dict]) -> str:
    """Returns a Markdown table."""
    lines = [
        "| | ms, one batch | ms, records | ratio, median (range) |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        median, least, most = turns.spread(row["ratios"])
        one, real = (
            1e3 * statistics.median(row["seconds"][name])
            for name in ("one batch", "records")
        )
        lines.append(
            f"| {row['size']} | {one:.1f} | {real:.1f} "
            f"| {median:.3f} ({least:.3f} to {most:.3f}) |"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Times each model size."""
    common_flags.parse(FLAGS, argv, __doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = make_records(folder)
        if not os.path.isdir(path):
            raise ValueError(f"--records={path} is not a folder. Give one.")
        found = records.Records.open(path)
        rows = [measure(size, found) for size in FLAGS.size]
        report = {"machine": comparison.machine([]), "rows": rows}
    print(report["machine"])
    print(f"{FLAGS.batch_size} rows, {FLAGS.precision}, {len(found)} records")
    print(format_table(report["rows"]))
    if FLAGS.json:
        json_files.write(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
