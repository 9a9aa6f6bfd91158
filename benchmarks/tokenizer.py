r"""Text files -> MB/s of our tokenizer and of others, on one core.

    python -m benchmarks.tokenizer \
      --input_file='text/*.txt' --vocab_file=vocab.txt

Each peer is a process with one thread, all bound to the same core. In each
round the peers tokenize the same lines one after another. Ratios are computed
within a round, and their median over rounds is printed.

    ours             tfrecords/text/tokenizer.py in a graph, batches of lines
    ours, offsets    the same with tokenize_with_offsets
    tokenizers       the Rust library of Hugging Face, encode_batch
    tokenizers, fast the same, encode_batch_fast, which has no offsets
    python           tests/tfrecords/reference_tokenizer.py, which has the same
                     rules as the original's Python code, also for one character
                     at a time, and is somewhat faster
    original         the original's classes, if --original_file gives its
                     tokenization.py (google-research/bert)
"""

import importlib.util
import itertools
import multiprocessing
import os
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from absl import flags, logging

from run_scripts.flags import common_flags
from tfrecords.text import text_files, vocab
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
    "tokenization.py of google-research/bert, timed if given.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "max_megabytes",
    8.0,
    "Size of the text to use, in evenly spaced batches; 0 for all text.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "batch_size", 1024, "Lines in a batch.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_integer(
    "rounds", 7, "Rounds to time.", lower_bound=1, flag_values=FLAGS
)
common_flags.require(FLAGS, "input_file", "vocab_file")

# Lines whose ids are compared before the first round.
_COMPARED_LINES = 2000
_REFERENCE = "tests/tfrecords/reference_tokenizer.py"


class Settings(NamedTuple):
    """Settings of a peer's process."""

    vocab_file: str
    do_lower_case: bool
    original_file: str
    core: int


class Peer(NamedTuple):
    """Functions of one tokenizer.

    Attributes:
      tokenize: list of lines -> result; this is timed.
      to_ids: result -> a list of ids for each line.
    """

    tokenize: Callable
    to_ids: Callable


