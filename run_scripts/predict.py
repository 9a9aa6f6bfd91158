r"""SavedModel, lines of text, TSV or JSON -> JSON lines of answers.

    python -m run_scripts.predict --export_dir=exports/sst2 < reviews.txt
    python -m run_scripts.predict --export_dir=exports/mrpc \
      --input_file=pairs.tsv --text_a_column=sentence1 \
      --text_b_column=sentence2 --output_file=answers.jsonl
    echo "the cat [MASK] on the stone" | \
      python -m run_scripts.predict --export_dir=exports/pretrained
    echo '{"question": "Who sat?", "context": "The cat sat."}' | \
      python -m run_scripts.predict --export_dir=exports/squad

Each line of input makes one of output, in order, with what was given: an
answer stands in place of a key that has its name. Without columns, a line is a
text, or a JSON object where the model needs more than one text. Quotes in a TSV
are text, as GLUE has them.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import IO

import tensorflow as tf
from absl import flags, logging
from tqdm import tqdm

from bert_tf.workflows import answer_rows, text_rows
from run_scripts.flags import common_flags, input_flags
from tfrecords.io import atomic_files
from tfrecords.text import tokenizer as _registers_ops  # noqa: F401

# Outputs with numbers for each token, and one under a second name.
_LEFT_OUT = ("sequence_output", "encoder_outputs", "input_mask", "default")

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "export_dir",
    None,
    "SavedModel that export_savedmodel wrote.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "signature",
    "text",
    # The others take no strings, or serialised examples.
    ["text", "words"],
    "Which of the model's signatures to ask: text, or of a tagger words, which "
    "takes text that is split already.",
    flag_values=FLAGS,
)
input_flags.define(FLAGS)
flags.DEFINE_string(
    "output_file",
    "-",
    "JSON lines to write, whole or not at all; - is stdout.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "batch_size",
    64,
    "Most texts in one call of the model.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "outputs",
    None,
    "Outputs to write, comma-separated; default: all but those with numbers "
    "for each token, such as sequence_output.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "export_dir")


def load(export_dir: str):
    """Returns a SavedModel that takes strings.

    Raises:
      ValueError: if there is none.
    """
    if not tf.saved_model.contains_saved_model(export_dir):
        raise ValueError(
            f"--export_dir={export_dir} holds no SavedModel. Make one with "
            "export_savedmodel."
        )
    loaded = tf.saved_model.load(export_dir)
    if FLAGS.signature not in loaded.signatures:
        raise ValueError(
            f"{export_dir} has signatures {', '.join(loaded.signatures)}; "
            f"{FLAGS.signature!r} is needed. Make it with export_savedmodel."
        )
    return loaded


def output_names(signature) -> list[str]:
    """Returns the outputs to write.

    Raises:
      ValueError: if one that is asked for is not there.
    """
    names = sorted(signature.structured_outputs)
    for name in FLAGS.outputs or ():
        if name not in names:
            raise ValueError(
                f"--outputs={name} is none of this model's: {', '.join(names)}."
            )
    return FLAGS.outputs or [n for n in names if not n.startswith(_LEFT_OUT)]


@contextlib.contextmanager
def open_output(path: str) -> Iterator[IO[str]]:
    """Opens the output, which gets its name when it is whole; "-" is stdout."""
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    with atomic_files.atomic_file(path) as file:
        yield file


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """Ends quietly when nobody reads stdout any more, as after `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python's own flush at the end shall not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def predict(signature, lines: text_rows.Lines, ranks, outputs, file) -> int:
    """Writes one line of JSON for each row; returns how many."""
    rows = input_flags.read_rows(FLAGS, lines, ranks)
    count = 0
    with tqdm(
        total=lines.size,
        unit="B",
        unit_scale=True,
        # A bar among the answers would help nobody.
        disable=True if file.isatty() else None,
    ) as bar:
        for batch in text_rows.make_batches(rows, FLAGS.batch_size):
            for values in answer_rows.answer(signature, batch, ranks, outputs):
                file.write(json.dumps(values, ensure_ascii=False) + "\n")
            file.flush()
            count += len(batch)
            bar.update(lines.num_read - bar.n)
    return count


def main(argv: list[str]) -> None:
    """Predicts as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    loaded = load(FLAGS.export_dir)
    signature = loaded.signatures[FLAGS.signature]
    ranks = input_flags.input_ranks(FLAGS, signature)
    outputs = output_names(signature)
    started = time.monotonic()
    with (
        quiet_end(),
        text_rows.open_lines(FLAGS.input_file) as lines,
        open_output(FLAGS.output_file) as file,
    ):
        count = predict(signature, lines, ranks, outputs, file)
        logging.info(
            "texts %d  texts/s %.1f  invalid UTF-8 replaced %d",
            count,
            count / (time.monotonic() - started),
            lines.num_replaced,
        )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
