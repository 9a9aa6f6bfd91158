"""Start and end logits of windows -> the best answers to each question.

run_squad.py: write_predictions, as graph ops for any number of questions.
Prediction files and SavedModels both use these ops, so their answers cannot
differ. Differences from the original:

- The text of an answer is the part of the passage from its first token to its
  last, with the passage's case, accents and spaces. The original aligns the
  tokens' text with the passage's words, and returns whole words if that fails.
- Padding is never among the best starts and ends, so the amount of padding
  makes no difference.
- If no answer is possible, the answer is "" instead of "empty".

Memory is linear in the text, even if all answers have few different texts: the
texts of at most `_WINDOWS_AT_ONCE` k k pairs exist at a time. A start belongs
to one window only, so no token is in more than k k texts, and these have at
most k k times the bytes of the passage; with short tokens, far fewer.

N questions, W windows of all questions, S tokens of a window, k best starts and
best ends of a window, C candidates of all questions, K answers to a question, T
characters of all passages.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Windows whose pairs are compared at a time if the best ones are too similar.
_WINDOWS_AT_ONCE = 32


class Span(NamedTuple):
    """Spans of characters in passages, and their logits; each [C] or [N, K].

    Attributes:
      start: int32, first character.
      end: int32, end of the last character, exclusive.
      start_logit: float32.
      end_logit: float32.
    """

    start: tf.Tensor
    end: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor


class Pairs(NamedTuple):
    """The k best starts and ends of each window, and scores of their pairs.

    Attributes:
      spans: [W, k] each; starts and ends are not paired yet.
      score: [W, k k] float64, start by start; -inf for invalid answers.
    """

    spans: Span
    score: tf.Tensor


class Passages(NamedTuple):
    """Passages whose substrings are read without copying a passage.

    Attributes:
      joined: scalar string, all passages.
      first: [N] int64, the index of each passage's first character.
      offsets: [T + 1] int64, the byte offset of each character, and the end.
    """

    joined: tf.Tensor
    first: tf.Tensor
    offsets: tf.Tensor


class Candidates(NamedTuple):
    """Distinct answers, sorted by question, then best first; [C] each."""

    question: tf.Tensor
    texts: tf.Tensor
    spans: Span


class Answers(NamedTuple):
    """The best answers to N questions, best first.

    Attributes:
      texts: [N, K] string; "" for the null answer, and after the last.
      spans: [N, K], their spans; zeros for the null answer, and after the last.
      probabilities: [N, K] float64, sum to 1 per question; 0 after the last.
      count: [N] int32, number of answers.
      best: [N] string, the best answer that is not ""; "" if all are.
      null_odds: [N] float64, null score minus score of `best`; 0 in version
        1.1.
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
    """Returns the answers with the best sums of start and end logits.

    The `n_best_size` best starts and ends of each window are paired, valid
    pairs are sorted, and the best of equal texts is kept. In version 2.0, the
    null answer is at [CLS]; its score is the lowest one of all windows, since a
    window without the answer must not overrule a window that has it.

    Args:
      windows: `question_windows.Windows` of N questions.
      start_logits: [W, S] float, finite at tokens.
      end_logits: [W, S] float.
      passages: [N] string, the passages of the windows.
      n_best_size: maximum number of answers to a question. It is K; or K - 1 in
        version 2.0, where the null answer is added if it is not among them.
      max_answer_length: maximum number of tokens of an answer.
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
    passages = join(passages)
    # Among twice as many pairs as needed, enough texts nearly always differ.
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
        lambda: find_all_answers(
            windows.question, pairs, null, passages, n_best_size
        ),
    )
    return _answers(candidates, null, num_questions, n_best_size)


def decide(answers: Answers, null_score_diff_threshold: float) -> tf.Tensor:
    """Returns [N] string, "" where `null_odds` is above the threshold."""
    # Not tf.cast, which would convert it to float32 first.
    threshold = tf.constant(null_score_diff_threshold, tf.float64)
    return tf.where(answers.null_odds > threshold, "", answers.best)


def _answers(
    candidates: Candidates, null: Span | None, num_questions, n_best_size
) -> Answers:
    """Returns the first answers to each question; adds missing null answers."""
    rows = group(
        tf.range(tf.size(candidates.texts)), candidates.question, num_questions
    )
    rows = rows[:, :n_best_size]  # [N, (answers)], indices of candidates.
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
    # The null answer of question n has index C + n; index C + N is padding.
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
    # The first answer that is not "", or else the first one.
    best = tf.argmax(
        tf.cast(texts != "", tf.int32), axis=1, output_type=tf.int32
    )
    null_odds = tf.zeros([num_questions], tf.float64)
    if null is not None:
        # Summed in the original's order, for the same rounding.
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
    """Returns the best starts and ends of each window, and their pairs.

    A pair is valid if both are in the passage, the end is not before the start,
    the answer is not too long, and the start has its maximum context in this
    window.

    Args:
      windows: `question_windows.Windows`.
      start_logits: [W, S] float.
      end_logits: [W, S] float.
      n_best_size: k.
      max_answer_length: maximum number of tokens of an answer.
    """
    is_token = windows.inputs["input_mask"] > 0
    length = tf.shape(is_token)[1]
    (starts, start_at), (ends, end_at) = (
        tf.math.top_k(
            # Padded for windows with fewer than `n_best_size` tokens.
            tf.pad(
                tf.where(is_token, tf.cast(logits, tf.float32), -np.inf),
                [[0, 0], [0, n_best_size]],
                constant_values=-np.inf,
            ),
            n_best_size,
        )
        for logits in (start_logits, end_logits)
    )  # [W, k] each; equal logits in the order of tokens.
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


def join(passages: tf.Tensor) -> Passages:
    """Returns the passages, [N] string of valid UTF-8, to take answers from."""
    joined = tf.strings.reduce_join(passages)
    lengths = tf.strings.length(passages, "UTF8_CHAR")
    _, offsets = tf.strings.unicode_decode_with_offsets(joined, "UTF-8")
    end = tf.strings.length(joined)[tf.newaxis]
    return Passages(
        joined,
        tf.cumsum(tf.cast(lengths, tf.int64), exclusive=True),
        tf.concat([offsets, tf.cast(end, tf.int64)], axis=0),
    )


def take_texts(
    passages: Passages, question: tf.Tensor, spans: Span
) -> tf.Tensor:
    """Returns the texts of spans, [C] string; `question` is [C] int32."""
    first = tf.gather(passages.first, question)
    start, end = (
        tf.gather(passages.offsets, first + tf.cast(position, tf.int64))
        for position in (spans.start, spans.end)
    )
    # A scalar is not repeated for each span, as a vector of passages would be.
    return tf.strings.substr(passages.joined, start, end - start)


def find_answers(
    question_of_window: tf.Tensor,
    pairs: Pairs,
    null: Span | None,
    passages: Passages,
    most: int | None,
) -> Candidates:
    """Returns the best pairs of each question, without repeated texts.

    Args:
      question_of_window: [W] int32, ascending.
      pairs: from `find_pairs`.
      null: from `find_null`, or None if every question has an answer.
      passages: from `join`.
      most: number of best pairs per question to consider; None for all.

    Returns:
      The candidates. Equal scores are in the order of the original.
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
    return find_distinct(question, spans, null, passages, most)


