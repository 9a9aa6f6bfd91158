"""SQuAD files -> Squad: windows, model, losses, answers, scores, files.

Devlin et al. 2018, sections 4.2 and 4.3: a vector for the start and one for the
end of the answer, a softmax over the window's positions for each, and the mean
of the two losses. In a window without an answer both are at [CLS].

N questions, W windows of all questions, S max_seq_length.
"""

import collections
import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.model import models
from bert_tf.tasks import squad_answers, squad_scores
from bert_tf.tasks.task import (
    FineTuningTask,
    Resampled,
    Target,
    evaluated_model,
)
from tfrecords import schema
from tfrecords.io import atomic_files
from tfrecords.tasks import squad_examples, squad_files

_THRESHOLD = "null_score_diff_threshold"
_WINDOWS = squad_examples.Settings()
# Options that default to None: prediction uses the model's values, or else
# these, which are those of run_squad.py.
_DEFAULTS = {
    "doc_stride": _WINDOWS.doc_stride,
    "max_query_length": _WINDOWS.max_query_length,
    "n_best_size": 20,
    "max_answer_length": 30,
    "version_2_with_negative": _WINDOWS.version_2_with_negative,
}


class Squad(FineTuningTask):
    """Prediction of the span of a passage that answers a question.

    Args:
      data: files, and settings of windows and answers; None if `make_records`
        is not used.
    """

    name = "SQuAD"
    schema = schema.SPANS
    max_seq_length = _WINDOWS.max_seq_length
    best_metric = "f1"
    prediction_splits = ("test", "dev")

    def __init__(self, data: squad_files.SquadOptions | None = None):
        self.data = data
        self.files: dict[str, str] = {}  # Split -> path.
        # Split -> answers in its file: of dev, and of test if there are any.
        self.annotated: dict[str, squad_scores.Answers] = {}
        self.tuned_threshold: float | None = None
        self.model_threshold = 0.0
        self._answer: dict[str, Answerer] = {}  # By split.
        self._answered: dict[str, Answered] = {}  # Of `score`, by split.

    def build_model(self, config, dtype=None):
        """Returns a BertSpanPredictor."""
        return models.BertSpanPredictor(config, dtype=dtype)

    def targets(self, batch):
        """Returns the start and the end of the answer in each real window.

        Their loss is the mean of both cross entropies.
        """
        # run_squad.py: model_fn_builder; the softmax includes padding.
        return {
            edge: Target(
                f"{edge}_logits",
                batch[f"{edge}_positions"],
                batch["is_real_example"],
                share=0.5,
                loss_name="span_loss",
            )
            for edge in ("start", "end")
        }

    def prepare(self, config, source):
        """Finds the files; resolves options of None by model or default."""
        model_dir, model_metadata = evaluated_model(config, source)
        self.use_tuned(model_metadata)
        changes = {
            name: model_metadata.get(name, default)
            for name, default in _DEFAULTS.items()
            if getattr(self.data, name) is None
        }
        self.data = dataclasses.replace(self.data, **changes)
        # Only now, since the model's metadata may set the version.
        self.files = self.data.find_files()
        if model_dir:
            self.files.pop("train", None)
        return self

    def use_tuned(self, metadata):
        """Takes the null score difference threshold of a model."""
        self.model_threshold = metadata.get(_THRESHOLD, 0.0)

    def make_records(self, tokenizer, output_dir, max_seq_length):
        """Writes missing records; returns the folder of each split."""
        settings = squad_examples.Settings(
            max_seq_length=max_seq_length,
            doc_stride=self.data.doc_stride,
            max_query_length=self.data.max_query_length,
            version_2_with_negative=self.data.version_2_with_negative,
            answer_alignment=self.data.answer_alignment,
            skip_misplaced_answers=self.data.skip_misplaced_answers,
        )
        self._answer = {
            split: Answerer(
                path,
                tokenizer,
                settings,
                n_best_size=self.data.n_best_size,
                max_answer_length=self.data.max_answer_length,
            )
            for split, path in self.files.items()
        }
        return squad_examples.make_records(
            self.files, output_dir, tokenizer, settings
        )

    def decisive_settings(self):
        """Returns the rules of scores, which choose the best model."""
        rules = self.data.score
        return {} if rules == "squad" else {"score": rules}

    def open_splits(self, splits):
        """Reads the questions, and the annotators' answers to them.

        Now, and not after training, since files may change in the meantime.
        """
        has_labels = any if self.data.version_2_with_negative else all
        for split in [x for x in splits if x != "train"]:
            questions = self._answer[split].read()
            if split == "dev" or has_labels(x.answers for x in questions):
                _, self.annotated[split] = squad_scores.read_answers(
                    self.files[split], self._version()
                )
        return [split for split in self.annotated if split == "test"]

    def score(self, split, outputs):
        """Returns the official scores; see the function `score`."""
        self._answered[split] = answered = self._answer[split](outputs)
        threshold = self.data.null_score_diff_threshold
        if split != "dev":
            threshold = self._threshold()
        scores = score(
            *(self.annotated[split], answered, threshold),
            self.data.version_2_with_negative,
            self.data.score,
        )
        if split == "dev":
            self.tuned_threshold = scores.get(_THRESHOLD)
        return scores

    def _version(self) -> str:
        return "2.0" if self.data.version_2_with_negative else "1.1"

    def _threshold(self) -> float:
        """Returns the threshold of null odds that decides answers."""
        given = self.data.null_score_diff_threshold
        thresholds = (self.tuned_threshold, given, self.model_threshold)
        return next(t for t in thresholds if t is not None)

    def resampled(self, split, outputs):
        """Returns the F1 of any questions, in percent, after `score`."""
        found = decide(self._answered[split], self._threshold())
        score_one = functools.partial(
            squad_scores.score, self._version(), rules=self.data.score
        )
        scores = [
            score_one({name: texts}, {name: found[name]})["f1"]
            for name, texts in self.annotated[split].items()
        ]
        f1 = np.array(scores)
        return Resampled("questions", len(f1), lambda i: float(f1[i].mean()))

    def majority_baseline(self):
        """Returns the scores of a constant answer."""
        settings = self.data.version_2_with_negative, self.data.score
        return {
            split: majority_baseline(answers, *settings)
            for split, answers in self.annotated.items()
        }

    def write_predictions(self, predict, output_dir):
        """Writes the answers to the questions of test, otherwise of dev."""
        split = "test" if "test" in self.files else "dev"
        answered = self._answer[split](predict(split))
        write(answered, self._threshold(), output_dir)

    def metadata(self, scores=None):
        """Returns task, settings of windows and answers, a tuned threshold."""
        metadata = {"task": "spans"} | {
            name: getattr(self.data, name) for name in _DEFAULTS
        }
        # Saved by training; in prediction it does not change the model.
        if self.data.null_score_diff_threshold is not None:
            metadata[_THRESHOLD] = self.data.null_score_diff_threshold
        if scores and _THRESHOLD in scores["dev"]:  # Not in version 1.1.
            metadata[_THRESHOLD] = scores["dev"][_THRESHOLD]
        return metadata


