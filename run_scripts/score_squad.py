r"""SQuAD file, predictions -> the official scores, as JSON.

    python -m run_scripts.score_squad \
      --data_file=squad/dev-v1.1.json --predictions_file=predictions.json

    python -m run_scripts.score_squad \
      --data_file=squad/dev-v2.0.json --predictions_file=predictions.json \
      --na_prob_file=null_odds.json --output_file=scores.json

The scores of evaluate-v1.1.py and evaluate-v2.0.py under their names, in
percent. predictions.json maps the id of each question to the text of its
answer, "" for none; null_odds.json to a number that is higher the less likely
an answer is.
"""

import json

from absl import flags, logging

from bert_tf.tasks import squad_scores
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "data_file", None, "SQuAD file with the questions.", flag_values=FLAGS
)
flags.DEFINE_string(
    "predictions_file",
    None,
    "JSON of question ids and answers.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "na_prob_file",
    None,
    "JSON of question ids and probabilities or odds of no answer, for the best "
    "thresholds of SQuAD 2.0.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "na_prob_thresh",
    1.0,
    "With --na_prob_file: questions above it are taken to have no answer.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "squad_version",
    None,
    ["1.1", "2.0"],
    "Version of a --data_file that does not say it.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output_file",
    "-",
    "JSON to write, whole or not at all; - is stdout.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "data_file", "predictions_file")


def read_by_question(flag: str) -> dict:
    """Reads the JSON object that a flag names.

    Raises:
      ValueError: that names flag and file, if it holds none.
    """
    path = FLAGS[flag].value
    content = atomic_files.read_json(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"--{flag}={path} holds a {type(content).__name__}; it should be "
            "a JSON object with a value for each question's id."
        )
    return content


def main(argv: list[str]) -> None:
    """Scores the predictions that the flags name."""
    common_flags.parse(FLAGS, argv, __doc__)
    if FLAGS["na_prob_thresh"].present and not FLAGS.na_prob_file:
        raise ValueError(
            f"--na_prob_thresh={FLAGS.na_prob_thresh:g} needs --na_prob_file, "
            "whose numbers it is compared with."
        )
    version, answers = squad_scores.read_answers(
        FLAGS.data_file, FLAGS.squad_version
    )
    na_probs = read_by_question("na_prob_file") if FLAGS.na_prob_file else None
    scores = squad_scores.score(
        version,
        answers,
        read_by_question("predictions_file"),
        na_probs,
        FLAGS.na_prob_thresh,
    )
    if FLAGS.output_file == "-":
        print(json.dumps(scores, indent=2))
        return
    atomic_files.write_json(FLAGS.output_file, scores)
    logging.info("%s  questions %d", FLAGS.output_file, len(answers))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
