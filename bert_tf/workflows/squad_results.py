"""Logits of a file's windows -> answers to its questions, scores, JSON files.

Letters: N questions, W windows of all of them, S max_seq_length.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.tasks import squad_answers, squad_scores
from tfrecords.io import atomic_files
from tfrecords.tasks import squad_examples, squad_files
from tfrecords.text import tokenizer as tokenizer_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How questions are answered.

    Attributes:
      windows: settings of windows, as the records were made with.
      n_best_size, max_answer_length: as for `squad_answers.choose`.
    """

    windows: squad_examples.Settings
    n_best_size: int = 20
    max_answer_length: int = 30


class Answered(NamedTuple):
    """Answers to the questions of a file, by their ids and in its order.

    Attributes:
      best: text of the best answer that is one.
      nbest: entries of nbest_predictions.json, the most likely first.
      null_odds: how much more no answer scores than `best`; version 2.0 only.
    """

    best: dict[str, str]
    nbest: dict[str, list[dict]]
    null_odds: dict[str, float]


def make_answer(
    path: str, tokenizer: tokenizer_lib.BertTokenizer, settings: Settings
) -> Callable[[Mapping[str, np.ndarray]], Answered]:
    """Returns outputs -> the answers to a file's questions; make it once.

    The outputs are `start_logits` and `end_logits` of all windows of the file,
    [W, S] or shorter where all windows are.

    Args:
      path: SQuAD JSON.
      tokenizer: that of the records.
      settings: see there.
    """
    windows = settings.windows
    questions = squad_files.read_questions(
        path,
        version_2_with_negative=windows.version_2_with_negative,
        is_training=False,
    )
    choose = tf.function(
        lambda chunk, start, end, passages: squad_answers.choose(
            chunk,
            start,
            end,
            passages,
            n_best_size=settings.n_best_size,
            max_answer_length=settings.max_answer_length,
            version_2_with_negative=windows.version_2_with_negative,
        ),
        autograph=False,
        reduce_retracing=True,  # Chunks differ in their number of windows.
    )
    make_chunks = squad_examples.chunk_maker(tokenizer, windows)

    def answer(outputs: Mapping[str, np.ndarray]) -> Answered:
        logits = [
            _lengthened(outputs[name], windows.max_seq_length)
            for name in ("start_logits", "end_logits")
        ]
        found = Answered({}, {}, {})
        begin = 0
        for chunk in make_chunks(questions):
            end = begin + len(chunk.windows.question)
            answers = choose(
                tf.nest.map_structure(tf.constant, chunk.windows),
                *(tf.constant(array[begin:end]) for array in logits),
                tf.constant([q.passage for q in chunk.questions]),
            )
            begin = end
            is_version_2 = windows.version_2_with_negative
            _add(found, chunk.questions, answers, is_version_2)
        if len(found.best) < len(questions):
            logging.warning(
                "%s: %d questions have an id that another has; the last one's "
                "answer is kept.",
                path,
                len(questions) - len(found.best),
            )
        return found

    return answer


def _lengthened(logits: np.ndarray, length: int) -> np.ndarray:
    """Returns [W, S]; where batches were shorter, -inf stands already."""
    missing = length - logits.shape[1]
    return np.pad(logits, [(0, 0), (0, missing)], constant_values=-np.inf)


def _add(
    found: Answered,
    questions: Sequence[squad_files.Question],
    answers: squad_answers.Answers,
    is_version_2: bool,
) -> None:
    """Adds the answers of some questions."""
    texts, best = answers.texts.numpy(), answers.best.numpy()
    counts, null_odds = answers.count.numpy(), answers.null_odds.numpy()
    columns = [
        answers.probabilities.numpy().tolist(),
        answers.spans.start_logit.numpy().tolist(),
        answers.spans.end_logit.numpy().tolist(),
    ]
    names = ("probability", "start_logit", "end_logit")
    for row, question in enumerate(questions):
        found.best[question.id] = best[row].decode()
        found.nbest[question.id] = [
            {"text": texts[row, place].decode()}
            | {n: c[row][place] for n, c in zip(names, columns, strict=True)}
            for place in range(counts[row])
        ]
        if is_version_2:
            found.null_odds[question.id] = float(null_odds[row])


def decide(found: Answered, threshold: float) -> dict[str, str]:
    """Returns question id to answer: "" where null odds are above it."""
    return {
        name: "" if found.null_odds.get(name, -np.inf) > threshold else text
        for name, text in found.best.items()
    }


def score(
    answers: squad_scores.Answers,
    found: Answered,
    threshold: float | None,
    is_version_2: bool,
) -> dict[str, float]:
    """Returns the official scores, in percent, of what is written to files.

    Args:
      answers: of the annotators.
      found: what was answered.
      threshold: of null odds; None to choose what is best for F1.
      is_version_2: whether questions may have no answer; then
        `null_score_diff_threshold` is among the scores.
    """
    if not is_version_2:
        return squad_scores.score("1.1", answers, found.best)
    if threshold is None:
        threshold = find_threshold(answers, found)
    scores = squad_scores.score("2.0", answers, decide(found, threshold))
    return scores | {"null_score_diff_threshold": threshold}


def find_threshold(answers: squad_scores.Answers, found: Answered) -> float:
    """Returns the threshold of null odds that gives the best F1.

    It lies midway between the odds of two questions, so that last bits, which
    differ by batches and devices, decide nothing.
    """
    best = squad_scores.score("2.0", answers, found.best, found.null_odds)
    odds = np.unique(list(found.null_odds.values()))  # Sorted.
    # By bounds[i] those questions are answered that have odds[:i].
    middles = (odds[:-1] + odds[1:]) / 2
    bounds = [odds[0] - 1.0, *middles, odds[-1] + 1.0]
    place = np.searchsorted(odds, best["best_f1_thresh"], side="right")
    # Where it is best to answer none, the official script says 0.
    return max(
        (float(bounds[place]), float(bounds[0])),
        key=lambda bound: squad_scores.score(
            "2.0", answers, decide(found, bound)
        )["f1"],
    )


def majority_baseline(
    answers: squad_scores.Answers, is_version_2: bool
) -> dict[str, float]:
    """Returns the scores of one answer to all: none, or the most frequent."""
    version = "2.0" if is_version_2 else "1.1"
    text = ""
    if not is_version_2:
        counts = collections.Counter(
            text for texts in answers.values() for text in set(texts)
        )
        ((text, _),) = counts.most_common(1)
    return squad_scores.score(version, answers, dict.fromkeys(answers, text))


def write(found: Answered, threshold: float, folder: str) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    Args:
      found: what was answered; null_odds.json is written in version 2.0 only.
      threshold: of null odds.
      folder: gets the files, each whole or not at all.
    """
    os.makedirs(folder, exist_ok=True)
    contents = {
        "predictions.json": decide(found, threshold),
        "nbest_predictions.json": found.nbest,
    }
    if found.null_odds:
        contents["null_odds.json"] = found.null_odds
    for name, content in contents.items():
        path = os.path.join(folder, name)
        with atomic_files.atomic_file(path) as file:
            json.dump(content, file, indent=4)
            file.write("\n")
        logging.info("%s  questions %d", path, len(content))
