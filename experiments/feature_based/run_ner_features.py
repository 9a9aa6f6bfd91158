r"""CoNLL column files, frozen encoder -> taggers, predictions (table 7).

    python -m experiments.feature_based.run_ner_features \
      --data_dir=conll2003 --init_checkpoint=models/base \
      --do_train --do_eval --do_predict --output_dir=runs/ner-features

A BiLSTM is trained on hidden states of the frozen encoder, once for each choice
of layers in --feature_layers; without the flag, for the six rows of table 7 of
the paper. Each has its own folder in --output_dir, with the files of run_ner.
"""

import os

from experiments.feature_based.config import FeaturesConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.ner_files import NerData

FLAGS = common_flags.make_flags(
    NerData, FeaturesConfig, learning_rate=1e-3, num_train_epochs=20.0
)


def main(argv: list[str]) -> None:
    """Makes features, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from experiments.feature_based import ner_features

    data = common_flags.config(NerData, FLAGS)
    config = common_flags.config(FeaturesConfig, FLAGS)
    for choice in ner_features.fine_tune(
        data, config, "experiments.feature_based.run_ner_features"
    ):
        common_flags.write_report(os.path.join(config.output_dir, choice))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
