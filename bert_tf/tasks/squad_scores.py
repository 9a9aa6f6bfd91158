"""Answers as predicted and as annotated -> SQuAD's scores, as officially made.

The scores and their names are those of evaluate-v1.1.py and evaluate-v2.0.py,
the scripts that SQuAD is published with (Rajpurkar et al. 2016 and 2018), in
percent. The two differ in more than the names: F1 of two answers that are
empty once normalised is 0 in 1.1 and 1 in 2.0, and a question without a
prediction counts as wrong in 1.1, and is no file to score in 2.0.
"""

import collections
import itertools
import re
import string
from collections.abc import Mapping, Sequence

from absl import logging

from tfrecords.io import atomic_files

# First digit of what a file calls itself -> the script that scores it.
_VERSIONS = {"1": "1.1", "2": "2.0"}
# Ids named in a message; of thousands nobody reads more.
_MOST_NAMED = 5
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

# Question id -> texts of its answers, none if it has no answer.
Answers = Mapping[str, Sequence[str]]


def read_answers(
    path: str, version: str | None = None
) -> tuple[str, dict[str, list[str]]]:
    """Reads the annotated answers of a SQuAD file.

    Args:
      path: JSON in SQuAD's layout.
      version: "1.1" or "2.0", for a file that does not say so itself.

    Returns:
      The version, and question id to the texts of its answers, in order.

    Raises:
      ValueError: that names the file, and the question if it is one: if it is
        no SQuAD file or of an unknown or another version, if an id occurs
        twice, or if a question of 1.1 has no answer.
    """
    content = atomic_files.read_json(path)
    if not isinstance(content, dict) or not isinstance(
        content.get("data"), list
    ):
        raise ValueError(
            f'{path} is not in SQuAD\'s layout: no list under "data". Give '
            "the file that the questions are in, such as dev-v1.1.json."
        )
    version = _find_version(path, content.get("version"), version)
    answers: dict[str, list[str]] = {}
    for article in content["data"]:
        try:
            questions = [
                (question["id"], [text["text"] for text in question["answers"]])
                for paragraph in article["paragraphs"]
                for question in paragraph["qas"]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path}: after {len(answers)} questions comes an article "
                f"that is not in SQuAD's layout: {type(error).__name__} "
                f"{error}. Expected paragraphs, each with qas, each with id "
                "and answers; take the official file."
            ) from error
        for name, texts in questions:
            if name in answers:
                raise ValueError(
                    f"{path}: two questions with the id {name!r}. Give each "
                    "one of its own."
                )
            if not texts and version == "1.1":
                raise ValueError(
                    f"{path}: question {name!r} has no answer, and in SQuAD "
                    '1.1 each has one. If it is 2.0, say so under "version".'
                )
            answers[name] = texts
    if not answers:
        raise ValueError(f"{path} has no questions; copy or make it again.")
    return version, answers


def _find_version(path: str, stated: object, wanted: str | None) -> str:
    known = _VERSIONS.get(str(stated).strip().lower().removeprefix("v")[:1])
    if known is None and not wanted:
        raise ValueError(
            f"{path} is of SQuAD version {stated!r}; it should be "
            f"{' or '.join(_VERSIONS.values())}. Take the official file, or "
            "say the version."
        )
    if known and wanted and known != wanted:
        raise ValueError(
            f"{path} is of SQuAD version {stated!r}, and {wanted} is asked "
            "for. Take the other file, or the other version."
        )
    return known or wanted


