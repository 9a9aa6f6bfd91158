r"""SQuAD file, predictions -> the official scores, as JSON.

    python -m run_scripts.score_squad \
      --data_file=squad/dev-v1.1.json --predictions_file=predictions.json

    python -m run_scripts.score_squad \
      --data_file=squad/dev-v2.0.json --predictions_file=predictions.json \
      --na_prob_file=null_odds.json --output_file=scores.json

    python -m run_scripts.score_squad --score=cmrc \
      --data_file=cmrc2018_dev.json --predictions_file=predictions.json

Computes the scores of evaluate-v1.1.py and evaluate-v2.0.py, in percent, under
the same names; with --score, texts are compared as in CMRC 2018 (and DRCD) or
KorQuAD 1.0. predictions.json maps the id of each question to the text of its
answer, or "" for no answer; null_odds.json maps it to a number that is higher
the less likely an answer is.
"""

import dataclasses

from absl import logging

from bert_tf.tasks import squad_scores
from run_scripts.flags import common_flags
from tfrecords.io import json_files, streams
from tfrecords.options import REQUIRED, option
from tfrecords.tables import parts
from tfrecords.tasks import squad_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConfig(squad_files.ScoreOptions):
    """Predictions to score, and how to score them."""

    data_file: str = option(
        REQUIRED,
        "File with the questions and their answers: SQuAD JSON, or its rows as "
        "datasets writes them (Parquet, JSON lines).",
        reads=True,
    )
    predictions_file: str = option(
        REQUIRED, "JSON object of question ids and answers.", reads=True
    )
    na_prob_file: str | None = option(
        None,
        "JSON object of question ids and probabilities or odds of no answer, "
        "to find the best thresholds for SQuAD 2.0.",
        reads=True,
    )
    output_file: str = option(
        "-", "JSON file to write, atomically; - is stdout.", writes="file"
    )


FLAGS = common_flags.make_flags(ScoreConfig)


def main(argv: list[str]) -> None:
    """Scores the predictions."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(ScoreConfig, FLAGS)
    inputs = [("data_file", path) for path in parts.find(config.data_file)]
    for name in ("predictions_file", "na_prob_file"):
        inputs.append((name, getattr(config, name)))
    streams.check_output("output_file", config.output_file, inputs)
    version, answers = squad_scores.read_answers(config.data_file)
    scores = squad_scores.score(
        version,
        answers,
        json_files.read(config.predictions_file),
        config.na_prob_file and json_files.read(config.na_prob_file),
        rules=config.score,
    )
    json_files.write(config.output_file, scores)
    logging.info("%s  questions %d", config.output_file, len(answers))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
