r"""SQuAD files -> a fine-tuned question answering model, predictions.

    python -m run_scripts.run_squad \
      --data_dir=squad --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/squad

    python -m run_scripts.run_squad --version_2_with_negative \
      --data_dir=squad --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/squad2

Makes the records first, keeps the best model on dev in `best/`, and writes
`eval_results.json` and, in `predictions/`, `predictions.json`,
`nbest_predictions.json` and, for version 2.0, `null_odds.json`. For version 2.0
the threshold of the null score (--null_score_diff_threshold) is tuned on dev
and saved with the model.
"""

from bert_tf.workflows.configs import FineTuningConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.squad_files import SquadOptions

FLAGS = common_flags.make_flags(SquadOptions, FineTuningConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.squad import Squad
    from bert_tf.workflows import fine_tuning

    task = Squad(common_flags.config(SquadOptions, FLAGS))
    config = common_flags.config(FineTuningConfig, FLAGS)
    if fine_tuning.fine_tune(task, config, "run_squad"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
