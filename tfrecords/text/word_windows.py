"""Words -> encoder inputs of windows, and the position of each word.

A tagger reads the pieces of many words and predicts a tag at the first piece of
each word (paper, section 5.3). Longer rows are split into overlapping windows;
the tag of a word is predicted by the window in which the word is farthest from
both ends, as in run_squad.py: _check_is_max_context. So every word has exactly
one position, and no text is truncated:

  words         w0    w1 w2 w3    w4        windows of 4 pieces, stride 2
  pieces        a ##b c  d  e ##f g
  window 0      a ##b c  d                  predicts w0, w1
  window 1            c  d  e ##f           predicts w2
  window 2               d  e ##f g         predicts w3, w4

N rows of words, T words in all rows, M windows, S max_seq_length.

Records and serving both use `make`, so they cannot differ.
"""

from typing import NamedTuple

import tensorflow as tf

from tfrecords.text import segments
from tfrecords.text import tokenizer as tokenizer_lib

# [CLS] and [SEP].
_SPECIAL_TOKENS = 2


class Windows(NamedTuple):
    """Inputs of a tagger, and the position of each word in its outputs.

    Attributes:
      inputs: `schema.ENCODER_INPUTS`, each [M, S] int32, in the order of rows
        and of words within a row.
      rows: [M] int64, the row of each window.
      positions: [T, 2] int64: window and position of each word's first piece,
        for `tf.gather_nd(outputs [M, S, ...], positions)`.
      num_pieces: [T] int64, pieces of each word before truncation; a word
        without pieces, such as a lone U+200B, is read as one [UNK] and has 0.
    """

    inputs: dict[str, tf.Tensor]
    rows: tf.Tensor
    positions: tf.Tensor
    num_pieces: tf.Tensor


def check_stride(max_seq_length: int, doc_stride: int) -> None:
    """Raises ValueError if windows with this stride would skip pieces."""
    most = max_seq_length - _SPECIAL_TOKENS
    if not 1 <= doc_stride <= most:
        raise ValueError(
            f"doc_stride={doc_stride} should be from 1 to {most}, the number "
            f"of pieces in a window of max_seq_length={max_seq_length} besides "
            "[CLS] and [SEP]; half of that is usual."
        )


def default_stride(max_seq_length: int) -> int:
    """Returns half a window, for context of a quarter window on both sides."""
    return max(1, (max_seq_length - _SPECIAL_TOKENS) // 2)


def _find(ends: tf.Tensor, row_splits: tf.Tensor, most: int, stride: int):
    """Returns row, first word and end of each window, [M, 3] int64.

    `ends` [T + 1] counts the pieces before each word of all rows, `row_splits`
    [N + 1] the words before each row. A window has at most `most` pieces, and
    so has a word.
    """
    row_ends = row_splits[1:]
    last_piece = tf.gather(ends, row_ends)  # [N]

    def step(rows, starts, spans):
        begin = tf.gather(ends, starts)
        row_end = tf.gather(row_ends, rows)
        limit = tf.searchsorted(ends, begin + most, "right", tf.int64) - 1
        limit = tf.minimum(limit, row_end)
        # The last window starts early enough to be full.
        wanted = tf.minimum(begin + stride, tf.gather(last_piece, rows) - most)
        after = tf.searchsorted(ends, wanted, "left", tf.int64)
        after = tf.minimum(after, limit)
        spans = tf.concat([spans, tf.stack([rows, starts, limit], 1)], 0)
        is_open = limit < row_end
        return (
            tf.boolean_mask(rows, is_open),
            tf.boolean_mask(after, is_open),
            spans,
        )

    has_words = row_ends > row_splits[:-1]
    rows = tf.boolean_mask(tf.range(tf.size(row_ends, tf.int64)), has_words)
    _, _, spans = tf.while_loop(
        lambda rows, *_: tf.size(rows) > 0,
        step,
        (rows, tf.gather(row_splits, rows), tf.zeros([0, 3], tf.int64)),
        shape_invariants=(
            tf.TensorShape([None]),
            tf.TensorShape([None]),
            tf.TensorShape([None, 3]),
        ),
    )
    # Sorts the windows by row.
    return tf.gather(spans, tf.argsort(spans[:, 0], stable=True))


def _predicting_windows(spans: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the window that predicts the tag of each word, [T] int64.

    It changes in the middle of the pieces that two adjacent windows share.
    """
    rows, starts, limits = tf.unstack(spans, axis=1)  # [M] each
    middles = (tf.gather(ends, limits[:-1]) + tf.gather(ends, starts[1:])) // 2
    parts = tf.searchsorted(ends, middles, "left", tf.int64)
    parts = tf.where(rows[:-1] == rows[1:], parts, limits[:-1])  # [M - 1]
    bounds = tf.concat([starts[:1], parts, limits[-1:]], 0)  # [M + 1]
    return tf.repeat(
        tf.range(tf.size(rows, tf.int64)), bounds[1:] - bounds[:-1]
    )


def make(
    words: tf.RaggedTensor,
    tokenizer: tokenizer_lib.BertTokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> Windows:
    """Returns the windows of rows of words, with TensorFlow ops, for any N.

    A row is a unit of context: a document, or a single sentence.

    Args:
      words: [N, (words)] string.
      tokenizer: splits words into pieces.
      max_seq_length: S. A word of more than S - 2 pieces, such as a long URL,
        keeps the first S - 2.
      doc_stride: pieces from one window of a row to the next, rounded up to
        the next word; None for half a window.

    Raises:
      ValueError: if windows with this stride would skip pieces.
    """
    if doc_stride is None:
        doc_stride = default_stride(max_seq_length)
    check_stride(max_seq_length, doc_stride)
    most = max_seq_length - _SPECIAL_TOKENS
    words = words.with_row_splits_dtype(tf.int64)
    pieces = tokenizer(words.flat_values).with_row_splits_dtype(tf.int64)
    num_pieces = pieces.row_lengths()  # [T]
    is_empty = tf.cast(num_pieces == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(is_empty)], tokenizer.unk_id), is_empty
    )
    pieces = tf.concat([pieces, unknown], axis=1)[:, :most]
    ends = pieces.row_splits  # [T + 1]
    spans = _find(ends, words.row_splits, most, doc_stride)
    starts, limits = (tf.gather(ends, spans[:, i]) for i in (1, 2))
    tokens = tf.ragged.range(starts, limits)  # [M, (pieces)], indices.
    tokens = tokens.with_values(tf.gather(pieces.values, tokens.values))
    windows = _predicting_windows(spans, ends)
    positions = 1 + ends[:-1] - tf.gather(starts, windows)  # After [CLS].
    return Windows(
        segments.pack(
            tokens, None, max_seq_length, tokenizer.cls_id, tokenizer.sep_id
        ),
        spans[:, 0],
        tf.stack([windows, positions], axis=1),
        num_pieces,
    )
