r"""Table of queries, passages and grades -> a model that ranks passages.

    python -m run_scripts.run_ranking \
      --train_file=passages.tsv --text_column=query,passage \
      --label_column=grade --ranking_loss=binary --init_checkpoint=runs/tiny \
      --do_train --do_eval --output_dir=runs/passages

The model reads query and passage together (a cross-encoder) and gives the pair
a score. --ranking_loss=listwise compares passages of the same query. All
passages of a query of dev are ranked: nDCG@10 decides which model is kept in
`best/`. The rest is as in run_glue.
"""

from bert_tf.contrib.search.options import LabelledRankings
from bert_tf.workflows.configs import TrialsConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(LabelledRankings, TrialsConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.contrib.search.ranking_task import Ranking
    from bert_tf.tasks import glue
    from bert_tf.workflows import trials

    data = common_flags.config(LabelledRankings, FLAGS)
    config = common_flags.config(TrialsConfig, FLAGS)
    task = glue.from_data(data, Ranking)
    if trials.fine_tune(task, config, "run_ranking"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
