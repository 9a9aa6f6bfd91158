r"""Sizes -> ms of a training step of our and of other implementations.

    python -m benchmarks.train_step --precision=float32,bfloat16 \
      --task=pretraining,fine_tuning --json=train_step.json

A step is a forward and backward pass with dropout, gradient clipping at a
global norm of 1, and AdamW with weight decay. Pre-training is masked LM (20 of
128 tokens) and next sentence, fine-tuning has two classes. Rows have no
padding, but masks are passed. With bfloat16, only matrix products are bfloat16;
weights are float32.

Each implementation runs in its own process with all cores and waits while
others run; a warning reports one that does not. A ratio is theirs / ours within
a round. The share is relative to the faster of TensorFlow and torch in a
product of two large matrices, which is also timed in every round; operations
are counted by arithmetic (benchmarks/work.py).

Memory is the peak resident size of the process, including libraries. The losses
are those of the first and last step, all on the same batch.
"""

from absl import flags

from benchmarks import comparison, settings, work
from run_scripts.flags import common_flags

FLAGS = flags.FlagValues()
settings.define_flags(FLAGS)
settings.define_shape_flags(FLAGS)
flags.DEFINE_list(
    "task", list(work.TASKS), "pretraining, fine_tuning.", flag_values=FLAGS
)
flags.DEFINE_bool(
    "remat",
    False,
    "Whether ours recomputes activations in the backward pass, to save memory.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Number of micro-batches that ours splits a batch into.",
    lower_bound=1,
    flag_values=FLAGS,
)


def our_options() -> dict:
    """Returns the options of our step that the flags set."""
    options = {}
    if FLAGS.remat:
        options["remat"] = True
    if FLAGS.gradient_accumulation_steps > 1:
        steps = FLAGS.gradient_accumulation_steps
        options["gradient_accumulation_steps"] = steps
    return options


def main(argv: list[str]) -> None:
    """Times the implementations with the settings in the flags."""
    common_flags.parse(FLAGS, argv, __doc__)
    tasks = settings.among("task", FLAGS.task, work.TASKS)
    wanted = settings.from_flags(FLAGS, tasks, is_training=True)
    comparison.compare(FLAGS, wanted, our_options())


if __name__ == "__main__":
    common_flags.run(main)
