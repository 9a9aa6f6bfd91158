r"""SWAG files -> a fine-tuned multiple-choice model, predictions.

    python -m run_scripts.run_swag \
      --data_dir=swag --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/swag

Makes the records first, keeps the best model on dev in `best/`, and writes
`eval_results.json` and, in `predictions/test.csv`, the index of the predicted
ending for each row of the test file. The number of endings may be any, the same
in all rows of a file.
"""

from bert_tf.workflows.configs import FineTuningConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.swag_files import SwagData

# Devlin et al. 2018, section 4.4.
FLAGS = common_flags.make_flags(
    SwagData, FineTuningConfig, learning_rate=2e-5, train_batch_size=16
)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.swag import Swag
    from bert_tf.workflows import fine_tuning

    task = Swag(common_flags.config(SwagData, FLAGS))
    config = common_flags.config(FineTuningConfig, FLAGS)
    if fine_tuning.fine_tune(task, config, "run_swag"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
