r"""SQuAD files -> a fine-tuned span predictor with a BiLSTM (table 5).

    python -m experiments.bilstm.run_squad \
      --train_file=squad/train-v1.1.json --dev_file=squad/dev-v1.1.json \
      --init_checkpoint=runs/tiny --bilstm_units=128 --do_train --do_eval \
      --output_dir=runs/squad-bilstm

As run_scripts.run_squad, but for a newly initialized BiLSTM between encoder and
head. The model is not for other commands.
"""

from experiments.bilstm.config import BiLSTMFineTuningConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.squad_files import SquadOptions

FLAGS = common_flags.make_flags(SquadOptions, BiLSTMFineTuningConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.squad import Squad
    from experiments.bilstm import fine_tuning

    task = Squad(common_flags.config(SquadOptions, FLAGS))
    config = common_flags.config(BiLSTMFineTuningConfig, FLAGS)
    fine_tuning.fine_tune(task, config, "experiments.bilstm.run_squad")


run = common_flags.command(main)

if __name__ == "__main__":
    run()
