r"""SavedModel, lines of text -> JSON lines of answers.

    python -m run_scripts.predict --export_dir=exports/sst2 < reviews.txt
    python -m run_scripts.predict --export_dir=exports/mrpc \
      --input_file=pairs.tsv --text_a_column=sentence1 \
      --text_b_column=sentence2 --output_file=answers.jsonl
    echo "the cat [MASK] on the stone" | \
      python -m run_scripts.predict --export_dir=exports/pretrained

Each line of input makes one of output, in order. Without columns, a line is
a text. Quotes in a TSV are text, as GLUE has them.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import IO

import numpy as np
import tensorflow as tf
from absl import flags, logging
from tqdm import tqdm

from run_scripts import common_flags, text_rows
from tfrecords import tokenizer as _registers_ops  # noqa: F401
from tfrecords import whole_files

SIGNATURE = "text"
MASK = "[MASK]"
# Outputs with numbers for each token, and one under a second name.
_LEFT_OUT = ("sequence_output", "encoder_outputs", "input_mask", "default")

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "export_dir",
    None,
    "SavedModel that export_savedmodel wrote.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "input_file", "-", "Lines of text, or a TSV; - is stdin.", flag_values=FLAGS
)
flags.DEFINE_string(
    "text_a_column",
    None,
    "Column of a TSV with the text: its name in the first line, or its number "
    "from 0 in a file without names.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "text_b_column",
    None,
    "Column with the second text, for models of pairs.",
    flag_values=FLAGS,
)
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
    if SIGNATURE not in loaded.signatures:
        raise ValueError(
            f"{export_dir} has signatures {', '.join(loaded.signatures)}; "
            f"{SIGNATURE!r} is needed. Make it with export_savedmodel."
        )
    return loaded


def input_names(signature) -> list[str]:
    """Returns the inputs of a signature, in the order of a row's texts.

    Raises:
      ValueError: if the flags give more texts than the model takes.
    """
    names = sorted(signature.structured_input_signature[1])
    if FLAGS.text_b_column and len(names) == 1:
        raise ValueError(
            f"{FLAGS.export_dir} takes one text, {names[0]!r}; leave out "
            f"--text_b_column={FLAGS.text_b_column}."
        )
    return names


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


def plain(value: np.ndarray):
    """Returns a value as JSON has it; float32 in its own few digits."""
    if value.dtype == object:
        texts = [text.decode() for text in value.ravel()]
        return np.array(texts, object).reshape(value.shape).tolist()
    if value.dtype == np.float32:
        # Through text, so that 0.1 is not 0.10000000149011612.
        return value.astype(str).astype(np.float64).tolist()
    return value.tolist()


def _put(texts: list[str], tokens: list[str]) -> str:
    """Joins what stands around masks by tokens; `##` joins to what is before.

    A mask beyond the model's length has no token and stays.
    """
    tokens = tokens + [MASK] * (len(texts) - 1 - len(tokens))
    filled = texts[0]
    for token, text in zip(tokens, texts[1:], strict=True):
        if token.startswith("##"):
            filled = filled.rstrip()
        filled += token.removeprefix("##") + text
    return filled


def fill_masks(text: str, tokens: np.ndarray, probabilities: np.ndarray):
    """Returns candidates for each [MASK] of a text, and the best text.

    Args:
      text: with [MASK] in it.
      tokens: [P, k] bytes, best first; "" where there is no mask.
      probabilities: [P, k] float32.

    Returns:
      `filled`, with the best token in each place, and `masks`: for each mask
      a list of `token`, `probability`, and `filled` with this token there.
    """
    texts = text.split(MASK)
    is_mask = tokens[:, 0] != b""
    tokens = plain(tokens[is_mask])
    best = [candidates[0] for candidates in tokens]
    masks = [
        [
            {
                "token": token,
                "probability": probability,
                "filled": _put(texts, best[:i] + [token] + best[i + 1 :]),
            }
            for token, probability in zip(*candidates, strict=True)
        ]
        for i, candidates in enumerate(
            zip(tokens, plain(probabilities[is_mask]), strict=True)
        )
    ]
    return {"filled": _put(texts, best), "masks": masks}


def answer_rows(
    signature, rows: list[text_rows.Row], names: list[str], outputs: list[str]
) -> Iterator[dict]:
    """Yields what to write for each row."""
    texts = {
        name: tf.constant([(*row.texts, "")[i] for row in rows])
        for i, name in enumerate(names)
    }
    answers = {name: x.numpy() for name, x in signature(**texts).items()}
    for i, row in enumerate(rows):
        if {"tokens", "probabilities"} <= set(outputs):
            values = fill_masks(
                row.texts[0],
                answers["tokens"][i],
                answers["probabilities"][i],
            )
        else:
            values = {n: plain(answers[n][i : i + 1])[0] for n in outputs}
        given = dict(zip(names, row.texts, strict=False))
        yield {"line": row.line} | given | values


@contextlib.contextmanager
def open_output(path: str) -> Iterator[IO[str]]:
    """Opens the output, which gets its name when it is whole; "-" is stdout."""
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    with whole_files.whole_file(path) as file:
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


def predict(signature, lines: text_rows.Lines, names, outputs, file) -> int:
    """Writes one line of JSON for each row; returns how many."""
    wanted = [FLAGS.text_a_column, FLAGS.text_b_column]
    rows = text_rows.read_rows(lines, [name for name in wanted if name])
    count = 0
    with tqdm(
        total=lines.size,
        unit="B",
        unit_scale=True,
        # A bar among the answers would help nobody.
        disable=True if file.isatty() else None,
    ) as bar:
        for batch in text_rows.make_batches(rows, FLAGS.batch_size):
            for values in answer_rows(signature, batch, names, outputs):
                file.write(json.dumps(values, ensure_ascii=False) + "\n")
            file.flush()
            count += len(batch)
            bar.update(lines.num_read - bar.n)
    return count


def main(argv: list[str]) -> None:
    """Predicts as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    if FLAGS.text_b_column and not FLAGS.text_a_column:
        raise ValueError(
            f"--text_b_column={FLAGS.text_b_column} needs --text_a_column, "
            "the column of the first text."
        )
    loaded = load(FLAGS.export_dir)
    signature = loaded.signatures[SIGNATURE]
    names = input_names(signature)
    outputs = output_names(signature)
    started = time.monotonic()
    with (
        quiet_end(),
        text_rows.open_lines(FLAGS.input_file) as lines,
        open_output(FLAGS.output_file) as file,
    ):
        count = predict(signature, lines, names, outputs, file)
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
