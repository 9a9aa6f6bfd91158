"""Predicted and annotated answers -> the official scores of SQuAD.

The scores and their names are those of the official scripts evaluate-v1.1.py
and evaluate-v2.0.py (Rajpurkar et al. 2016 and 2018), in percent. The scripts
differ in more than names: F1 of two answers that are empty after normalization
is 0 in 1.1 and 1 in 2.0; a question without a prediction counts as wrong in 1.1
and is an error in 2.0.

How two texts are compared is a choice of its own, see `RULES`: as in SQuAD, in
CMRC 2018 (Cui et al. 2019) or in KorQuAD 1.0 (Lim et al. 2019).
"""

import collections
import difflib
import itertools
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords.io import json_files
from tfrecords.options import quoted, some
from tfrecords.tasks import squad_files

# First digit of a file's version, as in v2.0 and KorQuAD_v1.0_dev -> version of
# the script that scores it.
_VERSIONS = {"1": "1.1", "2": "2.0"}
_VERSION = re.compile(r"(?:^|_)v?(\d)", re.IGNORECASE)
# Kind of what is read of a file, see `json_files.check`.
_QUESTION = {"answers": [{"text": str}]}
# Maximum number of ids in a message.
_MAX_NAMED = 5
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# evaluate-v1.0.py of KorQuAD: normalize_answer, remove_.
_KOREAN = _NO_PUNCTUATION | str.maketrans(
    dict.fromkeys("'\"《》<>〈〉()‘’", " ")
)
# cmrc2018_evaluate.py: sp_char, without the two characters of its "……", which
# it compares with one.
_CHINESE = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)
_CHINESE_CHARACTER = re.compile("([\u4e00-\u9fa5])")
# Between Chinese characters, words are those of NLTK's word_tokenize: marks are
# words, endings are split off, a comma stays before a digit. A period is a word
# at the end and, in place of NLTK's trained list of abbreviations, after three
# letters.
_MARKS = r";@#$%&?!()\[\]{}<>\"“‘„«»\u2012-\u2015"
_ENDING = rf"(?:'(?:s|m|d|ll|re|ve)?|n't)(?=[\s,{_MARKS}]|$)"
_PERIOD = r"\.[)\]}>\"'»\s]*$|(?<=[^\W\d_]{3})\.[)\]}>\"'»]*[\s(\[]"
_WORD = re.compile(
    rf"\.\.+|[{_MARKS}]|{_ENDING}|(?<!\w)'(?=\w)"
    rf"|(?:(?!{_ENDING}|{_PERIOD}|\.\.)[^\s,{_MARKS}]|,(?=\d))+|[.,]"
)
_OPENING = re.compile(r"(?:^|(?<=[\s(\[{<]))\"+")

# Question id -> texts of its answers, empty if it has no answer.
Answers = Mapping[str, Sequence[str]]


def read_answers(
    path: str, version: str | None = None
) -> tuple[str, dict[str, list[str]]]:
    """Reads the annotated answers of a SQuAD file.

    Args:
      path: JSON or rows, or several files, as in `squad_files.read_entries`.
      version: "1.1" or "2.0"; None to use the version in the file. Rows are of
        2.0 if one of them has no answer.

    Returns:
      The version, and the texts of the answers by question id, in order.

    Raises:
      ValueError: if it is not a SQuAD file, its version is unknown or not
        `version`, an id occurs twice, or a question of 1.1 has no answer. The
        message names the file, the line of a row and, if known, the question.
    """

    def choose(content, file):
        nonlocal version
        version = _choose_version(file, content.get("version"), version)

    questions = []
    for _, question, where in squad_files.read_entries(path, choose):
        json_files.check(question, _QUESTION, where)
        name = squad_files.question_id(question, f"{where}, a question")
        texts = [answer["text"] for answer in question["answers"]]
        questions.append((name, texts, where))
    has_all = all(texts for _, texts, _ in questions)
    version = version or ("1.1" if has_all else "2.0")
    squad_files.check_ids((name for name, *_ in questions), path)
    for name, texts, where in questions:
        if not texts and version == "1.1":
            raise ValueError(
                f"{where}: question {quoted(name)} has no answer, and in SQuAD "
                '1.1 each has one. If the file is 2.0, set its "version"; '
                "run_squad reads rows so with --version_2_with_negative."
            )
    if not questions:
        raise ValueError(f"{path} has no questions; copy or create it again.")
    return version, {name: texts for name, texts, _ in questions}


