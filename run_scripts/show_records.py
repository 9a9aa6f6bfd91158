r"""Records, a vocabulary -> examples as text, histograms.

    python -m run_scripts.show_records --records=records/train \
      --vocab_file=vocab.txt --num_records=3 --png=records.png

Prints word pieces joined to words with their ## left, segments A and B on a
line each, masked tokens as {original -> shown}, and labels by their names. In
colour on a terminal, unless NO_COLOR is set. --png draws lengths, masked tokens
and [UNK] of a sample.
"""

from run_scripts.flags import common_flags
from tfrecords.inspection import record_text

FLAGS = common_flags.flags_of(record_text.ShowOptions)


def main(argv: list[str]) -> None:
    """Prints examples, and draws the histograms if asked to."""
    common_flags.parse(FLAGS, argv, __doc__)
    record_text.show(common_flags.config(record_text.ShowOptions, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
