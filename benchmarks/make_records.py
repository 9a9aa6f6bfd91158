r"""Text files -> examples/s of our and of other pre-training record makers.

    python -m benchmarks.make_records --input_file='text/*.txt' \
      --vocab_file=vocab.txt --original_file=create_pretraining_data.py \
      --json=make_records.json

Each implementation is run as a command that turns the same text, with one
sentence per line, into TFRecords on the same disk. Times include its start-up.

    ours           run_scripts/make_pretraining_records.py, all cores
    original       google-research/bert's script, if given by --original_file,
                   with TensorFlow 2's compat.v1; one process
    model_garden   the script of tf-models-official; one process
    write          only writes our records again, with TensorFlow; one process,
                   timed without its start-up
"""

import importlib.util
import json
import os
import statistics
import sys
import tempfile
from typing import NamedTuple

from absl import flags, logging

from benchmarks import processes, turns
from run_scripts.flags import common_flags
from tfrecords.io import json_files, records
from tfrecords.text import documents, text_files
from tfrecords.text.vocab import VocabularyOptions

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_string(
    "input_file",
    None,
    "Text files, plain or .gz; names or globs, separated by commas.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "original_file",
    "",
    "create_pretraining_data.py of google-research/bert, with its "
    "tokenization.py in the same folder; timed if given.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "max_megabytes",
    8.0,
    "Size of the text to use, from the start of each file; 0 for all text. The "
    "other implementations keep all tokens and examples in memory.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "dupe_factor",
    10,
    "Times to repeat the text, with different masks.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_seq_length", 128, "Tokens in an example.", 5, flag_values=FLAGS
)
flags.DEFINE_integer(
    "rounds", 3, "Rounds to time.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_string(
    "json", "", "File for the results of all rounds.", flag_values=FLAGS
)
common_flags.require(FLAGS, "input_file", "vocab_file")

