r"""Queries, vectors of embed and their model -> the nearest rows, best first.

    echo "how is bread made" | \
      python -m run_scripts.search --model_dir=models/all-MiniLM-L6-v2 \
      --vectors_file=vectors.npy --corpus_file=passages.txt

Queries are lines of text, JSON lines or a table, as embed reads them. Search is
exact, in chunks of bounded memory. Each line that is printed has the score, the
row, counted from 1, or of Parquet the line and the id, and the text if
--corpus_file is given. --output_file has the same as JSON lines. Vectors of
another model, or made with other flags of pooling, are refused.
"""

from bert_tf.contrib.search import search
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(search.SearchConfig)


def main(argv: list[str]) -> None:
    """Writes what was found."""
    common_flags.parse(FLAGS, argv, __doc__)
    search.search(common_flags.config(search.SearchConfig, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