def _choose_version(path: str, stated: object, wanted: str | None) -> str:
    number = _VERSION.search(str(stated).strip())
    known = number and _VERSIONS.get(number[1])
    if known is None and not wanted:
        raise ValueError(
            f"{path}: the SQuAD version is {quoted(stated)}; it should be "
            f"{' or '.join(_VERSIONS.values())}. Use the official file, or "
            'set its "version".'
        )
    if known and wanted and known != wanted:
        raise ValueError(
            f"{path}: the SQuAD version is {quoted(stated)}, but "
            f"{wanted} was asked for, or is that of the file before. Give "
            "files of one version."
        )
    return known or wanted


def normalize(text: str) -> str:
    """Returns a text normalized for comparison: "The  Cat's!" is "cats".

    Lower-cases it; removes ASCII punctuation, articles and repeated spaces.
    """
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def normalize_korean(text: str) -> str:
    """Returns a text without case and punctuation; quotes become spaces."""
    return " ".join(text.lower().translate(_KOREAN).split())


def normalize_chinese(text: str) -> str:
    """Returns a text in lower case, without most punctuation."""
    return text.lower().strip().translate(_CHINESE)


def split_chinese(text: str) -> list[str]:
    """Returns Chinese characters and words: "在iPhone 6s上" is 在 iphone 6s 上.

    cmrc2018_evaluate.py: mixed_segmentation, of a normalized text.
    """
    parts = _CHINESE_CHARACTER.split(text)
    for i, run in enumerate(parts[::2]):
        run = _OPENING.sub(lambda quotes: "“" * len(quotes[0]), run)
        parts[2 * i] = _WORD.findall(run)
    return list(itertools.chain.from_iterable(parts))


def _same_in_bags(predicted: Sequence[str], expected: Sequence[str]) -> int:
    common = collections.Counter(predicted) & collections.Counter(expected)
    return sum(common.values())


def _longest_common_run(
    predicted: Sequence[str], expected: Sequence[str]
) -> int:
    matcher = difflib.SequenceMatcher(None, predicted, expected, autojunk=False)
    return matcher.find_longest_match().size


class Rules(NamedTuple):
    """How a prediction is compared with an answer."""

    normalize: Callable[[str], str]  # Equal results are an exact match.
    split: Callable[[str], Sequence[str]]  # A normalized text, for F1.
    num_same: Callable[[Sequence[str], Sequence[str]], int]


RULES = {
    "squad": Rules(normalize, str.split, _same_in_bags),
    "cmrc": Rules(normalize_chinese, split_chinese, _longest_common_run),
    "korquad": Rules(
        normalize_korean, lambda text: text.replace(" ", ""), _same_in_bags
    ),
}


