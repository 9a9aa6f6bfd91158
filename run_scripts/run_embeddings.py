r"""Tables of similar texts -> a model of their vectors.

    python -m run_scripts.run_embeddings \
      --train_file=pairs.tsv --text_column=question,answer \
      --init_checkpoint=runs/tiny --do_train --do_eval --output_dir=runs/vectors

Rows are pairs of texts that belong together, perhaps with further texts that
do not (hard negatives), pairs with a score, or sentences alone. Each run keeps
the best model on dev in `best/`: by Spearman's correlation if dev has scores,
otherwise by the mean reciprocal rank of the right text among all texts of dev.

--init_checkpoint is any BERT, or a folder of sentence-transformers, which is
trained further, with its pooling, dense layers and normalization. The result
is served as any model: bert-embed, predict and export_savedmodel give its
vectors, and `convert_checkpoint --to=hugging_face` writes a folder of
sentence-transformers.
"""

from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.workflows.configs import FineTuningConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(EmbeddingData, FineTuningConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains and evaluates."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.contrib.search.embeddings import Embeddings
    from bert_tf.workflows import fine_tuning

    task = Embeddings(common_flags.config(EmbeddingData, FLAGS))
    config = common_flags.config(FineTuningConfig, FLAGS)
    if fine_tuning.fine_tune(task, config, "run_embeddings", distills=False):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
