"""Cleaned strings -> ids of WordPiece entries, and their offsets.

google-research/bert tokenization.py: WordpieceTokenizer. N strings.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from tfrecords.text import vocab, words


class Pieces(NamedTuple):
    """Pieces of strings; each [N, (tokens)] int32."""

    ids: tf.RaggedTensor  # Of vocabulary entries.
    starts: tf.RaggedTensor  # Offsets of each piece in its string.
    ends: tf.RaggedTensor  # The same, exclusive.


def each(function: Callable[..., tf.RaggedTensor], *pieces: Pieces) -> Pieces:
    """Returns `function` of all ids, of all starts and of all ends."""
    return Pieces(*map(function, *pieces))


def join(outer: tf.RaggedTensor, pieces: Pieces, starts: tf.Tensor) -> Pieces:
    """Returns the pieces of strings, of the pieces of their segments.

    Args:
      outer: [N, (segments)], the segments of each string; any values.
      pieces: [segments, (pieces)], with offsets in their segments.
      starts: [segments] int32, offset of each segment in its string.
    """
    starts = tf.gather(starts, pieces.ids.value_rowids())  # [pieces]
    pieces = Pieces(
        pieces.ids,
        pieces.starts.with_values(pieces.starts.values + starts),
        pieces.ends.with_values(pieces.ends.values + starts),
    )
    return each(lambda rows: outer.with_values(rows).merge_dims(1, 2), pieces)


def partition(is_second: tf.Tensor) -> list[tf.Tensor]:
    """Returns the rows where `is_second` [N] is false, and where it is true."""
    rows = tf.range(tf.size(is_second))
    return tf.dynamic_partition(rows, tf.cast(is_second, tf.int32), 2)


def merge(rows: Sequence[tf.Tensor], parts: Sequence[Pieces]) -> Pieces:
    """Returns all pieces, those of `parts[k]` in the rows `rows[k]`."""
    order = tf.math.invert_permutation(tf.concat(rows, axis=0))
    return each(
        lambda *ragged: tf.gather(tf.concat(ragged, axis=0), order), *parts
    )


class WordPieces(tf.Module):
    """Splits words into the longest entries from the left.

    Args:
      entries: the vocabulary; one is "[UNK]".

    Call arguments:
      cleaned: [N] string, from `words.clean`.

    Returns:
      Pieces, with offsets in bytes of `cleaned`. A word that no entries make
      up, or of more than 200 characters, is [UNK].
    """

    def __init__(self, entries: Sequence[str]):
        super().__init__()
        # The ops run on the CPU; so must their tables be there.
        with tf.device("CPU"):
            # Splits at spaces and punctuation by itself.
            self._plain = _fast_wordpiece(
                entries, max_bytes_per_word=vocab.MAX_CHARS_PER_WORD
            )
            self._words = _fast_wordpiece(
                entries,
                # A character has four bytes at most.
                max_bytes_per_word=4 * vocab.MAX_CHARS_PER_WORD,
                no_pretokenization=True,
            )

    def __call__(self, cleaned: tf.Tensor) -> Pieces:
        """Returns the pieces; see the class."""
        # Without accents more are plain than were.
        rows = partition(words.is_plain(cleaned))
        other, plain = (tf.gather(cleaned, row) for row in rows)
        return merge(rows, [self._split(other), self.split_plain(plain)])

    def split_plain(self, cleaned: tf.Tensor) -> Pieces:
        """Returns the same in less time; `words.is_plain` must hold for all."""
        return _to_pieces(self._plain.tokenize_with_offsets(cleaned))

    def _split(self, cleaned: tf.Tensor) -> Pieces:
        of_string, offsets = words.split(cleaned)  # [N, (words)]
        word = of_string.flat_values
        # The library's limit counts bytes, the original's characters.
        lengths = tf.strings.length(word, "UTF8_CHAR")
        is_long = lengths > vocab.MAX_CHARS_PER_WORD
        pieces = _to_pieces(
            self._words.tokenize_with_offsets(tf.where(is_long, "[UNK]", word))
        )  # [words, (pieces)]
        # The end of [UNK] is that of the long word it stands for.
        end = tf.where(is_long, tf.strings.length(word), 0)
        end = tf.gather(end, pieces.ids.value_rowids())
        ends = pieces.ends.with_values(tf.maximum(pieces.ends.values, end))
        starts = tf.cast(offsets.flat_values, tf.int32)
        return join(of_string, pieces._replace(ends=ends), starts)


def _to_pieces(ragged_parts: tuple) -> Pieces:
    return each(lambda ragged: tf.cast(ragged, tf.int32), Pieces(*ragged_parts))


def _fast_wordpiece(
    entries: Sequence[str], **settings
) -> tf_text.FastWordpieceTokenizer:
    return tf_text.FastWordpieceTokenizer(
        vocab=entries,
        token_out_type=tf.int32,
        unknown_token="[UNK]",
        **settings,
    )
