r"""CoNLL column files -> a fine-tuned tagger of named entities, predictions.

    python -m run_scripts.run_ner \
      --data_dir=conll2003 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/ner

Makes the records first, keeps the best model on dev in `best/`, and writes
`eval_results.json` with entity and token F1 and, in `predictions/`, dev.txt and
test.txt: the columns of the input file and the predicted tag, for conlleval.
Tags that are no entities, such as parts of speech, are scored by accuracy.

With --feature_layers the encoder is frozen and a BiLSTM is trained on its
hidden states, once for each choice of layers; `all` selects the six rows of
table 7 of the paper:

    python -m run_scripts.run_ner \
      --data_dir=conll2003 --init_checkpoint=models/base \
      --feature_layers=concat_last_four,last \
      --do_train --do_eval --do_predict --output_dir=runs/ner-features
"""

from bert_tf.workflows.configs import NerConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.ner_files import NerData

FLAGS = common_flags.flags_of(NerData, NerConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.ner import Ner
    from bert_tf.workflows import fine_tuning
    from experiments.feature_based import ner_features

    data = common_flags.config(NerData, FLAGS)
    config = common_flags.config(NerConfig, FLAGS)
    if config.feature_layers is not None:
        ner_features.fine_tune(data, config, "run_ner")
    else:
        fine_tuning.fine_tune(Ner(data), config, "run_ner")


run = common_flags.command(main)

if __name__ == "__main__":
    run()
