"""Questions and passages -> windows of tokens, and positions of the tokens.

run_squad.py: convert_examples_to_features, as graph ops for any number of
questions. Records, predictions and SavedModels all use these windows, so they
cannot differ.

N questions, each with its passage; W windows of all questions; S
max_seq_length; t and p tokens of a question and of a passage.
"""

from typing import NamedTuple

import tensorflow as tf

from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import word_pieces

# [CLS], [SEP] after the question, [SEP] after the part of the passage.
SPECIAL_TOKENS = 3
# run_squad.py: _check_is_max_context adds this for each token of a window.
_BONUS_OF_LENGTH = 0.01


class Windows(NamedTuple):
    """Windows of all questions, in their order; integers are int32."""

    inputs: dict[str, tf.Tensor]  # `schema.ENCODER_INPUTS`, each [W, S].
    question: tf.Tensor  # [W] index of the window's question.
    first: tf.Tensor  # [W] index in the passage of the first token used.
    offset: tf.Tensor  # [W] position of that token in the window.
    starts: tf.Tensor  # [W, S] offset of a token's first character, or 0.
    ends: tf.Tensor  # [W, S] end of the token in the passage, exclusive.
    in_passage: tf.Tensor  # [W, S] bool, whether it is a token of the passage.
    # [W, S] bool, in_passage and this window has the token's maximum context.
    has_max_context: tf.Tensor


class _Layout(NamedTuple):
    """Layout of each question's windows; all [N] int32."""

    query: tf.Tensor  # Tokens of the question after truncation.
    passage: tf.Tensor  # Tokens of the passage.
    room: tf.Tensor  # Maximum number of tokens of the passage in a window.
    step: tf.Tensor  # Tokens from the start of a window to the next start.
    count: tf.Tensor  # Number of windows, at least 1.


def tokenize(
    tokenizer: tokenizer_lib.BertTokenizer,
    questions: tf.Tensor,
    passages: tf.Tensor,
) -> tuple[tf.RaggedTensor, word_pieces.Pieces]:
    """Returns questions [N, (t)] int32, and passages as pieces [N, (p)].

    Args:
      tokenizer: strings to ids.
      questions: [N] string.
      passages: [N] string; equal ones are tokenized once.
    """
    different, index = tf.unique(passages)
    # One call for both: tracing the tokenizer twice takes a second more.
    count = tf.size(questions)
    pieces = word_pieces.Pieces(
        *tokenizer.tokenize_with_offsets(tf.concat([questions, different], 0))
    )
    return pieces.ids[:count], word_pieces.each(
        lambda rows: tf.gather(rows[count:], index), pieces
    )


def make_windows(
    questions: tf.RaggedTensor,
    passages: word_pieces.Pieces,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    cls_id: int,
    sep_id: int,
) -> Windows:
    """Returns windows over the passages, each after its question.

      question   21 22          max_seq_length 8, doc_stride 2
      passage    31 32 33 34 35
      windows    CLS 21 22 SEP 31 32 33 SEP      first 0, offset 4
                 CLS 21 22 SEP 33 34 35 SEP      first 2

    Args:
      questions: [N, (t)] int32; truncated to `max_query_length`.
      passages: pieces [N, (p)] of each question's passage.
      max_seq_length: S.
      doc_stride: tokens from the start of a window to the start of the next;
        limited to the passage tokens that fit into a window.
      max_query_length: maximum number of tokens of a question.
      cls_id: id of [CLS].
      sep_id: id of [SEP].

    Returns:
      The windows. A passage without tokens has one window. A question is
      truncated further if it would leave no room for a token of its passage.

    Raises:
      ValueError: if a size is too small for any window.
    """
    _check_sizes(max_seq_length, doc_stride, max_query_length)
    layout = _lay_out(
        questions, passages, max_seq_length, doc_stride, max_query_length
    )
    question = tf.repeat(tf.range(tf.size(layout.count)), layout.count)  # [W]
    number = tf.ragged.range(layout.count).flat_values  # [W]
    of_window = _Layout(*(tf.gather(rows, question) for rows in layout))
    first = number * of_window.step
    length = tf.minimum(of_window.room, of_window.passage - first)
    offset = of_window.query + SPECIAL_TOKENS - 1

    # [W, S] from here on.
    token = tf.range(max_seq_length)[tf.newaxis]
    query = of_window.query[:, tf.newaxis]
    end = (offset + length)[:, tf.newaxis]
    position = token - offset[:, tf.newaxis]
    in_passage = (position >= 0) & (token < end)
    in_query = (token >= 1) & (token <= query)
    is_sep = (token == query + 1) | (token == end)
    at = _starts(passages.ids, question) + first[:, tf.newaxis] + position
    query_at = _starts(questions, question) + token - 1

    word_ids = tf.where(is_sep, sep_id, tf.where(token == 0, cls_id, 0))
    word_ids += _take(questions, query_at, in_query)
    word_ids += _take(passages.ids, at, in_passage)
    best = passages.ids.with_values(_best_windows(layout, passages.ids))
    is_best = _take(best, at, in_passage) == number[:, tf.newaxis]
    return Windows(
        {
            "input_word_ids": word_ids,
            "input_mask": tf.cast(token <= end, tf.int32),
            "input_type_ids": tf.cast(
                (token > query + 1) & (token <= end), tf.int32
            ),
        },
        question,
        first,
        offset,
        _take(passages.starts, at, in_passage),
        _take(passages.ends, at, in_passage),
        in_passage,
        in_passage & is_best,
    )


