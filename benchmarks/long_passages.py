r"""Passages of several kinds and lengths -> memory and seconds of an answer.

    python -m benchmarks.long_passages --vocab_file=vocab.txt \
      --input_file=book.txt --num_characters=144000,360000,1000000

Exports a question answering model with one small layer, and
answers a question to each passage in a fresh process, so the times are those of
everything but the encoder. Prints the peak resident size of the process in MB,
how much of it is due to the passage, and the seconds of the answer. Linux only,
since it reads /proc.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from absl import flags

from benchmarks import processes, settings
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files
from tfrecords.text import text_files, vocab
from tfrecords.text.vocab import VocabularyOptions

_LENGTH = 384
# Kind -> function from characters and words of the vocabulary to a passage.
KINDS: dict[str, Callable[[int, list[str]], str]] = {
    # Four tokens: windows begin at multiples of 128, so all of them are equal.
    "sentence": lambda size, _: _fill(["the painter lived."], size),
    "letter": lambda size, _: _fill(["a"], size),  # The most tokens.
    # Too long for the vocabulary, so each is a single token.
    "long_word": lambda size, _: _fill(["a" * 1000], size),
    "random": lambda size, words: _fill(
        random.Random(size).choices(words, k=size), size
    ),
}

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_string(
    "input_file", "", "Text for real passages, if given.", flag_values=FLAGS
)
flags.DEFINE_list(
    "kinds", list(KINDS), "Kinds of other passages.", flag_values=FLAGS
)
flags.DEFINE_list(
    "num_characters",
    ["144000", "360000", "1000000"],
    "Lengths of the passages.",
    flag_values=FLAGS,
)
flags.DEFINE_string("json", "", "File for all results.", flag_values=FLAGS)
common_flags.require(FLAGS, "vocab_file")

# Not getrusage, which also counts the process that started this one.
_ANSWER = """
import json, sys, time
from bert_tf.serving import predictions

def peak_bytes():
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = [line for line in file if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

loaded = predictions.load(sys.argv[1], "text")
answer = loaded.text
answer(["who ?"], ["The painter lived in the town."])
before = peak_bytes()
passage = sys.stdin.read()
begin = time.perf_counter()
answers = answer(["who ?"], [passage])
seconds = time.perf_counter() - begin
count = int(answers["num_answers"][0])
print(json.dumps([count, before, peak_bytes(), seconds]))
"""


class Answer(NamedTuple):
    """Measurements of one answer.

    Attributes:
      kind: a key of `KINDS`, or "real".
      num_characters: length of the passage.
      num_answers: number of answers found.
      before_bytes: peak resident size after an answer to a short passage.
      peak_bytes: peak resident size after the answer to this passage.
      seconds: time of this answer.
    """

    kind: str
    num_characters: int
    num_answers: int
    before_bytes: int
    peak_bytes: int
    seconds: float


def _fill(words: list[str], size: int) -> str:
    """Returns the words, repeated, as a text of `size` characters."""
    text = " ".join(words) + " "
    return (text * (1 + size // len(text)))[:size]


def export(vocab_file: str, do_lower_case: bool, folder: str) -> str:
    """Exports a small model; returns the folder of the SavedModel.

    Its best starts and ends are in the middle of a window, so that nearly all
    their pairs are answers, as in a trained model.
    """
    import numpy as np

    from bert_tf.checkpoint import model_folders
    from bert_tf.config import BertConfig
    from bert_tf.model import models
    from bert_tf.serving import export_model, kinds

    config = BertConfig(
        vocab_size=len(vocab.read(vocab_file)),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=16,
        max_position_embeddings=_LENGTH,
        initializer_range=0.1,
    )
    model = models.for_task("spans", config, 0)
    weights = model_folders.weight_names(model)
    middle = (np.arange(_LENGTH) - _LENGTH // 2) / 20
    for name, column, values in (
        (
            "encoder/embeddings/position_embeddings",
            (..., 0),
            np.exp(-(middle**2)),
        ),
        ("spans/dense/kernel", (0, ...), 9.0),
    ):
        array = weights[name].numpy()
        array[column] = values
        weights[name].assign(array)
    metadata = {"task": "spans", "do_lower_case": do_lower_case}
    model_dir = os.path.join(folder, "model")
    with atomic_files.atomic_folder(model_dir) as aside:
        model_folders.save_model(
            aside,
            model,
            metadata=metadata,
            vocabulary=pathlib.Path(vocab_file).read_bytes(),
        )
    path = os.path.join(folder, "export")
    export_model.export(
        kinds.ExportConfig(model_dir=model_dir, export_dir=path)
    )
    return path


def answer(path: str, kind: str, passage: str) -> Answer:
    """Answers a question to a passage in a fresh process.

    Raises:
      RuntimeError: if the process fails, with the end of its output.
    """
    done = subprocess.run(
        [sys.executable, "-c", _ANSWER, path],
        input=passage.encode(),
        capture_output=True,
    )
    processes.check(kind, done.returncode, done.stderr.decode(errors="replace"))
    return Answer(kind, len(passage), *json.loads(done.stdout))


def format_row(measured: Answer) -> str:
    """Returns a row of the Markdown table."""
    more = measured.peak_bytes - measured.before_bytes
    return (
        f"| {measured.kind} | {measured.num_characters:,} "
        f"| {measured.peak_bytes / 1e6:,.0f} | {more / 1e6:,.0f} "
        f"| {more / measured.num_characters:,.0f} | {measured.seconds:.1f} |"
    )


def main(argv: list[str]) -> None:
    """Prints a table with a row for each kind and length."""
    common_flags.parse(FLAGS, argv, __doc__)
    sizes = settings.numbers("num_characters", FLAGS.num_characters)
    make = {
        kind: KINDS[kind]
        for kind in settings.among("kinds", FLAGS.kinds, KINDS)
    }
    if FLAGS.input_file:
        statistics = text_files.ReadStatistics()
        lines = list(text_files.read_lines(FLAGS.input_file, statistics))
        make["real"] = lambda size, _: _fill(lines, size)
    # Entries with letters alone are words, which the tokenizer keeps.
    words = [word for word in vocab.read(FLAGS.vocab_file) if word.isalpha()]
    measured = []
    print(
        "| passage | characters | peak MB | MB more | bytes per character "
        "| seconds |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        path = export(FLAGS.vocab_file, FLAGS.do_lower_case, folder)
        for kind, make_passage in make.items():
            for size in sizes:
                passage = make_passage(size, words)
                measured.append(answer(path, kind, passage))
                print(format_row(measured[-1]), flush=True)
    if FLAGS.json:
        json_files.write(FLAGS.json, [row._asdict() for row in measured])


if __name__ == "__main__":
    common_flags.run(main)
