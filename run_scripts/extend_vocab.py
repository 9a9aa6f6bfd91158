r"""Checkpoint and a text -> the same model with the text's words as tokens.

    python -m run_scripts.extend_vocab \
      --init_checkpoint=models/uncased_L-12_H-768_A-12 \
      --input_file='text/*.txt' --num_words=500 --output_dir=models/own_words

The words are those that cost the most pieces in the text, or the lines of
--words_file. They take the [unused] entries of the vocabulary, then rows at its
end, and begin as the mean of their pieces, in the embeddings and in the bias of
the masked-LM head. Words that the tokenizer never reads as one word are named.

Texts in which no word begins with a new one have the same tokens and the same
outputs. Pre-train the model on the text before you fine-tune it: the mean is
only where the new rows begin.
"""

from bert_tf.contrib.apps.own_words.config import ExtendVocabConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(ExtendVocabConfig)


def main(argv: list[str]) -> None:
    """Writes the extended model and prints the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(ExtendVocabConfig, FLAGS)
    from bert_tf.contrib.apps.own_words import extend

    print("\n".join(extend.extend_vocab(config)))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
