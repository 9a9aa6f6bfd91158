r"""Sizes -> ms of a training step, ours beside other implementations.

    python -m benchmarks.train_step --precision=float32,bfloat16 \
      --task=pretraining,fine_tuning --json=train_step.json

A whole step: forward and backward pass with dropout, gradients clipped at a
global norm of 1, AdamW with decay. Pre-training is masked LM (20 of 128 tokens)
and next sentence, fine-tuning two classes. All rows are full, masks are passed
nevertheless. bfloat16 is that of matrix products; weights are float32.

Each implementation is a process of its own with all cores, and waits while
another has its turn; one that does not is reported. A ratio is theirs / ours
within a round. The share is that of the best rate of TensorFlow and torch in a
product of two large matrices, measured in turns with the steps; the operations
are counted by arithmetic (benchmarks/work.py).

Memory is the peak resident size of the process, libraries and all. The losses
are those of the first and the last step, on one batch that comes over and over.
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
    "Whether ours computes activations a second time, to keep fewer.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Parts that ours splits a batch into.",
    lower_bound=1,
    flag_values=FLAGS,
)


def our_options() -> dict:
    """Returns what the flags change in our step."""
    options = {}
    if FLAGS.remat:
        options["remat"] = True
    if FLAGS.gradient_accumulation_steps > 1:
        steps = FLAGS.gradient_accumulation_steps
        options["gradient_accumulation_steps"] = steps
    return options


def main(argv: list[str]) -> None:
    """Times the implementations as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    tasks = settings.among("task", FLAGS.task, work.TASKS)
    wanted = settings.from_flags(FLAGS, tasks, is_training=True)
    comparison.compare(FLAGS, wanted, our_options())


if __name__ == "__main__":
    common_flags.run(main)
