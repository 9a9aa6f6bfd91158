r"""Records, config, vocabulary, checkpoint -> what would spoil a run, at once.

    python -m run_scripts.doctor --records=records/train \
      --bert_config_file=bert_config.json --vocab_file=vocab.txt \
      --init_checkpoint=uncased_L-12_H-768_A-12 --num_train_steps=100000

Prints every finding with its fix, and an estimate of memory and time on this
machine. Exit status: 0 without errors, 1 with. Only --records is needed; what
is not given is not checked, and without --vocab_file and a config those of
--init_checkpoint are taken. Of large sets a sample is read; --all reads all.
"""

import dataclasses
import math
import os

from absl import flags

from bert_tf import config
from bert_tf.conversion import formats
from bert_tf.training import checkpoints, model_folders
from bert_tf.workflows import estimates
from run_scripts import checkpoint_checks, run_checks
from run_scripts.flags import common_flags, model_flags, training_flags
from tfrecords.inspection import diagnostics, samples, shard_checks
from tfrecords.text import vocab

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "records",
    None,
    "Records to look at: a folder that a make_*_records script wrote, or "
    "TFRecord files of the original as comma-separated globs.",
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "all",
    False,
    "Read every record and every shard, not a sample.",
    flag_values=FLAGS,
)
common_flags.define_vocabulary(FLAGS)
model_flags.define_model(FLAGS)
training_flags.define_training(FLAGS, learning_rate=1e-4, train_batch_size=32)
for _name in ("max_seq_length", "max_predictions_per_seq", "num_train_steps"):
    flags.DEFINE_integer(
        _name,
        None,
        "As the run will have it; default: not compared.",
        flag_values=FLAGS,
    )
common_flags.require(FLAGS, "records")

# Of shards, to compare with the manifest: a second's reading.
_DIGEST_BYTES = 256 << 20
# README.md, Results: places computed for each token with static lengths.
_CUT = 1.2
_MOST_LINES = 10
_GB = 1e9


def beside_checkpoint(name: str) -> str | None:
    """Returns a file that lies beside --init_checkpoint, if it does."""
    path = FLAGS.init_checkpoint
    if not path:
        return None
    try:
        folder = checkpoints.find(path)
    except ValueError:
        folder = path if os.path.isdir(path) else os.path.dirname(path)
    file = os.path.join(folder, name)
    return file if os.path.isfile(file) else None


def find_config(checkpoint, found, vocab_file) -> config.BertConfig | None:
    """Returns the model's sizes, of the flags or else of the checkpoint.

    Raises:
      ValueError: if a file is no config, or no size has such a name.
    """
    if FLAGS.bert_config_name:  # Its vocabulary is that of the run.
        made_with = found and found.manifest and found.manifest.vocabulary
        size = (made_with or {}).get("size")
        if not size and vocab_file:
            size = len(vocab.read(vocab_file))
        return model_flags.find_config(FLAGS, size, None)
    if FLAGS.bert_config_file:
        return model_flags.find_config(FLAGS, None, None)
    return checkpoint.config if checkpoint else None


def examine() -> tuple[list[diagnostics.Diagnostic], list[str]]:
    """Returns all findings, and lines on what was looked at."""
    found, faults = shard_checks.open_intact(FLAGS.records)
    checkpoint = None
    if FLAGS.init_checkpoint:
        checkpoint, more = diagnostics.attempt(
            "checkpoint", formats.read, FLAGS.init_checkpoint
        )
        faults += more
    vocab_file = FLAGS.vocab_file or beside_checkpoint(model_folders.VOCABULARY)
    sizes, more = diagnostics.attempt(
        "config", find_config, checkpoint, found, vocab_file
    )
    faults += more
    lines = not_checked(sizes, vocab_file)
    if not found:
        return faults, lines
    wanted = {
        name: FLAGS[name].value
        for name in ("max_seq_length", "max_predictions_per_seq")
        if FLAGS[name].value is not None
    }
    faults += run_checks.check_sizes(found, sizes, vocab_file, wanted)
    most_bytes = None if FLAGS.all else _DIGEST_BYTES
    faults += shard_checks.check_digests(found, most_bytes)
    num_wanted = None if FLAGS.all else run_checks.EXAMPLES
    more, tally = run_checks.check_examples(
        found, sizes, vocab_file, num_wanted
    )
    faults += more
    if tally:
        lines.insert(
            0,
            f"{len(found):,} records, shards: {len(found.paths)}; "
            f"{tally.num_examples:,} examples looked at",
        )
        if sizes:
            step = run_checks.step_of(FLAGS, sizes, found)
            faults += run_checks.check_memory(step)
            mean_tokens = tally.num_tokens / tally.num_examples
            # Of choices each is a row.
            num_rows = len(found) * step.batch_size / FLAGS.train_batch_size
            lines += estimate(step, num_rows, mean_tokens)
    if checkpoint and sizes:
        vocabulary = found.manifest.vocabulary if found.manifest else {}
        task = run_checks.task_of(samples.schema_name(found))
        faults += checkpoint_checks.check(checkpoint, sizes, task, vocabulary)
    return faults, lines