def find_all_answers(
    question_of_window: tf.Tensor,
    pairs: Pairs,
    null: Span | None,
    passages: Passages,
    n_best_size: int,
) -> Candidates:
    """Returns `find_answers` for all pairs, of some windows at a time.

    Of each part, only the `n_best_size` best answers to each question are kept;
    those of all windows are among them.
    """
    num_windows = tf.shape(pairs.score)[0]
    num_questions = tf.size(passages.first)

    def add_part(first, arrays):
        part = slice(first, first + _WINDOWS_AT_ONCE)
        found = find_answers(
            question_of_window[part],
            tf.nest.map_structure(lambda rows: rows[part], pairs),
            None,
            passages,
            None,
        )
        best = group(
            tf.range(tf.size(found.question)), found.question, num_questions
        )[:, :n_best_size].flat_values
        arrays = [
            array.write(array.size(), tf.gather(rows, best))
            for array, rows in zip(
                arrays, [found.question, *found.spans], strict=True
            )
        ]
        return first + _WINDOWS_AT_ONCE, arrays

    arrays = [
        tf.TensorArray(dtype, 0, dynamic_size=True, infer_shape=False)
        for dtype in [tf.int32] * 3 + [tf.float32] * 2
    ]
    _, arrays = tf.while_loop(
        lambda first, _: first < num_windows,
        add_part,
        (0, arrays),
        parallel_iterations=1,
    )
    question, *spans = (array.concat() for array in arrays)
    return find_distinct(question, Span(*spans), null, passages, None)