_MAX_PREDICTIONS = 20
_MODEL_GARDEN = "official.nlp.data.create_pretraining_data"
# Runs the original with compat.v1 in place of TensorFlow 1.
_AS_TENSORFLOW_1 = (
    "import sys, runpy, tensorflow as tf; "
    "sys.modules['tensorflow'] = tf.compat.v1; "
    "sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[2:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
# Reads all records, then writes them; the last line printed is the seconds of
# writing.
_WRITE = """
import sys, time
import tensorflow as tf
from tfrecords.io import records
found = records.Records.open(sys.argv[1])
serialized = found.get(range(len(found)))
begin = time.perf_counter()
with tf.io.TFRecordWriter(sys.argv[2]) as writer:
    for record in serialized:
        writer.write(record)
print(time.perf_counter() - begin)
"""


class Turn(NamedTuple):
    """Measurements of one command.

    Attributes:
      seconds: from start to end.
      num_examples: number of examples written.
      peak_bytes: peak resident size of its largest process.
    """

    seconds: float
    num_examples: int
    peak_bytes: int


def write_text(folder: str) -> int:
    """Writes documents, one sentence per line; returns the total bytes."""
    read = text_files.ReadStatistics()
    paths = text_files.expand_inputs(FLAGS.input_file)
    share = FLAGS.max_megabytes * 1e6 / len(paths) or float("inf")
    for number, source in enumerate(paths):
        path = os.path.join(folder, f"{number:05d}.txt")
        with open(path, "w", encoding="utf-8") as file:
            for document in documents.read_file(source, statistics=read):
                for sentence in document.sentences:
                    if file.tell() < share:  # A document may be a book.
                        file.write(sentence + "\n")
                file.write("\n")
                if file.tell() >= share:
                    break
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def commands(folder: str) -> dict[str, list[str]]:
    """Returns the command of each implementation, without its output flag."""
    common = [
        f"--input_file={folder}/*.txt",
        f"--vocab_file={FLAGS.vocab_file}",
        f"--do_lower_case={str(FLAGS.do_lower_case).lower()}",
        f"--max_seq_length={FLAGS.max_seq_length}",
        f"--max_predictions_per_seq={_MAX_PREDICTIONS}",
        f"--dupe_factor={FLAGS.dupe_factor}",
    ]
    python = [sys.executable]
    found = {
        "ours": [
            *python,
            "-m",
            "run_scripts.make_pretraining_records",
            "--input_format=sentences",
            *common,
        ]
    }
    if FLAGS.original_file:
        folder = os.path.dirname(os.path.abspath(FLAGS.original_file))
        found["original"] = [*python, "-c", _AS_TENSORFLOW_1, folder]
        found["original"] += [FLAGS.original_file, *common]
    if importlib.util.find_spec("official"):
        found["model_garden"] = [*python, "-m", _MODEL_GARDEN, *common]
    return found


def run(name: str, command: list[str], folder: str) -> Turn:
    """Runs a command once, writing to an empty folder.

    Raises:
      RuntimeError: if it fails, with the end of its output.
    """
    output = os.path.join(folder, name)
    flag = "output_dir" if name == "ours" else "output_file"
    ended = processes.run(name, [*command, f"--{flag}={output}"])
    if name == "ours":
        output = os.path.join(output, "train")
    num_examples = len(records.Records.open(output))
    return Turn(ended.seconds, num_examples, ended.peak_bytes)


def write_alone(folder: str, num_examples: int) -> Turn:
    """Returns the measurements of only writing our records."""
    source = os.path.join(folder, "ours", "train")
    output = os.path.join(folder, "write")
    ended = processes.run(
        "write", [sys.executable, "-c", _WRITE, source, output]
    )
    seconds = float(ended.output.split()[-1])
    return Turn(seconds, num_examples, ended.peak_bytes)


def one_round(found: dict[str, list[str]], number: int) -> dict[str, Turn]:
    """Returns the measurements of one round; the order rotates by round."""
    taken = {}
    for name in turns.order(list(found), number):
        with tempfile.TemporaryDirectory() as folder:
            taken[name] = run(name, found[name], folder)
            if name == "ours":
                examples = taken[name].num_examples
                taken["write"] = write_alone(folder, examples)
        logging.info("round %d  %s  %s", number + 1, name, taken[name])
    return taken


def format_table(rounds: list[dict[str, Turn]]) -> str:
    """Returns a Markdown table of medians, and of our speed-up per round."""
    lines = [
        "| | examples | seconds | examples/s "
        "| speed-up of ours, median (range) | peak MB of a process |",
        "| --- | --- | --- | --- | --- | --- |",
    ]

    def rate(turn):
        return turn.num_examples / turn.seconds

    for name in rounds[0]:
        mine = [taken[name] for taken in rounds]
        ratios = turns.ratios(
            [rate(taken["ours"]) for taken in rounds], list(map(rate, mine))
        )
        median, least, most = turns.spread(ratios)
        lines.append(
            f"| {name} | {mine[0].num_examples} "
            f"| {statistics.median(t.seconds for t in mine):.1f} "
            f"| {statistics.median(map(rate, mine)):.0f} "
            f"| {median:.2f}x ({least:.2f} to {most:.2f}) "
            f"| {max(t.peak_bytes for t in mine) / 1e6:.0f} |"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Times all implementations."""
    common_flags.parse(FLAGS, argv, __doc__)
    with tempfile.TemporaryDirectory() as folder:
        num_bytes = write_text(folder)
        found = commands(folder)
        logging.info("%.1f MB of text; %s", num_bytes / 1e6, ", ".join(found))
        rounds = [one_round(found, number) for number in range(FLAGS.rounds)]
    print(f"{num_bytes / 1e6:.1f} MB of text, {os.cpu_count()} cores")
    print(format_table(rounds))
    if FLAGS.json:
        report = {
            "bytes": num_bytes,
            "cores": os.cpu_count(),
            "rounds": [
                {name: turn._asdict() for name, turn in taken.items()}
                for taken in rounds
            ],
        }
        json_files.write(FLAGS.json, report)
        logging.info("%s", json.dumps(report["rounds"][-1]))


if __name__ == "__main__":
    common_flags.run(main)
