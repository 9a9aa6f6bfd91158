r"""Texts, a model -> file with a vector for each, .npy or Parquet.

    python -m run_scripts.embed --model_dir=models/all-MiniLM-L6-v2 \
      --input_file=passages.jsonl --text_column=body --id_column=id \
      --output_file=vectors.parquet

The model is a folder of sentence-transformers, whose pooling, dense layers and
normalization are applied; or any BERT, whose token vectors are averaged. The
input is lines of text, JSON lines, CSV, TSV (with quotes: quoted_tsv), each
also compressed, or Parquet; one file or several, of any size. The same command
resumes a stopped run.
"""

from bert_tf.contrib.search import embedding
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(embedding.EmbeddingConfig)


def main(argv: list[str]) -> None:
    """Writes the vectors."""
    common_flags.parse(FLAGS, argv, __doc__)
    embedding.embed(common_flags.config(embedding.EmbeddingConfig, FLAGS))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