def normalize(text: str) -> str:
    """Returns a text as answers are compared: "The  Cat's!" is "cats".

    Lower case, then no ASCII punctuation, no articles, single spaces.
    """
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Returns the F1 of two bags of words, in [0, 1]; 0 if one is empty."""
    common = collections.Counter(predicted) & collections.Counter(expected)
    num_same = sum(common.values())
    if not num_same:
        return 0.0
    precision = num_same / len(predicted)
    recall = num_same / len(expected)
    return 2 * precision * recall / (precision + recall)


def score(
    version: str,
    answers: Answers,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """Returns the scores of a file of predictions, in percent.

    Args:
      version: "1.1" or "2.0".
      answers: of every question, as `read_answers` returns them.
      predictions: question id to the text of its answer; "" for none.
      na_probs: question id to a number that is higher the less likely an
        answer is; 2.0 only. Where it is the same for two questions, the best
        thresholds go by the order of this mapping, as in the original.
      na_prob_thresh: questions above it are taken to have no answer.

    Returns:
      Of 1.1 `exact_match` and `f1`. Of 2.0 `exact`, `f1` and `total`, the
      same with `HasAns_` and `NoAns_` before it where there are such
      questions, and with `na_probs` `best_exact`, `best_exact_thresh`,
      `best_f1` and `best_f1_thresh`.

    Raises:
      ValueError: if `predictions` belong to other questions, are no texts, or
        in 2.0 are not there for all; or if `na_probs` are given for 1.1, or
        are no numbers, or not there for all.
    """
    _check_predictions(version, answers, predictions)
    if version == "1.1":
        if na_probs is not None:
            raise ValueError(
                "Probabilities of no answer are for SQuAD 2.0; the questions "
                "of 1.1 all have one. Leave them out."
            )
        exact, f1_scores = _raw_scores(answers, predictions, version)
        return {
            "exact_match": 100.0 * sum(exact.values()) / len(answers),
            "f1": 100.0 * sum(f1_scores.values()) / len(answers),
        }
    if na_probs is not None:
        _check_na_probs(answers, na_probs)
    return _scores_of_2(answers, predictions, na_probs, na_prob_thresh)


def _named(names: Sequence[str]) -> str:
    rest = names[_MOST_NAMED:]
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    return f"{shown} and {len(rest)} more" if rest else shown


def _check_predictions(version, answers, predictions) -> None:
    """Raises ValueError for what cannot be scored, and warns of the rest."""
    others = [name for name in predictions if name not in answers]
    missing = [name for name in answers if name not in predictions]
    if len(missing) == len(answers):
        raise ValueError(
            f"None of the {len(predictions)} predictions is for one of the "
            f"{len(answers)} questions: {_named(others) or 'there are none'}. "
            "Give the predictions for this file, or the file they are for."
        )
    for name in answers:
        if not isinstance(predictions.get(name, ""), str):
            raise ValueError(
                f"The prediction for question {name!r} is "
                f"{predictions[name]!r}; it should be a text, and empty where "
                "there is no answer."
            )
    if others:
        logging.warning(
            "%d predictions are for no question and left out: %s",
            len(others),
            _named(others),
        )
    if missing and version == "2.0":
        # evaluate-v2.0.py ends in a KeyError after it has named them.
        raise ValueError(
            f"{len(missing)} of {len(answers)} questions have no prediction: "
            f"{_named(missing)}. The score of SQuAD 2.0 needs one for each, "
            'and "" where there is no answer.'
        )
    if missing:
        logging.warning(
            "%d of %d questions have no prediction and count as wrong: %s",
            len(missing),
            len(answers),
            _named(missing),
        )


def _check_na_probs(answers, na_probs) -> None:
    for name in answers:
        value = na_probs.get(name)
        if type(value) not in (int, float) or value != value:  # NaN is no odds.
            raise ValueError(
                f"The probability of no answer for question {name!r} is "
                f"{value!r}; it should be a number, for each question."
            )


def _raw_scores(answers, predictions, version):
    """Returns id to exact match, and id to F1, each the best of the answers."""
    exact, f1_scores = {}, {}
    for name, texts in answers.items():
        if name not in predictions:
            continue
        expected = [normalize(text) for text in texts]
        if version == "2.0":
            # An answer of articles alone is none.
            expected = [text for text in expected if text] or [""]
        predicted = normalize(predictions[name])
        exact[name] = float(predicted in expected)
        if version == "2.0" and not (predicted and expected[0]):
            # No answer: all or nothing. None of `expected` is empty, or all.
            f1_scores[name] = exact[name]
        else:
            f1_scores[name] = max(
                f1(predicted.split(), text.split()) for text in expected
            )
    return exact, f1_scores


def _scores_of_2(answers, predictions, na_probs, thresh) -> dict[str, float]:
    exact, f1_scores = _raw_scores(answers, predictions, "2.0")
    raw = {"exact": exact, "f1": f1_scores}
    final = raw
    if na_probs is not None:
        no_answer = {name for name in answers if na_probs[name] > thresh}
        final = {
            metric: scores
            | {name: float(not answers[name]) for name in no_answer}
            for metric, scores in raw.items()
        }
    results = {}
    for prefix, names in (
        ("", list(answers)),
        ("HasAns_", [name for name in answers if answers[name]]),
        ("NoAns_", [name for name in answers if not answers[name]]),
    ):
        if names:
            for metric, scores in final.items():
                total = sum(scores[name] for name in names)
                results[f"{prefix}{metric}"] = 100.0 * total / len(names)
            results[f"{prefix}total"] = len(names)
    if na_probs is not None:
        for metric, scores in raw.items():
            best, best_thresh = _best(answers, predictions, scores, na_probs)
            results[f"best_{metric}"] = best
            results[f"best_{metric}_thresh"] = best_thresh
    return results


def _best(answers, predictions, scores, na_probs) -> tuple[float, float]:
    """Returns the best score that a threshold can give, and the threshold.

    From none answered on, one question more in each step: those with an
    answer add their score, those without lose one unless nothing is said.
    """
    names = sorted(
        (name for name in na_probs if name in scores), key=na_probs.__getitem__
    )
    gains = [
        scores[name] if answers[name] else -float(bool(predictions[name]))
        for name in names
    ]
    num_no_answer = sum(not texts for texts in answers.values())
    sums = list(itertools.accumulate(gains, initial=float(num_no_answer)))
    best = max(sums)
    count = sums.index(best)  # The first of equals.
    thresh = float(na_probs[names[count - 1]]) if count else 0.0
    return 100.0 * best / len(scores), thresh