def find_distinct(
    question: tf.Tensor,
    spans: Span,
    null: Span | None,
    passages: Passages,
    most: int | None,
) -> Candidates:
    """Returns the best spans of each question, without repeated texts.

    Args:
      question: [C] int32, the question of each span.
      spans: [C].
      null: [N], or None if every question has an answer.
      passages: from `join`.
      most: number of best spans per question to consider; None for all.
    """
    num_questions = tf.size(passages.first)
    if null is not None:
        # Last, so that others with the same score come first.
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
    texts = take_texts(passages, question, spans)
    # Numbers instead of texts, together with the number of the question.
    different, index = tf.unique(texts)
    key = tf.cast(question, tf.int64) * tf.size(different, tf.int64)
    _, index = tf.unique(key + tf.cast(index, tf.int64))
    position = tf.range(tf.size(index))
    first = tf.math.unsorted_segment_min(position, index, tf.size(index))
    kept = tf.where(tf.gather(first, index) == position)[:, 0]
    return tf.nest.map_structure(
        lambda part: tf.gather(part, kept), Candidates(question, texts, spans)
    )


def find_null(windows, start_logits, end_logits, num_questions) -> Span:
    """Returns the lowest score of [CLS] over each question's windows, [N]."""
    question = windows.question
    zeros = tf.zeros_like(question)
    start, end = (
        tf.cast(logits[:, 0], tf.float32)
        for logits in (start_logits, end_logits)
    )
    at_cls = Span(zeros, zeros, start, end)
    score = sum_logits(at_cls)  # [W]
    lowest = tf.math.unsorted_segment_min(score, question, num_questions)
    is_lowest = score == tf.gather(lowest, question)
    number = tf.where(is_lowest, tf.range(tf.size(question)), tf.int32.max)
    first = tf.math.unsorted_segment_min(number, question, num_questions)
    return each(lambda part: tf.gather(part, first), at_cls)


def sum_logits(spans: Span) -> tf.Tensor:
    """Returns the score of each span, float64, in the shape of its logits."""
    return _sum(spans.start_logit, spans.end_logit)


def _sum(start_logits: tf.Tensor, end_logits: tf.Tensor) -> tf.Tensor:
    # Float64, like Python floats in the original: fewer sums are equal.
    return tf.cast(start_logits, tf.float64) + tf.cast(end_logits, tf.float64)


def each(function: Callable[..., tf.Tensor], *spans: Span) -> Span:
    """Applies `function` to the starts, the ends, and their logits."""
    return Span(*map(function, *spans))


def group(values, question, num_questions) -> tf.RaggedTensor:
    """Returns [N, (values)], given values sorted by question."""
    return tf.RaggedTensor.from_value_rowids(
        values,
        tf.cast(question, tf.int64),
        tf.cast(num_questions, tf.int64),
        validate=False,
    )
