"""Byte offsets in cleaned strings -> character offsets in the raw strings.

Cleaning drops characters, strips accents and splits some characters. The number
of characters that a character becomes does not depend on its neighbors. (Those
decide between the two lower-case sigmas, which are equally long, and about the
order of a few marks.) So each character is cleaned separately, and the
resulting characters are counted:

  raw         İ   s   t   .   e   U+0301  U+200B  가           N strings, T
  cleaned     i   s   t   .   e                   U+1100 U+1161    characters
  counts      1   1   1   1   1   0       0       2
  ends        1   2   3   4   6                   8

A dropped accent belongs to the character before it, so that e ends after it.
Other dropped characters, such as U+200B, belong to no character.
"""

from collections.abc import Callable

import tensorflow as tf

Function = Callable[[tf.Tensor], tf.Tensor]


def _count_bytes(points: tf.Tensor) -> tf.Tensor:
    """Returns the length of each code point in bytes of UTF-8."""
    more = [
        tf.cast(points >= first, tf.int32) for first in (0x80, 0x800, 1 << 16)
    ]
    return 1 + tf.add_n(more)


def _count_cleaned(
    points: tf.Tensor, drop: Function, clean: Function
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns [T] length of each cleaned code point, [T] if it is an accent."""
    # Texts have many characters but few distinct ones.
    different, index = tf.unique(points)
    alone = tf.strings.unicode_encode(different[:, tf.newaxis], "UTF-8")
    counts = tf.strings.length(clean(alone), "UTF8_CHAR")
    is_accent = (counts == 0) & (tf.strings.length(drop(alone)) > 0)
    return tf.gather(counts, index), tf.gather(is_accent, index)


def _compute_ends(
    row: tf.Tensor, counts: tf.Tensor, is_accent: tf.Tensor
) -> tf.Tensor:
    """Returns the end of each character, including dropped accents, [T]."""
    is_base = counts > 0
    # A group is a character and the dropped ones before the next in its string.
    group = tf.cumsum(tf.cast(is_base, tf.int32)) + row
    after = tf.range(1, tf.size(counts) + 1)
    ends = tf.math.segment_max(tf.where(is_base | is_accent, after, 0), group)
    return tf.gather(ends, group)


def in_characters(
    raw: tf.Tensor,
    cleaned: tf.Tensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    drop: Function,
    clean: Function,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Converts token offsets in cleaned strings to offsets in raw strings.

    Args:
      raw: [N] string.
      cleaned: [N] string, `clean(raw)`.
      starts: [N, (tokens)] int32, in bytes of `cleaned`.
      ends: the same, exclusive; no token is empty.
      drop: [N] string -> [N] string without non-text characters.
      clean: [N] string -> [N] string, `drop` and more.

    Returns:
      starts, ends: [N, (tokens)] int32, in characters of `raw` as decoded by
      Python's `decode("utf-8", "replace")`, end exclusive. A token that is only
      part of a character, such as a Hangul consonant, spans all of it.
    """
    points = tf.strings.unicode_decode(raw, "UTF-8")  # [N, (characters)]
    row = tf.cast(points.value_rowids(), tf.int32)
    counts, is_accent = _count_cleaned(points.flat_values, drop, clean)
    character_ends = _compute_ends(row, counts, is_accent)

    # For each byte of the cleaned strings, the raw character it comes from.
    origins = tf.repeat(tf.range(tf.size(counts)), counts)
    widths = _count_bytes(
        tf.strings.unicode_decode(cleaned, "UTF-8").flat_values
    )
    origins = tf.repeat(origins, widths)
    byte_starts = tf.cumsum(tf.strings.length(cleaned), exclusive=True)

    row = starts.value_rowids()  # [tokens]
    byte_starts = tf.gather(byte_starts, row)
    row_starts = tf.gather(tf.cast(points.row_starts(), tf.int32), row)
    first = tf.gather(origins, byte_starts + starts.flat_values)
    last = tf.gather(origins, byte_starts + ends.flat_values - 1)
    return (
        starts.with_values(first - row_starts),
        ends.with_values(tf.gather(character_ends, last) - row_starts),
    )
