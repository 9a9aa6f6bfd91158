r"""Text files -> a WordPiece vocabulary, vocab.txt.

    python -m run_scripts.make_vocab \
      --input_file="books/*.txt,wiki/*.gz" \
      --output_file=vocab.txt --vocab_size=30522

The same text and flags give the same bytes.
"""

import itertools
import os
import time
from collections.abc import Iterator

from absl import flags, logging
from tqdm import tqdm

from run_scripts.flags import common_flags
from tfrecords.io import storage
from tfrecords.text import documents, text_files, vocab, vocab_learning

FLAGS = flags.FlagValues()
common_flags.define_text(FLAGS)
flags.DEFINE_string(
    "output_file", None, "Vocabulary to write.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "vocab_size",
    30522,
    "Entries of the vocabulary, special tokens included.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "do_lower_case",
    True,
    "Lower-case text and strip accents; false for a cased vocabulary.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_characters",
    1000,
    "Characters that get entries, the most frequent ones. A word with another "
    "one is [UNK]; raise it for Chinese or Japanese.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace an output file that has other entries.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "input_file", "output_file")

_SECONDS_BETWEEN_LOGS = 30


def with_progress(paths: list[str]) -> Iterator[str]:
    """Yields paths; shows bytes read and ETA when all of a path was read."""
    sizes = [storage.version(path)[0] for path in paths]
    start = last = time.monotonic()
    done = 0
    with tqdm(total=sum(sizes), unit="B", unit_scale=True, disable=None) as bar:
        for path, size in zip(paths, sizes, strict=True):
            yield path
            bar.update(size)
            done += size
            now = time.monotonic()
            if now - last > _SECONDS_BETWEEN_LOGS:
                last = now
                eta = (now - start) * (sum(sizes) - done) / max(1, done)
                logging.info(
                    "read_megabytes %.0f of %.0f  eta_seconds %.0f",
                    done / 1e6,
                    sum(sizes) / 1e6,
                    eta,
                )


def write(entries: list[str], path: str, overwrite: bool) -> None:
    """Writes the vocabulary, but not over another one unless told to.

    Raises:
      ValueError: if the file is there, is different, and `overwrite` is false.
    """
    if os.path.exists(path) and not overwrite:
        with open(path, "rb") as file:
            if file.read() != vocab.to_bytes(entries):
                raise ValueError(
                    f"--output_file={path} is there with other entries; models "
                    "may depend on it. Name another file, or pass --overwrite."
                )
    vocab.write(entries, path)


def main(argv: list[str]) -> None:
    """Learns and writes the vocabulary."""
    common_flags.parse(FLAGS, argv, __doc__)
    start = time.monotonic()
    paths = text_files.expand_inputs(FLAGS.input_file)
    statistics = text_files.ReadStatistics()
    read = documents.read_documents(
        with_progress(paths),
        language=FLAGS.language,
        input_format=FLAGS.input_format,
        text_field=FLAGS.text_field,
        statistics=statistics,
    )
    sentences = itertools.chain.from_iterable(
        document.sentences for document in read
    )
    words = vocab_learning.count_words(sentences, FLAGS.do_lower_case)
    logging.info("read  %s", statistics)
    logging.info("learns from %d different words", len(words))
    entries = vocab_learning.learn_words(
        words, FLAGS.vocab_size, max_characters=FLAGS.max_characters
    )
    write(entries, FLAGS.output_file, FLAGS.overwrite)
    logging.info(
        "%s  documents %d  sentences %d  words %d  different_words %d  "
        "entries %d  coverage %.5f  seconds %.1f",
        FLAGS.output_file,
        statistics.documents,
        statistics.sentences,
        sum(words.values()),
        len(words),
        len(entries),
        vocab_learning.coverage(entries, words),
        time.monotonic() - start,
    )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
