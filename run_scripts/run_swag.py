r"""SWAG's files -> a fine-tuned model that picks endings, predictions.

    python -m run_scripts.run_swag \
      --data_dir=swag --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/swag

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` and, in `predictions/test.csv`, the number of the ending
that each row of the test file goes on with. Any number of endings, the same in
all rows of a file.
"""

import csv
import os

import numpy as np
from absl import flags, logging

from bert_tf.tasks import swag
from bert_tf.workflows import glue_results
from run_scripts import fine_tuning, work
from run_scripts.flags import common_flags, fine_tuning_flags, swag_flags
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import swag_examples

NAME = "SWAG"

FLAGS = flags.FlagValues()
swag_flags.define_data(FLAGS)
# Devlin et al. 2018, section 4.4.
fine_tuning_flags.define_fine_tuning(
    FLAGS, learning_rate=2e-5, train_batch_size=16, num_train_epochs=3.0
)


def write_predictions(outputs: work.Outputs, path: str) -> None:
    """Writes numbers of endings, as csv_predict.py of SWAG's authors does.

    ,pred
    0,2
    1,3

    Args:
      outputs: `logits` [N, C] of C endings.
      path: of the CSV, which is written whole or not at all.
    """
    predicted = np.argmax(outputs["logits"], axis=-1)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_files.atomic_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["", "pred"])
        writer.writerows(enumerate(predicted.tolist()))
    logging.info("%s  rows %d", path, len(predicted))


def find_work() -> work.Work:
    """Returns the work on the files that the flags mean."""
    files = swag_flags.find_files(FLAGS)
    bert_task = swag.multiple_choice_task(NAME)
    return work.Work(
        name=NAME,
        bert_task=bert_task,
        make_records=lambda tokenizer, folder: swag_examples.make_records(
            files, folder, tokenizer, max_seq_length=FLAGS.max_seq_length
        ),
        make_score=lambda sets: glue_results.make_score(
            ("accuracy",), bert_task, sets
        ),
        majority_baseline=lambda sets: glue_results.majority_baseline(
            ("accuracy",), bert_task, sets
        ),
        best_metric="accuracy",
        write_predictions=lambda sets, predict, folder: write_predictions(
            predict("test"), os.path.join(folder, "test.csv")
        ),
        description={"task": "multiple_choice"},
        inputs=schema.CHOICE_INPUTS,
    )


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    fine_tuning.run(FLAGS, "run_swag", lambda source: find_work())


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
