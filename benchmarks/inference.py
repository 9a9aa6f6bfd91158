r"""Sizes -> ms of a forward pass of our and of other implementations.

    python -m benchmarks.inference --precision=float32,bfloat16 \
      --json=inference.json

From token ids to the logits of two classes, or with --task=pretraining of
masked tokens and next sentence. For --precision=bfloat16 the weights of peers
are bfloat16 too. Otherwise as in benchmarks/train_step.py. Of one row, and from
texts: benchmarks/answers.py.
"""

from absl import flags

from benchmarks import comparison, settings, work
from run_scripts.flags import common_flags

FLAGS = flags.FlagValues()
settings.define_flags(FLAGS)
settings.define_shape_flags(FLAGS)
flags.DEFINE_list(
    "task", ["fine_tuning"], "pretraining, fine_tuning.", flag_values=FLAGS
)


def main(argv: list[str]) -> None:
    """Times the implementations with the settings in the flags."""
    common_flags.parse(FLAGS, argv, __doc__)
    tasks = settings.among("task", FLAGS.task, work.TASKS)
    wanted = settings.from_flags(FLAGS, tasks, is_training=False)
    comparison.compare(FLAGS, wanted)


if __name__ == "__main__":
    common_flags.run(main)
