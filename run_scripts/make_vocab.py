r"""Text files -> a WordPiece vocabulary, vocab.txt.

    python -m run_scripts.make_vocab \
      --input_file="books/*.txt,wiki/*.gz" \
      --output_file=vocab.txt --vocab_size=30522

The same text and flags give the same bytes.
"""

from run_scripts.flags import common_flags
from tfrecords import libraries
from tfrecords.text import vocab_learning

FLAGS = common_flags.make_flags(vocab_learning.VocabConfig)


def main(argv: list[str]) -> None:
    """Learns and writes the vocabulary."""
    common_flags.parse(FLAGS, argv, __doc__)
    libraries.leave_out_keras()
    vocab_learning.make(common_flags.config(vocab_learning.VocabConfig, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
