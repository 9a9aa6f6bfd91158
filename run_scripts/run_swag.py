r"""SWAG's files -> a fine-tuned model that picks endings, predictions.

    python -m run_scripts.run_swag \
      --data_dir=swag --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/swag

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` and, in `predictions/test.csv`, the number of the ending
that each row of the test file goes on with. Any number of endings, the same in
all rows of a file.
"""

from bert_tf.workflows.configs import FineTuningConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.swag_files import SwagData

# Devlin et al. 2018, section 4.4.
FLAGS = common_flags.flags_of(
    SwagData, FineTuningConfig, learning_rate=2e-5, train_batch_size=16
)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.swag import Swag
    from bert_tf.workflows import fine_tuning

    task = Swag(common_flags.config(SwagData, FLAGS))
    config = common_flags.config(FineTuningConfig, FLAGS)
    fine_tuning.fine_tune(task, config, "run_swag")


run = common_flags.command(main)

if __name__ == "__main__":
    run()