class Answered(NamedTuple):
    """Answers to the questions of a file, by question id, in file order.

    Attributes:
      best: text of the best non-null answer.
      nbest: entries of nbest_predictions.json, the most likely first.
      null_odds: null score minus score of `best`; version 2.0 only.
    """

    best: dict[str, str]
    nbest: dict[str, list[dict]]
    null_odds: dict[str, float]


class Answerer:
    """Maps the outputs for a file's windows to the answers to its questions.

    The graph is traced for the first number of windows, then for any.

    Args:
      path: SQuAD JSON.
      tokenizer: the tokenizer of the records.
      settings: the settings of windows of the records.
      **sizes: `n_best_size` and `max_answer_length` of `squad_answers.choose`.

    Call arguments:
      outputs: `start_logits` and `end_logits` of all windows of the file,
        [W, S], or shorter if all windows are.
    """

    def __init__(
        self, path: str, tokenizer, settings: squad_examples.Settings, **sizes
    ):
        self.path = path
        self.settings = settings
        self.make_chunks = squad_examples.chunk_maker(tokenizer, settings)
        self.questions: list[squad_files.Question] | None = None
        choose = functools.partial(
            squad_answers.choose,
            version_2_with_negative=settings.version_2_with_negative,
            **sizes,
        )
        # Chunks differ in their number of windows.
        self.choose = tf.function(
            choose, autograph=False, reduce_retracing=True
        )

    def read(self) -> list[squad_files.Question]:
        """Returns the questions, which are read once."""
        if self.questions is None:
            self.questions = squad_files.read_questions(
                self.path,
                version_2_with_negative=self.settings.version_2_with_negative,
                is_training=False,
            )
        return self.questions

    def __call__(self, outputs: Mapping[str, np.ndarray]) -> Answered:
        """Returns the answers; see the class."""
        is_version_2 = self.settings.version_2_with_negative
        logits = [
            _padded(outputs[name], self.settings.max_seq_length)
            for name in ("start_logits", "end_logits")
        ]
        answered, begin = Answered({}, {}, {}), 0
        for chunk in self.make_chunks(self.read()):
            end = begin + len(chunk.windows.question)
            answers = self.choose(
                tf.nest.map_structure(tf.constant, chunk.windows),
                *(tf.constant(array[begin:end]) for array in logits),
                tf.constant([q.passage for q in chunk.questions]),
            )
            begin = end
            _add(answered, chunk.questions, answers, is_version_2)
        return answered