def make_ours(settings: Settings, with_offsets: bool = False) -> Peer:
    """Returns our tokenizer in a graph."""
    import tensorflow as tf

    from tfrecords.text import tokenizer

    ours = tokenizer.BertTokenizer(settings.vocab_file, settings.do_lower_case)
    graph = tf.function(
        ours.tokenize_with_offsets if with_offsets else lambda x: [ours(x)],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    return Peer(
        lambda lines: graph(tf.constant(lines)),
        lambda found: found[0].to_list(),
    )


def make_rust(settings: Settings, function: str = "encode_batch") -> Peer:
    """Returns the tokenizer of Hugging Face."""
    import tokenizers

    entries = vocab.read(settings.vocab_file)
    wrapper = tokenizers.BertWordPieceTokenizer(
        {entry: i for i, entry in enumerate(entries)},
        lowercase=settings.do_lower_case,
    )
    rust = tokenizers.Tokenizer.from_str(wrapper.to_str())
    encode = getattr(rust, function)
    return Peer(
        lambda lines: encode(lines, add_special_tokens=False),
        lambda found: [encoding.ids for encoding in found],
    )


def _load(path: str):
    spec = importlib.util.spec_from_file_location("peer_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read_ids(path: str) -> dict[str, int]:
    return {token: i for i, token in enumerate(vocab.read(path))}


def make_python(settings: Settings) -> Peer:
    """Returns the reference tokenizer of the tests."""
    reference = _load(str(pathlib.Path(__file__).parents[1] / _REFERENCE))
    ids = _read_ids(settings.vocab_file)

    def tokenize(lines):
        return [
            [
                ids[token]
                for token in reference.tokenize(
                    line, ids, do_lower_case=settings.do_lower_case
                )
            ]
            for line in lines
        ]

    return Peer(tokenize, lambda found: found)


def make_original(settings: Settings) -> Peer:
    """Returns the original's classes, combined as in its FullTokenizer."""
    original = _load(settings.original_file)
    ids = _read_ids(settings.vocab_file)
    basic = original.BasicTokenizer(settings.do_lower_case)
    pieces = original.WordpieceTokenizer(ids)

    def tokenize(lines):
        return [
            [
                ids[piece]
                for word in basic.tokenize(line)
                for piece in pieces.tokenize(word)
            ]
            for line in lines
        ]

    return Peer(tokenize, lambda found: found)


PEERS = {
    "ours": make_ours,
    "ours, offsets": lambda settings: make_ours(settings, with_offsets=True),
    "tokenizers": make_rust,
    "tokenizers, fast": lambda settings: make_rust(
        settings, "encode_batch_fast"
    ),
    "python": make_python,
    "original": make_original,
}


def serve(name: str, settings: Settings, batches: list, pipe) -> None:
    """Answers "compare" with ids, "round" with seconds; ends at None."""
    import tensorflow as tf

    os.sched_setaffinity(0, {settings.core})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    peer = PEERS[name](settings)
    while question := pipe.recv():
        if question == "compare":
            lines = list(itertools.chain.from_iterable(batches))
            found = peer.tokenize(lines[:_COMPARED_LINES])
            pipe.send(peer.to_ids(found))
        else:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            for batch in batches:
                peer.tokenize(batch)
            end, end_cpu = time.perf_counter(), time.process_time()
            pipe.send((end - begin, end_cpu - begin_cpu))


def read_batches() -> list[list[str]]:
    """Returns batches of lines that are not empty."""
    count = text_files.ReadStatistics()
    lines = [
        line.rstrip("\n")
        for path in text_files.expand_inputs(FLAGS.input_file)
        for line in text_files.read_lines(path, count)
        if not line.isspace()
    ]
    size = FLAGS.batch_size
    batches = [lines[i : i + size] for i in range(0, len(lines), size)]
    if FLAGS.max_megabytes:
        step = max(1, count_megabytes(batches) / FLAGS.max_megabytes)
        count = max(1, int(len(batches) / step))
        batches = [batches[int(i * step)] for i in range(count)]
    return batches


def count_megabytes(batches: list[list[str]]) -> float:
    """Returns the size of all lines in UTF-8, in MB."""
    return sum(len(line.encode()) for batch in batches for line in batch) / 1e6


def start(names, settings, batches) -> dict:
    """Starts a process for each peer; returns a pipe to each."""
    context = multiprocessing.get_context("spawn")
    pipes = {}
    for name in names:
        pipes[name], end = context.Pipe()
        context.Process(
            target=serve, args=(name, settings, batches, end), daemon=True
        ).start()
    return pipes


def ask(pipe, question: str):
    """Returns a peer's answer."""
    pipe.send(question)
    return pipe.recv()


def show(times: dict[str, list[tuple[float, float]]], megabytes: float) -> None:
    """Prints medians, and how many times faster ours is than each peer."""
    print("peer               MB/s   MB/CPU-s   speed-up of ours (range)")
    for name, rounds in times.items():
        wall, cpu = zip(*rounds, strict=True)
        ratios = [
            peer / ours
            for peer, (ours, _) in zip(wall, times["ours"], strict=True)
        ]
        print(
            f"{name:17s} {megabytes / statistics.median(wall):6.2f} "
            f"{megabytes / statistics.median(cpu):10.2f}   "
            f"{statistics.median(ratios):6.2f}x "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


def main(argv: list[str]) -> None:
    """Times the peers."""
    common_flags.parse(FLAGS, argv, __doc__)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    core = max(os.sched_getaffinity(0))
    settings = Settings(
        FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.original_file, core
    )
    names = [name for name in PEERS if name != "original"]
    if FLAGS.original_file:
        names.append("original")
    batches = read_batches()
    megabytes = count_megabytes(batches)
    num_lines = sum(map(len, batches))
    logging.info("%.1f MB, %d lines, core %d", megabytes, num_lines, core)
    pipes = start(names, settings, batches)
    ids = {name: ask(pipe, "compare") for name, pipe in pipes.items()}
    for name, found in ids.items():
        same = sum(map(list.__eq__, found, ids["python"]))
        logging.info(
            "%s: %d of %d lines have the ids of python", name, same, len(found)
        )
    times = {name: [] for name in names}
    for number in range(-1, FLAGS.rounds):
        # The first round is warm-up; each round starts with another peer.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds = ask(pipes[name], "round")
            if number >= 0:
                times[name].append(seconds)
        logging.info("round %d of %d", number + 1, FLAGS.rounds)
    for pipe in pipes.values():
        pipe.send(None)
    show(times, megabytes)


if __name__ == "__main__":
    common_flags.run(main)