def not_checked(sizes, vocab_file) -> list[str]:
    """Returns a line for each part that cannot be looked at."""
    lines = []
    if not vocab_file:
        lines.append("not checked, as no --vocab_file is given: [UNK], case")
    if not sizes:
        lines.append(
            "not checked, as no --bert_config_file is given: the model's "
            "sizes, memory, time"
        )
    if not FLAGS.init_checkpoint:
        lines.append("not checked, as no --init_checkpoint is given: weights")
    return lines


def estimate(
    step: estimates.Step, num_rows: float, mean_tokens: float
) -> list[str]:
    """Returns lines on memory and time, by arithmetic and a moment's timing.

    Args:
      step: what a step works on.
      num_rows: in an epoch.
      mean_tokens: of an example; fine-tuning cuts rows to about as many.
    """
    parts = estimates.memory(step)
    where, free = estimates.available_bytes()
    words = ", ".join(f"{n} {x / _GB:.1f}" for n, x in parts.items())
    if step.task != "pretraining":
        length = math.ceil(min(step.max_seq_length, _CUT * mean_tokens))
        step = dataclasses.replace(step, max_seq_length=length)
    rate = estimates.measure_rate(step.precision)
    seconds = estimates.step_seconds(step, rate)
    steps = num_rows / step.batch_size
    lines = [
        f"estimate: {estimates.num_weights(step) / 1e6:.1f} million weights; "
        f"memory {sum(parts.values()) / _GB:.1f} GB ({words})"
        + f"; {where} {free / _GB:.1f} GB"
        * bool(free),
        f"estimate: {_time(seconds)} a step of {step.batch_size} rows of "
        f"{step.max_seq_length} tokens in {step.precision}, by "
        f"{rate / 1e12:.2f} TFLOP/s in a matrix product here; "
        f"{steps:,.0f} steps an epoch, {_time(steps * seconds)}",
    ]
    if FLAGS.num_train_steps:
        total = FLAGS.num_train_steps
        lines.append(
            f"estimate: --num_train_steps={total} is {total / steps:.2f} "
            f"epochs, {_time(total * seconds)}"
        )
    return lines


def _time(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def shortened(text: str) -> str:
    """Returns a finding without the middle of a list of hundreds of weights.

    What to do is said at the end.
    """
    lines = text.splitlines()
    left_out = len(lines) - _MOST_LINES
    if left_out <= 1:
        return text
    begin = lines[: _MOST_LINES - 1]
    return "\n".join([*begin, f"  ... and {left_out} more", lines[-1]])


def main(argv: list[str]) -> None:
    """Prints findings and estimates; exits with 1 if there are errors."""
    common_flags.parse(FLAGS, argv, __doc__)
    faults, lines = examine()
    print(FLAGS.records)
    order = (diagnostics.ERROR, diagnostics.WARNING, diagnostics.NOTE)
    for fault in sorted(faults, key=lambda x: order.index(x.severity)):
        print(shortened(str(fault)))
    print("\n".join(lines))
    counts = [sum(x.severity == name for x in faults) for name in order[:2]]
    words = zip(order, counts, strict=False)
    print(", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in words))
    if counts[0]:
        raise SystemExit(1)


def run() -> None:
    """Console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
