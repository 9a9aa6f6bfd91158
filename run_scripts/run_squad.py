r"""SQuAD files -> a fine-tuned model that answers questions, its answers.

    python -m run_scripts.run_squad \
      --data_dir=squad --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/squad

    python -m run_scripts.run_squad --version_2_with_negative \
      --data_dir=squad --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/squad2

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` and, in `predictions/`, `predictions.json`,
`nbest_predictions.json` and, of version 2.0, `null_odds.json`. There, how much
more "no answer" must score to be given is tuned on dev, and kept with the
model.
"""

import os

from absl import flags

from bert_tf.tasks import squad, squad_scores
from bert_tf.training import model_folders
from bert_tf.workflows import squad_results
from run_scripts import fine_tuning, work
from run_scripts.flags import common_flags, fine_tuning_flags, squad_flags
from tfrecords.io import atomic_files
from tfrecords.tasks import squad_examples

NAME = "SQuAD"
_THRESHOLD = "null_score_diff_threshold"

FLAGS = flags.FlagValues()
squad_flags.define_data(FLAGS)
squad_flags.define_answers(FLAGS)
# Devlin et al. 2018, section 4.2.
fine_tuning_flags.define_fine_tuning(
    FLAGS,
    max_seq_length=384,
    learning_rate=5e-5,
    train_batch_size=32,
    num_train_epochs=3.0,
)


class Questions:
    """The files that the flags mean, and answers to their questions.

    Attributes:
      files: split to path, once the records are made; of those to train on,
        only where it is done.
      tokenizer: that of the records, once they are made.
      answers: of the annotators to the questions of dev, once they are read.
      threshold: of null odds; None until it is given or tuned on dev.
    """

    def __init__(self):
        self.files = {}
        self.tokenizer = None
        self.answers = {}
        self.threshold = FLAGS.null_score_diff_threshold
        self._answers_of = {}

    def make_records(self, tokenizer, folder: str) -> dict[str, str]:
        """Returns split to folder of records; makes those that are missing."""
        # Not before: which version's files they are, the model may say.
        self.files = squad_flags.find_files(FLAGS)
        if not FLAGS.do_train:
            self.files.pop("train", None)
        self.tokenizer = tokenizer
        return squad_examples.make_records(
            self.files, folder, tokenizer, squad_flags.settings(FLAGS)
        )

    def make_score(self, sets):
        """Returns `score`; what is wrong with dev shows before training."""
        if "dev" in sets:
            version = "2.0" if FLAGS.version_2_with_negative else "1.1"
            _, self.answers = squad_scores.read_answers(
                self.files["dev"], version
            )
        return self.score

    def majority_baseline(self, sets) -> dict[str, dict[str, float]]:
        """Returns the scores of one answer to all questions of dev."""
        is_version_2 = FLAGS.version_2_with_negative
        return {
            "dev": squad_results.majority_baseline(self.answers, is_version_2)
        }

    def _answer(self, split, outputs) -> squad_results.Answered:
        # Read and traced once, and not anew for each evaluation.
        if split not in self._answers_of:
            settings = squad_results.Settings(
                windows=squad_flags.settings(FLAGS),
                n_best_size=FLAGS.n_best_size,
                max_answer_length=FLAGS.max_answer_length,
            )
            self._answers_of[split] = squad_results.make_answer(
                self.files[split], self.tokenizer, settings
            )
        return self._answers_of[split](outputs)

    def score(self, split: str, outputs: work.Outputs) -> dict[str, float]:
        """Returns the official scores of a dev split, in percent."""
        found = squad_results.score(
            self.answers,
            self._answer(split, outputs),
            FLAGS.null_score_diff_threshold,
            FLAGS.version_2_with_negative,
        )
        self.threshold = found.get(_THRESHOLD)
        return found

    def write(self, sets, predict: work.Predict, folder: str) -> None:
        """Writes the answers of the files to be predicted."""
        split = "test" if "test" in sets else "dev"
        found = self._answer(split, predict(split))
        if self.threshold is None:
            self.threshold = _threshold_of_model()
        squad_results.write(found, self.threshold, folder)


def _threshold_of_model() -> float:
    """Returns what was tuned before; 0 in version 1.1, or without --do_eval."""
    if FLAGS.do_train or not FLAGS.version_2_with_negative:
        return 0.0
    source = fine_tuning.find_source(FLAGS)
    path = os.path.join(source, model_folders.METADATA)
    return atomic_files.read_json(path).get(_THRESHOLD, 0.0)


def find_work() -> work.Work:
    """Returns the work on the files that the flags mean."""
    questions = Questions()
    description = {
        "task": "spans",
        "doc_stride": FLAGS.doc_stride,
        "max_query_length": FLAGS.max_query_length,
        "n_best_size": FLAGS.n_best_size,
        "max_answer_length": FLAGS.max_answer_length,
        "version_2_with_negative": FLAGS.version_2_with_negative,
    }
    if FLAGS.do_train and FLAGS.null_score_diff_threshold is not None:
        description[_THRESHOLD] = FLAGS.null_score_diff_threshold
    return work.Work(
        name=NAME,
        bert_task=squad.span_task(NAME),
        make_records=questions.make_records,
        make_score=questions.make_score,
        majority_baseline=questions.majority_baseline,
        best_metric="f1",
        write_predictions=questions.write,
        description=description,
        describe=lambda scores: {
            name: value
            for name, value in scores["dev"].items()
            if name == _THRESHOLD
        },
        predicted=("test", "dev"),
    )


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    fine_tuning.run(FLAGS, "run_squad", lambda source: find_work())


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
