"""Start and end logits of windows -> the best answers to each question.

run_squad.py: write_predictions, as ops that run in the graph for any number of
questions: a runner's files and a SavedModel's answers come from here, so they
cannot differ. What differs from the original:

- An answer is cut from the passage by the places of its tokens, so it has the
  passage's own case, accents and spaces. The original aligns the tokens' text
  with the passage's words, and gives whole words where that fails.
- Padding takes no place among the best starts and ends, so that how far windows
  are padded makes no difference.
- Where no answer is possible it is "", not "empty".

Letters: N questions, W windows of all of them, S tokens of a window, C
candidates of all questions, K answers of a question.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import squad_spans
from bert_tf.tasks.squad_spans import Span


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
    pairs = squad_spans.find_pairs(
        windows, start_logits, end_logits, n_best_size, max_answer_length
    )
    null = None
    if version_2_with_negative:
        null = squad_spans.find_null(
            windows, start_logits, end_logits, num_questions
        )
    # Of twice as many as are wanted, nearly always enough differ.
    most = min(2 * n_best_size, n_best_size**2)
    found = squad_spans.find_answers(
        windows.question, pairs, null, passages, most
    )
    num_pairs = tf.math.unsorted_segment_sum(
        tf.math.count_nonzero(pairs.score > -np.inf, axis=1, dtype=tf.int32),
        windows.question,
        num_questions,
    )  # [N]
    is_enough = (
        tf.math.bincount(found.question, minlength=num_questions) >= n_best_size
    ) | (num_pairs + (null is not None) <= most)
    found = tf.cond(
        tf.reduce_all(is_enough),
        lambda: found,
        lambda: squad_spans.find_answers(
            windows.question, pairs, null, passages, None
        ),
    )
    return _answers(found, null, num_questions, n_best_size)


def decide(answers: Answers, null_score_diff_threshold: float) -> tf.Tensor:
    """Returns [N] string, "" where `null_odds` is above the threshold."""
    # No cast, which would make it float32 on its way.
    threshold = tf.constant(null_score_diff_threshold, tf.float64)
    return tf.where(answers.null_odds > threshold, "", answers.best)


def _answers(
    found: squad_spans.Candidates, null: Span | None, num_questions, n_best_size
) -> Answers:
    """Returns the first answers of each question, and no answer if need be."""
    rows = squad_spans.group(
        tf.range(tf.size(found.texts)), found.question, num_questions
    )
    rows = rows[:, :n_best_size]  # [N, (answers)], numbers of candidates
    if null is None:
        is_complete = rows.row_lengths() > 0
        zeros = tf.zeros([num_questions], tf.int32)
        no_answer = Span(zeros, zeros, *[tf.cast(zeros, tf.float32)] * 2)
    else:
        is_null = tf.gather(found.texts, rows.flat_values) == ""
        num_null = tf.math.unsorted_segment_sum(
            tf.cast(is_null, tf.int32), rows.value_rowids(), num_questions
        )
        is_complete, no_answer = num_null > 0, null
    # That of question 0 has number C, and so on; the last is for padding.
    added = tf.range(num_questions)[:, tf.newaxis] + tf.size(found.texts)
    added = tf.RaggedTensor.from_tensor(
        added, tf.cast(tf.logical_not(is_complete), tf.int64)
    )
    rows = tf.concat([rows, added], axis=1)
    last = tf.size(found.texts) + num_questions
    columns = n_best_size + (null is not None)
    numbers = rows.to_tensor(last, shape=[None, columns])  # [N, K]
    nothing = tf.fill([num_questions + 1], "")
    texts = tf.gather(tf.concat([found.texts, nothing], axis=0), numbers)
    spans = squad_spans.each(
        lambda *parts: tf.gather(tf.concat([*parts, [0]], axis=0), numbers),
        found.spans,
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
        null_odds = squad_spans.sum_logits(null) - start - end
    return Answers(
        texts,
        spans,
        tf.nn.softmax(
            tf.where(numbers < last, squad_spans.sum_logits(spans), -np.inf)
        ),
        tf.cast(rows.row_lengths(), tf.int32),
        tf.gather(texts, best, batch_dims=1),
        null_odds,
    )
