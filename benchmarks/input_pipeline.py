r"""Generated records -> seconds to the first batch, examples/s read.

    python -m benchmarks.input_pipeline --num_records=4000000 \
      --json=input_pipeline.json

Restart: a fresh process opens `num_records` small records in shards and makes
the first batch, at example 10 and at example 10^8 of the infinite stream, with
and without static lengths. Importing TensorFlow is not counted.

Reading: pre-training records of 128 tokens, in the page cache, are read with
`batches.training_batches`, timed by wall clock and by CPU time of all threads,
in both input modes; the ratio is that of streaming to Python, round by round.
Fetching the bytes and parsing them are also timed separately.
"""

import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time

import numpy as np
from absl import flags, logging

from benchmarks import settings
from run_scripts.flags import common_flags
from tfrecords import schema
from tfrecords.io import json_files, records
from tfrecords.reading import batches, static_lengths

FLAGS = flags.FlagValues()
flags.DEFINE_integer(
    "num_records",
    1_000_000,
    "Number of small records for the restart benchmark.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_shards",
    8,
    "Number of shards of the small records.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "examples",
    ["10", "100000000"],
    "Examples of the infinite stream to start at.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "batch_sizes", ["32", "256"], "Batch sizes for reading.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "rounds", 3, "Rounds to time.", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_float(
    "seconds",
    3.0,
    "Minimum duration of reading in each round.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "json", "", "File for the results of all rounds.", flag_values=FLAGS
)

_SMALL = {"max_seq_length": 8, "max_predictions_per_seq": 1}
_LARGE = {"max_seq_length": 128, "max_predictions_per_seq": 20}
_VOCAB_SIZE = 30522
_BUCKETS = (4, 8)
# Names of what is compared.
PLAIN, STREAMED = "batches", "batches, streamed"
_LARGE_RECORDS = 20_000
# Number of distinct records; the others are copies.
_DIFFERENT = 1000


def make_examples(schema_name: str, sizes: schema.Sizes) -> list[bytes]:
    """Returns serialized examples with random ids and lengths."""
    rng = np.random.default_rng(0)
    features, examples = schema.SCHEMAS[schema_name], []
    for _ in range(_DIFFERENT):
        example = {}
        for name, feature in features.items():
            shape = schema.shape_of(feature, sizes)
            high = _VOCAB_SIZE if name.endswith("_ids") else 2
            high = 2 if name in ("input_type_ids", "label_ids") else high
            example[name] = rng.integers(0, high, shape)
            if feature.dtype != schema.INT32:
                example[name] = example[name].astype(np.float32)
        length = rng.integers(1, sizes["max_seq_length"] + 1)
        example["input_mask"] = (
            np.arange(sizes["max_seq_length"]) < length
        ).astype(int)
        examples.append(schema.serialize(example, features, sizes))
    return examples


def write_records(
    folder: str, schema_name: str, sizes: schema.Sizes, count: int, shards: int
) -> None:
    """Writes a folder of records, copies of `_DIFFERENT` examples."""
    examples = make_examples(schema_name, sizes)
    ends = np.linspace(0, count, shards + 1).astype(int).tolist()
    written = [
        records.write_shard(
            os.path.join(folder, records.shard_name("train", shard, shards)),
            (examples[i % _DIFFERENT] for i in range(*ends[shard : shard + 2])),
        )
        for shard in range(shards)
    ]
    records.Manifest(
        schema_name=schema_name,
        sizes=dict(sizes),
        flags={},
        vocabulary={},
        statistics={},
        shards=written,
    ).write(folder)


def start(folder: str, example: int, bucket_lengths, pipe) -> None:
    """Sends the seconds from opening a folder to its first batch."""
    import tensorflow as tf

    tf.constant(0)  # The first tensor initializes the runtime.
    begin = time.perf_counter()
    opened = records.Records.open(folder)
    dataset = batches.training_batches(
        opened,
        schema.SCHEMAS[opened.manifest.schema_name],
        opened.manifest.sizes,
        batch_size=32,
        seed=1,
        start_batch=example // 32,
        bucket_lengths=bucket_lengths,
    )
    next(iter(dataset))
    pipe.send(time.perf_counter() - begin)


def time_start(folder: str, example: int, bucket_lengths=()) -> float:
    """Returns the seconds of `start` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    pipe, end = context.Pipe()
    process = context.Process(
        target=start, args=(folder, example, bucket_lengths, end)
    )
    process.start()
    end.close()  # So that recv raises EOFError if the process fails.
    seconds = pipe.recv()
    process.join()
    return seconds


def time_reading(step, num_examples: int, seconds: float) -> tuple:
    """Returns examples/s of a step, by wall clock and by CPU time."""
    for _ in range(5):
        step()
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while not count or time.perf_counter() - begin < seconds:
        step()
        count += num_examples
    wall = time.perf_counter() - begin
    return count / wall, count / (time.process_time() - cpu)


def reading_steps(opened: records.Records, batch_size: int) -> dict:
    """Returns name -> function that processes one batch."""
    import tensorflow as tf

    features = schema.SCHEMAS[opened.manifest.schema_name]
    sizes = opened.manifest.sizes
    arguments = {"batch_size": batch_size, "seed": 1}
    arguments["vocab_size"] = _VOCAB_SIZE
    plain, streamed = (
        iter(
            batches.training_batches(
                opened, features, sizes, input_mode=mode, **arguments
            )
        )
        for mode in ("python", "stream")
    )
    lengths = static_lengths.read(opened, sizes["max_seq_length"])
    chosen = static_lengths.choose(lengths, sizes["max_seq_length"])
    buckets = iter(
        batches.training_batches(
            opened, features, sizes, bucket_lengths=chosen, **arguments
        )
    )
    rng = np.random.default_rng(2)
    serialized = tf.constant(opened.get(np.arange(batch_size)))
    parse = tf.function(lambda x: schema.parse(x, features, sizes))
    return {
        PLAIN: lambda: next(plain),
        STREAMED: lambda: next(streamed),
        "batches, static lengths": lambda: next(buckets),
        "fetching bytes only": lambda: opened.get(
            rng.integers(0, len(opened), batch_size)
        ),
        "parsing only": lambda: parse(serialized),
    }


def time_restarts(examples: list[int]) -> dict[str, list[float]]:
    """Returns name -> seconds to the first batch, in each round.

    Args:
      examples: numbers of the examples to start at.
    """
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_records(
            folder,
            "classification",
            _SMALL,
            FLAGS.num_records,
            FLAGS.num_shards,
        )
        num_bytes = sum(
            shard.num_bytes for shard in records.Manifest.read(folder).shards
        )
        logging.info(
            "%d records of %.0f bytes in %d shards",
            FLAGS.num_records,
            num_bytes / FLAGS.num_records,
            FLAGS.num_shards,
        )
        name = "static lengths, first start"
        times[name] = [time_start(folder, 0, _BUCKETS)]
        for number in range(FLAGS.rounds):
            for kind, buckets in (("", ()), (", static lengths", _BUCKETS)):
                for example in examples:
                    seconds = time_start(folder, example, buckets)
                    name = f"at example {example}{kind}"
                    times.setdefault(name, []).append(seconds)
            logging.info("round %d of %d", number + 1, FLAGS.rounds)
    return times


def time_readings(batch_sizes: list[int]) -> dict[str, list[tuple]]:
    """Returns name -> examples per second of wall and CPU time, by round."""
    rates: dict[str, list[tuple]] = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        write_records(folder, "pretraining", _LARGE, _LARGE_RECORDS, 4)
        opened = records.Records.open(folder)
        for size in batch_sizes:
            steps = reading_steps(opened, size)
            for _ in range(FLAGS.rounds):
                for name, step in steps.items():
                    rate = time_reading(step, size, FLAGS.seconds)
                    rates.setdefault(f"{name}, {size}", []).append(rate)
    return rates


def show(restarts: dict, rates: dict) -> None:
    """Prints the medians over rounds."""
    print(f"{'to the first batch':40s} seconds, median (range)")
    for name, times in restarts.items():
        print(
            f"{name:40s} {statistics.median(times):7.2f} "
            f"({min(times):.2f} to {max(times):.2f})"
        )
    print(f"\n{'reading, batch size':40s} examples/s   per CPU second")
    for name, rounds in rates.items():
        wall, cpu = map(statistics.median, zip(*rounds, strict=True))
        print(f"{name:40s} {wall:10.0f} {cpu:16.0f}")
    print(f"\n{'streamed / in Python, batch size':40s} examples/s")
    for name, rounds in rates.items():
        kind, _, size = name.rpartition(", ")
        if kind == STREAMED:
            pairs = zip(rounds, rates[f"{PLAIN}, {size}"], strict=True)
            ratios = [streamed[0] / plain[0] for streamed, plain in pairs]
            print(
                f"{size:40s} {statistics.median(ratios):10.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})"
            )


def main(argv: list[str]) -> None:
    """Times restarts and reading."""
    common_flags.parse(FLAGS, argv, __doc__)
    examples = settings.numbers("examples", FLAGS.examples, least=0)
    batch_sizes = settings.numbers("batch_sizes", FLAGS.batch_sizes)
    restarts, rates = time_restarts(examples), time_readings(batch_sizes)
    show(restarts, rates)
    if FLAGS.json:
        json_files.write(
            FLAGS.json, {"seconds": restarts, "examples_per_second": rates}
        )


if __name__ == "__main__":
    common_flags.run(main)
