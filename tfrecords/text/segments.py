"""Tokens of one or two segments -> encoder inputs of one static length.

Shapes: N rows, M windows, S max_seq_length, t tokens, which vary by row.

Records and serving both use `pack`, so they cannot differ.
"""

from collections.abc import Sequence

import tensorflow as tf

_SPECIAL_TOKENS = 2  # [CLS] and [SEP]; a second segment has its own [SEP].


def pair_lengths(
    lengths_a: tf.Tensor, lengths_b: tf.Tensor, max_tokens: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the number of tokens to keep of each segment, so that both fit.

    run_classifier.py: _truncate_seq_pair. There the longer segment, B on a tie,
    loses its last token until the sum fits. So a segment is truncated to half
    of `max_tokens`, or to more if the other leaves room; A gets the odd token.

      max_tokens      7  7  7  7
      lengths_a       3  9  2  9
      lengths_b       4  9  9  3
      kept of A       3  4  2  4
      kept of B       4  3  5  3

    Args:
      lengths_a: [N] integer.
      lengths_b: [N] integer.
      max_tokens: limit of the sum; a scalar, or [N] for each row.
    """
    half_b = max_tokens // 2
    half_a = max_tokens - half_b
    keep_a = tf.minimum(lengths_a, tf.maximum(max_tokens - lengths_b, half_a))
    keep_b = tf.minimum(lengths_b, tf.maximum(max_tokens - lengths_a, half_b))
    return keep_a, keep_b


def shorten(
    tokens: Sequence[tf.RaggedTensor],
    max_seq_length: int,
    long_text: str,
) -> tuple[list[tf.RaggedTensor], tf.Tensor]:
    """Returns the tokens that are read of rows that are too long.

    A text has the room that `pack` gives it. "head_tail" keeps its first and
    last tokens, as 128 are to 382 (Sun et al. 2019, arXiv 1905.05583, section
    5.3.1). "windows" has a row for each part of the text, one after the other;
    a text that is no longer than its room is in each of them:

      room 3, 2       21 22 23 24 25 26 27 | 31 32
      head_tail       21 26 27             | 31 32
      windows         21 22 23             | 31 32
                      24 25 26             | 31 32
                      27                   | 31 32

    Args:
      tokens: one or two [N, (t)] int32, as for `pack`.
      max_seq_length: S.
      long_text: "head_tail"; or "windows" or "windows_max", which differ
        later.

    Returns:
      The same for `pack`, [M, (t)] each, M = N unless there are windows; and
      [M] int64, the row of each.
    """
    tokens = [x.with_row_splits_dtype(tf.int64) for x in tokens]
    lengths = [x.row_lengths() for x in tokens]
    room = max_seq_length - _SPECIAL_TOKENS
    kept = [tf.minimum(lengths[0], room)]
    if len(tokens) == 2:
        is_pair = tf.cast(lengths[1] > 0, tf.int64)
        kept = pair_lengths(*lengths, room - is_pair)
    rows = tf.range(tf.size(kept[0], tf.int64))
    if long_text == "head_tail":
        parts = [_head_and_tail(*x) for x in zip(kept, lengths, strict=True)]
    else:
        # Of each text, at least one.
        counts = [
            tf.maximum(-(-length // tf.maximum(most, 1)), 1)
            for most, length in zip(kept, lengths, strict=True)
        ]
        number = counts[0] if len(counts) == 1 else tf.maximum(*counts)
        numbers = tf.ragged.range(number).flat_values  # [M], in its row.
        rows = tf.repeat(rows, number)
        parts = []
        for count, most, length in zip(counts, kept, lengths, strict=True):
            begins = tf.minimum(numbers, tf.gather(count, rows) - 1)
            begins *= tf.gather(most, rows)
            ends = begins + tf.gather(most, rows)
            ends = tf.minimum(ends, tf.gather(length, rows))
            parts.append(tf.ragged.range(begins, ends))
    found = [_take(*x, rows) for x in zip(tokens, parts, strict=True)]
    return found, rows


def _head_and_tail(kept: tf.Tensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Returns the positions of the `kept` [N] tokens of each row."""
    positions = tf.ragged.range(kept)
    num_first = -(-kept * 128 // 510)
    is_tail = positions.flat_values >= tf.repeat(num_first, kept)
    skipped = tf.where(is_tail, tf.repeat(lengths - kept, kept), 0)
    return positions.with_flat_values(positions.flat_values + skipped)


def _take(tokens, positions: tf.RaggedTensor, rows) -> tf.RaggedTensor:
    """Returns the tokens at positions [M, (t)] of rows [M]."""
    begins = tf.gather(tokens.row_starts(), rows)
    flat = positions.flat_values + tf.repeat(begins, positions.row_lengths())
    return positions.with_flat_values(tf.gather(tokens.flat_values, flat))


def _first(tokens: tf.RaggedTensor, keep: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `keep` [N] tokens of each row."""
    positions = tf.ragged.range(tokens.row_lengths())
    kept = positions.flat_values < tf.repeat(keep, tokens.row_lengths())
    return tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(tokens.flat_values, kept), keep, validate=False
    )


def _check_length(
    max_seq_length: int | tf.Tensor, is_pair: bool
) -> int | tf.Tensor:
    """Returns S, after the check that `pack` describes."""
    # [CLS], and for each segment one token and [SEP].
    least = 5 if is_pair else 3
    if tf.is_tensor(max_seq_length):
        message = (
            "seq_length has no room for [CLS], [SEP] and a token of each "
            f"segment; use {least} or more."
        )
        check = tf.debugging.assert_greater_equal(
            max_seq_length, least, message
        )
        with tf.control_dependencies([check] if check is not None else []):
            return tf.identity(max_seq_length)
    if max_seq_length < least:
        raise ValueError(
            f"max_seq_length={max_seq_length} has no room for [CLS], [SEP] "
            f"and a token of each segment; use {least} or more."
        )
    return max_seq_length


def pack(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor | None,
    max_seq_length: int | tf.Tensor,
    cls_id: int,
    sep_id: int,
) -> dict[str, tf.Tensor]:
    """Truncates, joins and pads segments, with TensorFlow ops.

      tokens_a       21 22
      tokens_b                   31 32 33
      input_word_ids  CLS 21 22 SEP 31 32 33 SEP 0 0
      input_mask        1  1  1   1  1  1  1   1 0 0
      input_type_ids    0  0  0   0  1  1  1   1 0 0

    run_classifier.py: convert_single_example.

    Args:
      tokens_a: [N, (t)] int32, the first segments.
      tokens_b: [N, (t)] int32, the second segments; None if there are none.
        A row with an empty second segment has only the first.
      max_seq_length: S; if it is a scalar int32 tensor, the outputs have no
        static length.
      cls_id: id of [CLS].
      sep_id: id of [SEP].

    Returns:
      `schema.ENCODER_INPUTS`, each [N, S] int32.

    Raises:
      ValueError: if S leaves no room for a token of each segment;
        InvalidArgumentError, if S is a tensor.
    """
    max_seq_length = _check_length(max_seq_length, tokens_b is not None)
    max_tokens = max_seq_length - _SPECIAL_TOKENS
    if tf.is_tensor(max_tokens):
        max_tokens = tf.cast(max_tokens, tf.int64)
    tokens_a = tokens_a.with_row_splits_dtype(tf.int64)
    lengths_a = tokens_a.row_lengths()
    if tokens_b is None:
        keep_a = tf.minimum(lengths_a, max_tokens)
    else:
        tokens_b = tokens_b.with_row_splits_dtype(tf.int64)
        lengths_b = tokens_b.row_lengths()
        # As in the original, an empty second segment has no [SEP].
        is_pair = tf.cast(lengths_b > 0, lengths_b.dtype)  # [N]
        keep_a, keep_b = pair_lengths(
            lengths_a, lengths_b, max_tokens - is_pair
        )

    column = tf.ones_like(keep_a, tf.int32)[:, tf.newaxis]  # [N, 1]
    parts = [column * cls_id, _first(tokens_a, keep_a), column * sep_id]
    used_a = used = keep_a + _SPECIAL_TOKENS  # [N]
    if tokens_b is not None:
        last = tf.RaggedTensor.from_tensor(column * sep_id, is_pair)
        parts += [_first(tokens_b, keep_b), last]
        used = used_a + keep_b + is_pair
    shape = [None, max_seq_length]
    if tf.is_tensor(max_seq_length):
        shape = tf.stack([-1, max_seq_length])
    word_ids = tf.concat(parts, axis=1).to_tensor(shape=shape)
    input_mask = tf.sequence_mask(used, max_seq_length, tf.int32)
    in_a = tf.sequence_mask(used_a, max_seq_length, tf.int32)
    return {
        "input_word_ids": word_ids,  # [N, S]
        "input_mask": input_mask,
        "input_type_ids": input_mask - in_a,
    }
