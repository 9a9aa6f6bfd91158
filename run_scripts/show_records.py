r"""Records, a vocabulary -> examples as text, histograms.

    python -m run_scripts.show_records --records=records/train \
      --vocab_file=vocab.txt --num_records=3 --page=records.html

Prints the pieces of a word joined (their ## kept), segments A and B on separate
lines, masked tokens as {original -> shown}, and labels by name; in color on a
terminal, unless NO_COLOR is set. --page draws histograms of lengths, masked
tokens and [UNK] over a sample.
"""

from bert_tf.contrib.apps.show_records import record_text
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(record_text.ShowOptions)


def main(argv: list[str]) -> None:
    """Prints examples; with --page, also draws histograms."""
    common_flags.parse(FLAGS, argv, __doc__)
    record_text.show(common_flags.config(record_text.ShowOptions, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
