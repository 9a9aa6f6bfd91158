r"""Table with 8 to 64 rows of each class, sentence model -> a classifier.

    python -m run_scripts.run_few_shot \
      --train_file=few.jsonl --text_column=text --dev_share=0 \
      --init_checkpoint=models/all-MiniLM-L6-v2 --train_batch_size=8 \
      --num_train_epochs=100 --do_train --output_dir=runs/few

Vectors of rows of a class become similar, and a logistic regression on them is
the head (Tunstall et al. 2022). Train for 100 steps or more. Dev rows are not
needed: --dev_share=0 trains on all rows. Other BERT code cannot read the model,
whose head does not read the pooler. The rest is as in run_glue.
"""

from bert_tf.contrib.search.options import FewShotConfig
from bert_tf.tasks.texts.options import LabelledData
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(LabelledData, FewShotConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.contrib.search.few_shot import FewShot
    from bert_tf.tasks import glue
    from bert_tf.workflows import trials

    data = common_flags.config(LabelledData, FLAGS)
    config = common_flags.config(FewShotConfig, FLAGS)
    task = glue.from_data(data, FewShot)
    if trials.fine_tune(task, config, "run_few_shot"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
