"""Start and end logits of windows -> the best answers to each question.

run_squad.py: write_predictions, as ops that run in the graph for any number of
questions: a runner's files and a SavedModel's answers come from here, so they
cannot differ. What differs from the original:

- An answer is cut from the passage at its tokens' positions, so it has the
  passage's own case, accents and spaces. The original aligns the tokens' text
  with the passage's words, and gives whole words where that fails.
- Padding takes no place among the best starts and ends, so that how far windows
  are padded makes no difference.
- Where no answer is possible it is "", not "empty".

Letters: N questions, W windows of all of them, S tokens of a window, k best
starts and best ends of a window, C candidates of all questions, K answers of a
question.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Span(NamedTuple):
    """Positions in passages, and what they score; each [C], or [N, K].

    Attributes:
      start: int32, first character.
      end: int32, behind the last character.
      start_logit: float32.
      end_logit: float32.
    """

    start: tf.Tensor
    end: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor


class Pairs(NamedTuple):
    """The k best starts and ends of each window, and what two of them score.

    Attributes:
      spans: [W, k] each; an end belongs to no start yet.
      score: [W, k k] float64, start by start; -inf for no possible answer.
    """

    spans: Span
    score: tf.Tensor


class Candidates(NamedTuple):
    """Answers that differ, by question and score, the best first; [C] each."""

    question: tf.Tensor
    texts: tf.Tensor
    spans: Span


class Answers(NamedTuple):
    """The best answers to N questions, best first.

    Attributes:
      texts: [N, K] string, "" for none, and behind the last.
      spans: where they stand, [N, K]; zeros for none, and behind the last.
      probabilities: [N, K] float64, over a question's answers; 0 behind them.
      count: [N] int32, how many there are.
      best: [N] string, the best that is not ""; "" if all are.
      null_odds: [N] float64, how much more no answer scores than `best`; 0 in
        version 1.1.
    """

    texts: tf.Tensor
    spans: Span
    probabilities: tf.Tensor
    count: tf.Tensor
    best: tf.Tensor
    null_odds: tf.Tensor


def choose(
    windows,
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    passages: tf.Tensor,
    *,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    version_2_with_negative: bool = False,
) -> Answers:
    """Returns the best answers by the sum of a start's and an end's logit.

    In each window the `n_best_size` best starts and ends are taken, pairs of
    them that can be an answer are sorted, and of equal texts the best one
    stays. In version 2.0 [CLS] stands for no answer, with the lowest score of
    all windows: each that sees no answer lets the others overrule it.

    Args:
      windows: `tfrecords.question_windows.Windows` of N questions.
      start_logits: [W, S] float, finite where a token is.
      end_logits: [W, S] float.
      passages: [N] string, as the windows were made of.
      n_best_size: most answers of a question; K, or K - 1 in version 2.0,
        where no answer is added if it is not among them.
      max_answer_length: most tokens of an answer.
      version_2_with_negative: whether a question may have no answer.
    """
    passages = tf.strings.unicode_transcode(passages, "UTF-8", "UTF-8")
    num_questions = tf.size(passages)
    pairs = find_pairs(
        windows, start_logits, end_logits, n_best_size, max_answer_length
    )
    null = None
    if version_2_with_negative:
        null = find_null(windows, start_logits, end_logits, num_questions)
    # Of twice as many as are wanted, nearly always enough differ.
    most = min(2 * n_best_size, n_best_size**2)
    candidates = find_answers(windows.question, pairs, null, passages, most)
    num_pairs = tf.math.unsorted_segment_sum(
        tf.math.count_nonzero(pairs.score > -np.inf, axis=1, dtype=tf.int32),
        windows.question,
        num_questions,
    )  # [N]
    is_enough = (
        tf.math.bincount(candidates.question, minlength=num_questions)
        >= n_best_size
    ) | (num_pairs + (null is not None) <= most)
    candidates = tf.cond(
        tf.reduce_all(is_enough),
        lambda: candidates,
        lambda: find_answers(windows.question, pairs, null, passages, None),
    )
    return _answers(candidates, null, num_questions, n_best_size)


def decide(answers: Answers, null_score_diff_threshold: float) -> tf.Tensor:
    """Returns [N] string, "" where `null_odds` is above the threshold."""
    # No cast, which would make it float32 on its way.
    threshold = tf.constant(null_score_diff_threshold, tf.float64)
    return tf.where(answers.null_odds > threshold, "", answers.best)


def _answers(
    candidates: Candidates, null: Span | None, num_questions, n_best_size
) -> Answers:
    """Returns the first answers of each question, and no answer if need be."""
    rows = group(
        tf.range(tf.size(candidates.texts)), candidates.question, num_questions
    )
    rows = rows[:, :n_best_size]  # [N, (answers)], numbers of candidates
    if null is None:
        is_complete = rows.row_lengths() > 0
        zeros = tf.zeros([num_questions], tf.int32)
        no_answer = Span(zeros, zeros, *[tf.cast(zeros, tf.float32)] * 2)
    else:
        is_null = tf.gather(candidates.texts, rows.flat_values) == ""
        num_null = tf.math.unsorted_segment_sum(
            tf.cast(is_null, tf.int32), rows.value_rowids(), num_questions
        )
        is_complete, no_answer = num_null > 0, null
    # That of question 0 has number C, and so on; the last is for padding.
    added = tf.range(num_questions)[:, tf.newaxis] + tf.size(candidates.texts)
    added = tf.RaggedTensor.from_tensor(
        added, tf.cast(tf.logical_not(is_complete), tf.int64)
    )
    rows = tf.concat([rows, added], axis=1)
    last = tf.size(candidates.texts) + num_questions
    columns = n_best_size + (null is not None)
    numbers = rows.to_tensor(last, shape=[None, columns])  # [N, K]
    nothing = tf.fill([num_questions + 1], "")
    texts = tf.gather(tf.concat([candidates.texts, nothing], axis=0), numbers)
    spans = each(
        lambda *parts: tf.gather(tf.concat([*parts, [0]], axis=0), numbers),
        candidates.spans,
        no_answer,
    )
    # The first that is not ""; the first of all, if all are.
    best = tf.argmax(
        tf.cast(texts != "", tf.int32), axis=1, output_type=tf.int32
    )
    null_odds = tf.zeros([num_questions], tf.float64)
    if null is not None:
        # In the original's order: rounding is the same.
        start, end = (
            tf.cast(tf.gather(logits, best, batch_dims=1), tf.float64)
            for logits in (spans.start_logit, spans.end_logit)
        )
        null_odds = sum_logits(null) - start - end
    return Answers(
        texts,
        spans,
        tf.nn.softmax(tf.where(numbers < last, sum_logits(spans), -np.inf)),
        tf.cast(rows.row_lengths(), tf.int32),
        tf.gather(texts, best, batch_dims=1),
        null_odds,
    )


def find_pairs(
    windows, start_logits, end_logits, n_best_size, max_answer_length
) -> Pairs:
    """Returns the best starts and the best ends of each window, and pairs.

    A pair can be an answer if both are in the passage, the end is not before
    the start nor too far behind, and no other window shows more around the
    start.

    Args:
      windows: `tfrecords.question_windows.Windows`.
      start_logits: [W, S] float.
      end_logits: [W, S] float.
      n_best_size: k.
      max_answer_length: most tokens of an answer.
    """
    is_token = windows.inputs["input_mask"] > 0
    length = tf.shape(is_token)[1]
    (starts, start_at), (ends, end_at) = (
        tf.math.top_k(
            # As many more, for windows of fewer tokens.
            tf.pad(
                tf.where(is_token, tf.cast(logits, tf.float32), -np.inf),
                [[0, 0], [0, n_best_size]],
                constant_values=-np.inf,
            ),
            n_best_size,
        )
        for logits in (start_logits, end_logits)
    )  # [W, k] each; of equals the first token comes first.
    start_at, end_at = (tf.minimum(at, length - 1) for at in (start_at, end_at))
    can_start = tf.gather(windows.has_max_context, start_at, batch_dims=1)
    can_end = tf.gather(windows.in_passage, end_at, batch_dims=1)
    tokens = 1 + end_at[:, tf.newaxis] - start_at[:, :, tf.newaxis]
    is_possible = (
        can_start[:, :, tf.newaxis]
        & can_end[:, tf.newaxis]
        & (tokens >= 1)
        & (tokens <= max_answer_length)
    )  # [W, k, k]
    score = _sum(starts[:, :, tf.newaxis], ends[:, tf.newaxis])
    score = tf.where(is_possible, score, tf.constant(-np.inf, tf.float64))
    return Pairs(
        Span(
            tf.gather(windows.starts, start_at, batch_dims=1),
            tf.gather(windows.ends, end_at, batch_dims=1),
            starts,
            ends,
        ),
        tf.reshape(score, [-1, n_best_size**2]),
    )


def find_answers(
    question_of_window: tf.Tensor,
    pairs: Pairs,
    null: Span | None,
    passages: tf.Tensor,
    most: int | None,
) -> Candidates:
    """Returns those of the best pairs of each question that differ in text.

    Args:
      question_of_window: [W] int32, in order.
      pairs: from `find_pairs`.
      null: from `find_null`, or None if every question has an answer.
      passages: [N] string, valid UTF-8.
      most: best pairs of a question to look at; None for all.

    Returns:
      The candidates. Of equal scores, those come first that the original finds
      first.
    """
    num_pairs = pairs.score.shape[1]
    score, number = tf.math.top_k(pairs.score, most or num_pairs)
    at = tf.where(score > -np.inf)  # [C, 2]
    window, number = at[:, 0], tf.gather_nd(number, at)
    k = pairs.spans.start.shape[1]
    start, end = (
        tf.stack([window, tf.cast(nth, tf.int64)], axis=1)
        for nth in (number // k, number % k)
    )
    question = tf.gather(question_of_window, window)
    spans = each(tf.gather_nd, pairs.spans, Span(start, end, start, end))
    num_questions = tf.size(passages)
    if null is not None:
        # Behind all others, which come first where they score the same.
        question = tf.concat([question, tf.range(num_questions)], axis=0)
        spans = each(lambda *parts: tf.concat(parts, axis=0), spans, null)
    order = tf.argsort(sum_logits(spans), direction="DESCENDING", stable=True)
    order = tf.gather(
        order, tf.argsort(tf.gather(question, order), stable=True)
    )
    if most is not None:
        order = group(order, tf.gather(question, order), num_questions)
        order = order[:, :most].flat_values
    question = tf.gather(question, order)
    spans = each(lambda part: tf.gather(part, order), spans)
    texts = tf.strings.substr(
        tf.gather(passages, question),
        spans.start,
        spans.end - spans.start,
        "UTF8_CHAR",
    )
    keys = [tf.strings.as_string(question), texts]
    _, index = tf.unique(tf.strings.join(keys, separator=" "))
    position = tf.range(tf.size(index))
    first = tf.math.unsorted_segment_min(position, index, tf.size(index))
    kept = tf.where(tf.gather(first, index) == position)[:, 0]
    return tf.nest.map_structure(
        lambda part: tf.gather(part, kept), Candidates(question, texts, spans)
    )


def find_null(windows, start_logits, end_logits, num_questions) -> Span:
    """Returns the lowest score of [CLS] over each question's windows, [N]."""
    question = windows.question
    nowhere = tf.zeros_like(question)
    start, end = (
        tf.cast(logits[:, 0], tf.float32)
        for logits in (start_logits, end_logits)
    )
    at_cls = Span(nowhere, nowhere, start, end)
    score = sum_logits(at_cls)  # [W]
    lowest = tf.math.unsorted_segment_min(score, question, num_questions)
    is_lowest = score == tf.gather(lowest, question)
    number = tf.where(is_lowest, tf.range(tf.size(question)), tf.int32.max)
    first = tf.math.unsorted_segment_min(number, question, num_questions)
    return each(lambda part: tf.gather(part, first), at_cls)


def sum_logits(spans: Span) -> tf.Tensor:
    """Returns the score of each span, float64; shape as its logits'."""
    return _sum(spans.start_logit, spans.end_logit)


def _sum(start_logits: tf.Tensor, end_logits: tf.Tensor) -> tf.Tensor:
    # In float64, as the original adds Python's floats: fewer are equal.
    return tf.cast(start_logits, tf.float64) + tf.cast(end_logits, tf.float64)


def each(function: Callable[..., tf.Tensor], *spans: Span) -> Span:
    """Returns `function` of all starts, of all ends, and of their logits."""
    return Span(*map(function, *spans))


def group(values, question, num_questions) -> tf.RaggedTensor:
    """Returns [N, (values)] of values sorted by question."""
    return tf.RaggedTensor.from_value_rowids(
        values,
        tf.cast(question, tf.int64),
        tf.cast(num_questions, tf.int64),
        validate=False,
    )
