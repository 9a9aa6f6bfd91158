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

import dataclasses
import json

from absl import logging

from bert_tf.tasks import squad_scores
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files
from tfrecords.options import REQUIRED, Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConfig(Options):
    """Which answers to score, and how."""

    data_file: str = option(REQUIRED, "SQuAD file with the questions.")
    predictions_file: str = option(
        REQUIRED, "JSON of question ids and answers."
    )
    na_prob_file: str | None = option(
        None,
        "JSON of question ids and probabilities or odds of no answer, for the "
        "best thresholds of SQuAD 2.0.",
    )
    na_prob_thresh: float | None = option(
        None,
        "With --na_prob_file: questions above it are taken to have no answer. "
        "Default: 1.",
    )
    squad_version: str | None = option(
        None,
        "Version of a --data_file that does not say it.",
        choices=("1.1", "2.0"),
    )
    output_file: str = option(
        "-", "JSON to write, completely or not at all; - is stdout."
    )


FLAGS = common_flags.flags_of(ScoreConfig)


def read_by_question(flag: str, path: str) -> dict:
    """Reads the JSON object at the path that a flag names.

    Raises:
      ValueError: that names flag and file, if it holds none.
    """
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
    config = common_flags.config(ScoreConfig, FLAGS)
    thresh, na_probs = config.na_prob_thresh, None
    if thresh is not None and not config.na_prob_file:
        raise ValueError(
            f"--na_prob_thresh={thresh:g} needs --na_prob_file, whose numbers "
            "it is compared with."
        )
    version, answers = squad_scores.read_answers(
        config.data_file, config.squad_version
    )
    if config.na_prob_file:
        na_probs = read_by_question("na_prob_file", config.na_prob_file)
    scores = squad_scores.score(
        version,
        answers,
        read_by_question("predictions_file", config.predictions_file),
        na_probs,
        1.0 if thresh is None else thresh,
    )
    if config.output_file == "-":
        print(json.dumps(scores, indent=2))
        return
    atomic_files.write_json(config.output_file, scores)
    logging.info("%s  questions %d", config.output_file, len(answers))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
