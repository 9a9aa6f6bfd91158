r"""Files of tagged words -> a fine-tuned tagger of named entities, predictions.

    python -m run_scripts.run_ner \
      --data_dir=conll2003 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/ner

Makes the records first, keeps the best model on dev in `best/`, and writes
`eval_results.json` with entity and token F1 and, in `predictions/`, dev.txt and
test.txt: the columns of the input file and the predicted tag, for conlleval.
JSON lines and Parquet are read, too: a row has words and tags, or a text and
spans of characters (doccano, spaCy, Prodigy, Argilla, Label Studio), and
predictions are written as such rows as well.
Tags that are no entities, such as parts of speech, are scored by accuracy.
"""

from bert_tf.workflows.configs import FineTuningConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.ner_files import NerData

FLAGS = common_flags.make_flags(NerData, FineTuningConfig, train_batch_size=16)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.ner import Ner
    from bert_tf.workflows import fine_tuning

    task = Ner(common_flags.config(NerData, FLAGS))
    config = common_flags.config(FineTuningConfig, FLAGS)
    if fine_tuning.fine_tune(task, config, "run_ner"):
        common_flags.write_report(config.output_dir)


run = common_flags.command(main)

if __name__ == "__main__":
    run()