def _padded(logits: np.ndarray, length: int) -> np.ndarray:
    """Returns logits padded to [W, S] with -inf."""
    missing = length - logits.shape[1]
    return np.pad(logits, [(0, 0), (0, missing)], constant_values=-np.inf)


def _add(
    answered: Answered,
    questions: Sequence[squad_files.Question],
    answers: squad_answers.Answers,
    is_version_2: bool,
) -> None:
    """Adds the answers to a chunk of questions."""
    texts, best = answers.texts.numpy(), answers.best.numpy()
    counts, null_odds = answers.count.numpy(), answers.null_odds.numpy()
    columns = {
        "probability": answers.probabilities.numpy().tolist(),
        "start_logit": answers.spans.start_logit.numpy().tolist(),
        "end_logit": answers.spans.end_logit.numpy().tolist(),
    }
    for row, question in enumerate(questions):
        answered.best[question.id] = best[row].decode()
        answered.nbest[question.id] = [
            {"text": texts[row, rank].decode()}
            | {name: column[row][rank] for name, column in columns.items()}
            for rank in range(counts[row])
        ]
        if is_version_2:
            answered.null_odds[question.id] = float(null_odds[row])


def decide(answered: Answered, threshold: float) -> dict[str, str]:
    """Returns answers by question id; "" if null odds exceed the threshold."""
    return {
        name: "" if answered.null_odds.get(name, -np.inf) > threshold else text
        for name, text in answered.best.items()
    }


def score(
    answers: squad_scores.Answers,
    answered: Answered,
    threshold: float | None,
    is_version_2: bool,
    rules: str = "squad",
) -> dict[str, float]:
    """Returns the official scores, in percent, of the answers to be written.

    In version 2.0, also `null_score_diff_threshold`: `threshold`, or the one
    with the best F1 if it is None. `rules` are those of `squad_scores.score`.
    """
    if not is_version_2:
        return squad_scores.score("1.1", answers, answered.best, rules=rules)
    if threshold is None:
        threshold = tune_threshold(answers, answered, rules)
    found = decide(answered, threshold)
    scores = squad_scores.score("2.0", answers, found, rules=rules)
    return scores | {_THRESHOLD: threshold}


def tune_threshold(
    answers: squad_scores.Answers, answered: Answered, rules: str = "squad"
) -> float:
    """Returns the threshold of null odds that gives the best F1.

    It is midway between the odds of two questions, so that rounding errors,
    which differ between batches and devices, do not change answers.
    """
    score_all = functools.partial(
        squad_scores.score, "2.0", answers, rules=rules
    )
    best = score_all(answered.best, answered.null_odds)
    odds = np.unique(list(answered.null_odds.values()))  # Sorted.
    # With threshold bounds[i], the questions with odds[:i] are answered.
    middles = (odds[:-1] + odds[1:]) / 2
    bounds = [odds[0] - 1.0, *middles, odds[-1] + 1.0]
    index = np.searchsorted(odds, best["best_f1_thresh"], side="right")
    # If answering none is best, the official script returns 0.
    return max(
        (float(bounds[index]), float(bounds[0])),
        key=lambda bound: score_all(decide(answered, bound))["f1"],
    )


def majority_baseline(
    answers: squad_scores.Answers, is_version_2: bool, rules: str = "squad"
) -> dict[str, float]:
    """Returns the scores of one constant answer.

    In version 2.0 that is no answer, in 1.1 the most frequent answer.
    """
    version = "2.0" if is_version_2 else "1.1"
    text = ""
    if not is_version_2:
        counts = collections.Counter(
            text for texts in answers.values() for text in set(texts)
        )
        ((text, _),) = counts.most_common(1)
    constant = dict.fromkeys(answers, text)
    return squad_scores.score(version, answers, constant, rules=rules)


def write(answered: Answered, threshold: float, folder: str) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    Each file is written atomically; null odds only for version 2.0.
    """
    os.makedirs(folder, exist_ok=True)
    contents = {
        "predictions.json": decide(answered, threshold),
        "nbest_predictions.json": answered.nbest,
    }
    if answered.null_odds:
        contents["null_odds.json"] = answered.null_odds
    for name, content in contents.items():
        path = os.path.join(folder, name)
        with atomic_files.atomic_file(path) as file:
            json.dump(content, file, indent=4)
            file.write("\n")
        logging.info("%s  questions %d", path, len(content))
