r"""Records, config, vocabulary, checkpoint -> diagnostics before a run.

    python -m run_scripts.doctor --records=records/train \
      --bert_config_file=bert_config.json --vocab_file=vocab.txt \
      --init_checkpoint=uncased_L-12_H-768_A-12 --num_train_steps=100000

Prints every problem with its fix, and an estimate of the memory on this
machine or, with --num_replicas, on each of several devices. Exit status: 1 if
there are errors, else 0. Only --records is required; checks of inputs that are
not given are skipped. Without --vocab_file or a config, those of
--init_checkpoint are used. Large sets are sampled; --all reads them completely.
"""

from bert_tf.contrib.apps.doctor.config import DoctorConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(DoctorConfig)

_MAX_LINES = 10


def shortened(text: str) -> str:
    """Returns a diagnostic with the middle of a long list of weights left out.

    The last line, which says what to do, is kept.
    """
    lines = text.splitlines()
    left_out = len(lines) - _MAX_LINES
    if left_out <= 1:
        return text
    begin = lines[: _MAX_LINES - 1]
    return "\n".join([*begin, f"  ... and {left_out} more", lines[-1]])


def main(argv: list[str]) -> None:
    """Prints diagnostics and estimates; exits with 1 if there are errors."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(DoctorConfig, FLAGS)

    from bert_tf.contrib.apps.doctor import diagnose
    from tfrecords.inspection.diagnostics import ERROR, NOTE, WARNING

    diagnostics, lines = diagnose.diagnose(config)
    print(config.records)
    order = (ERROR, WARNING, NOTE)
    for diagnostic in sorted(
        diagnostics, key=lambda d: order.index(d.severity)
    ):
        print(shortened(str(diagnostic)))
    print("\n".join(lines))
    counts = {
        severity: sum(d.severity == severity for d in diagnostics)
        for severity in (ERROR, WARNING)
    }
    print(
        ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items())
    )
    if counts[ERROR]:
        raise SystemExit(1)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