def _check_sizes(max_seq_length, doc_stride, max_query_length) -> None:
    if doc_stride < 1 or max_query_length < 1:
        raise ValueError(
            f"doc_stride={doc_stride} and max_query_length={max_query_length} "
            "should be 1 or more."
        )
    if max_seq_length < SPECIAL_TOKENS + 2:
        raise ValueError(
            f"max_seq_length={max_seq_length} has no room for [CLS], two [SEP] "
            "and a token each of question and passage; use "
            f"{SPECIAL_TOKENS + 2} or more."
        )


def _lay_out(questions, passages, max_seq_length, doc_stride, max_query_length):
    """Returns the number of windows of each question, and their layout."""
    most = min(max_query_length, max_seq_length - SPECIAL_TOKENS - 1)
    query = tf.minimum(_lengths(questions), most)
    passage = _lengths(passages.ids)
    room = max_seq_length - SPECIAL_TOKENS - query
    step = tf.minimum(room, doc_stride)
    rest = tf.maximum(passage - room, 0)
    return _Layout(query, passage, room, step, 1 - (-rest // step))


def _best_windows(layout: _Layout, passages: tf.RaggedTensor) -> tf.Tensor:
    """Returns the window of maximum context of each passage token, [P].

    run_squad.py: _check_is_max_context. The context of a token in a window is
    the smaller of the numbers of tokens to its left and right, plus a bonus for
    the window's length; ties go to the first window. All windows but the last
    have the same length, so the best of these is one of the two whose middle is
    nearest to the token.
    """
    row = tf.cast(passages.value_rowids(), tf.int32)  # [P]
    position = tf.ragged.range(layout.passage).flat_values
    _, length, room, step, count = (tf.gather(rows, row) for rows in layout)

    lowest = tf.maximum(-((room - 1 - position) // step), 0)
    highest = tf.minimum(position // step, count - 2)
    below = (2 * position - room + 1) // (2 * step)
    below = tf.maximum(tf.minimum(below, highest), lowest)
    above = tf.minimum(below + 1, highest)

    def around(window):
        left = position - window * step
        return tf.minimum(left, room - 1 - left)

    best = tf.where(around(above) > around(below), above, below)
    last = count - 1
    left = position - last * step
    # Float64, as in run_squad.py: the bonus for length may decide.
    score = _score(around(best), room)
    last_score = _score(
        tf.minimum(left, length - 1 - position), length - last * step
    )
    is_last = (left >= 0) & ((highest < lowest) | (last_score > score))
    return tf.where(is_last, last, best)


def _score(around: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    bonus = tf.constant(_BONUS_OF_LENGTH, tf.float64)
    return tf.cast(around, tf.float64) + bonus * tf.cast(length, tf.float64)


def _lengths(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(ragged.row_lengths(), tf.int32)


def _starts(ragged: tf.RaggedTensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns [W, 1], the start of each of `rows` [W] in the flat values."""
    starts = tf.cast(ragged.row_starts(), tf.int32)
    return tf.gather(starts, rows)[:, tf.newaxis]


def _take(
    ragged: tf.RaggedTensor, positions: tf.Tensor, is_valid: tf.Tensor
) -> tf.Tensor:
    """Returns flat values at `positions` [W, S]; 0 where not `is_valid`."""
    # An extra value, so that gather works even without tokens.
    values = tf.concat([ragged.flat_values, [0]], axis=0)
    values = tf.gather(values, tf.where(is_valid, positions, 0))
    return tf.where(is_valid, values, 0)
