r"""GLUE files, or your own table -> a fine-tuned model with a BiLSTM (table 5).

    python -m experiments.bilstm.run_glue \
      --task_name=SST-2 --data_dir=glue/SST-2 --init_checkpoint=runs/tiny \
      --bilstm_units=128 --do_train --do_eval --output_dir=runs/sst-2-bilstm

As run_scripts.run_glue, but for a newly initialized BiLSTM between encoder and
head. The model is not for other commands.
"""

from bert_tf.tasks.texts.options import LabelledData
from experiments.bilstm.config import BiLSTMFineTuningConfig
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(LabelledData, BiLSTMFineTuningConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks import glue
    from experiments.bilstm import fine_tuning

    task = glue.from_data(common_flags.config(LabelledData, FLAGS))
    config = common_flags.config(BiLSTMFineTuningConfig, FLAGS)
    fine_tuning.fine_tune(task, config, "experiments.bilstm.run_glue")


run = common_flags.command(main)

if __name__ == "__main__":
    run()
