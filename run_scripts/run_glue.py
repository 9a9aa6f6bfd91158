r"""GLUE files, or your own table -> a fine-tuned model, predictions.

Your own table, here a CSV file with the columns `review` and `stars`:

    python -m run_scripts.run_glue \
      --train_file=reviews.csv --text_column=review --label_column=stars \
      --init_checkpoint=models/bert --do_train --do_eval \
      --output_dir=runs/reviews

A task of GLUE, from its files:

    python -m run_scripts.run_glue \
      --task_name=SST-2 --data_dir=glue/SST-2 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/sst-2

Makes the records first, keeps the best model on dev in `best/`, and writes
`eval_results.json` and, in `predictions/`, files in the format of the GLUE
site. Without --init_checkpoint it trains from scratch. AX is predicted with a
model trained on MNLI:

    python -m run_scripts.run_glue \
      --task_name=AX --data_dir=glue/AX --init_checkpoint=runs/mnli \
      --do_predict --output_dir=runs/ax

An MNLI model is also a good initialization for RTE, STS-B and MRPC:
--init_checkpoint=runs/mnli loads the encoder of its best model.

--num_restarts=5 trains with five seeds, --search=paper with the 24 settings
that the paper chose from. Each run gets its own folder in `trials/`; the best
model is in `best/`, all scores are in `trials.json`.
"""

from bert_tf.tasks.texts.options import LabelledData
from bert_tf.workflows.configs import TrialsConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(LabelledData, TrialsConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks import glue
    from bert_tf.workflows import trials

    task = glue.from_data(common_flags.config(LabelledData, FLAGS))
    config = common_flags.config(TrialsConfig, FLAGS)
    if trials.fine_tune(task, config, "run_glue"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