def f1(
    predicted: Sequence[str], expected: Sequence[str], num_same: int
) -> float:
    """Returns the F1 in [0, 1] of two sequences with `num_same` in common."""
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
    rules: str = "squad",
) -> dict[str, float]:
    """Returns the scores of predictions; F1 and exact match are in percent.

    Args:
      version: "1.1" or "2.0".
      answers: answers to all questions, from `read_answers`.
      predictions: text of the answer by question id; "" for no answer.
      na_probs: question id -> number, higher if it is more likely that there is
        no answer; 2.0 only. If numbers are equal, the best scores and
        thresholds depend on the order of this mapping, as in the original.
      na_prob_thresh: questions whose number in `na_probs` exceeds it are
        predicted to have no answer.
      rules: how texts are compared, a key of `RULES`.

    Returns:
      For 1.1, `exact_match` and `f1`. For 2.0, `exact`, `f1` and `total`; the
      same with prefixes `HasAns_` and `NoAns_`, if there are such questions;
      and with `na_probs`, `best_exact`, `best_exact_thresh`, `best_f1` and
      `best_f1_thresh`.

    Raises:
      ValueError: if all predictions are for other questions, some are not
        strings, or in 2.0 some are missing; or if `na_probs` are given for 1.1,
        are not numbers, or are missing for some questions.
    """
    _check_predictions(version, answers, predictions)
    if version == "1.1":
        if na_probs is not None:
            raise ValueError(
                "Probabilities of no answer are for SQuAD 2.0; all questions "
                "of 1.1 have an answer. Omit them."
            )
        exact, f1_scores = _raw_scores(answers, predictions, version, rules)
        return {
            "exact_match": 100.0 * sum(exact.values()) / len(answers),
            "f1": 100.0 * sum(f1_scores.values()) / len(answers),
        }
    if na_probs is not None:
        _check_na_probs(answers, na_probs)
    return _scores_of_2(answers, predictions, na_probs, na_prob_thresh, rules)


def _named(names: Sequence[str]) -> str:
    return some([*map(repr, names)], most=_MAX_NAMED)


def _check_predictions(version, answers, predictions) -> None:
    """Raises ValueError for invalid predictions, or logs a warning."""
    others = [name for name in predictions if name not in answers]
    missing = [name for name in answers if name not in predictions]
    if len(missing) == len(answers):
        raise ValueError(
            f"None of the {len(predictions)} predictions is for one of the "
            f"{len(answers)} questions: {_named(others) or 'there are none'}. "
            "Give predictions and a question file that belong together."
        )
    for name in answers:
        if not isinstance(predictions.get(name, ""), str):
            raise ValueError(
                f"The prediction for question {name!r} is "
                f"{quoted(predictions[name])}; it should be a string, empty if "
                "there is no answer."
            )
    if others:
        logging.warning(
            "%d predictions are for unknown questions and are ignored: %s",
            len(others),
            _named(others),
        )
    if missing and version == "2.0":
        # evaluate-v2.0.py lists them and ends with a KeyError.
        raise ValueError(
            f"{len(missing)} of {len(answers)} questions have no prediction: "
            f"{_named(missing)}. The score of SQuAD 2.0 needs one for each, "
            '"" if there is no answer.'
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
        if type(value) not in (int, float) or value != value:  # NaN.
            raise ValueError(
                f"The probability of no answer for question {name!r} is "
                f"{quoted(value)}; it should be a number. Each question needs "
                "one."
            )


def _raw_scores(answers, predictions, version, rules):
    """Returns exact match and F1 by question id, each for the best answer."""
    normalize, split, num_same = RULES[rules]
    exact, f1_scores = {}, {}
    for name, texts in answers.items():
        if name not in predictions:
            continue
        expected = [normalize(text) for text in texts]
        if version == "2.0":
            # Drops answers that normalization makes empty, such as "the".
            expected = [text for text in expected if text] or [""]
        predicted = normalize(predictions[name])
        exact[name] = float(predicted in expected)
        if version == "2.0" and not (predicted and expected[0]):
            # If prediction or annotation is "no answer", F1 equals exact match.
            # `expected` is [""] or has no empty text.
            f1_scores[name] = exact[name]
        else:
            words = split(predicted)
            f1_scores[name] = max(
                f1(words, others, num_same(words, others))
                for others in map(split, expected)
            )
    return exact, f1_scores


def _scores_of_2(
    answers, predictions, na_probs, thresh, rules
) -> dict[str, float]:
    exact, f1_scores = _raw_scores(answers, predictions, "2.0", rules)
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
    """Returns the best score of all thresholds, and its threshold.

    At first all questions are predicted to have no answer; each step accepts
    the prediction for one more. This adds its score if the question has an
    answer; otherwise it subtracts 1, unless the prediction is empty.
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
    count = sums.index(best)  # The first of equal sums.
    thresh = float(na_probs[names[count - 1]]) if count else 0.0
    return 100.0 * best / len(scores), thresh
