"""Cleaned strings -> WordPiece ids and the offsets of the pieces.

The algorithm is WordpieceTokenizer's in google-research/bert, tokenization.py.

Shapes: N strings.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from tfrecords.text import vocab, words


class Pieces(NamedTuple):
    """Pieces of strings; each [N, (tokens)] int32."""

    ids: tf.RaggedTensor  # Of vocabulary entries.
    starts: tf.RaggedTensor  # Start offset of each piece in its string.
    ends: tf.RaggedTensor  # End offset, exclusive.


def each(function: Callable[..., tf.RaggedTensor], *pieces: Pieces) -> Pieces:
    """Applies `function` separately to the ids, the starts and the ends."""
    return Pieces(*map(function, *pieces))


def join(outer: tf.RaggedTensor, pieces: Pieces, starts: tf.Tensor) -> Pieces:
    """Returns the pieces of strings, given the pieces of their segments.

    Args:
      outer: [N, (segments)], the segments of each string; only its row lengths
        are used.
      pieces: [segments, (pieces)], with offsets in their segments.
      starts: [segments] int32, offset of each segment in its string.
    """
    starts = tf.gather(starts, pieces.ids.value_rowids())  # [pieces]
    splits = tf.gather(pieces.ids.row_splits, outer.row_splits)  # [N + 1]
    return Pieces(
        *(
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in (
                pieces.ids.values,
                pieces.starts.values + starts,
                pieces.ends.values + starts,
            )
        )
    )


def partition(is_second: tf.Tensor) -> list[tf.Tensor]:
    """Returns row indices where `is_second` [N] is false, and the others."""
    rows = tf.range(tf.size(is_second))
    return tf.dynamic_partition(rows, tf.cast(is_second, tf.int32), 2)


def merge(rows: Sequence[tf.Tensor], parts: Sequence[Pieces]) -> Pieces:
    """Undoes `partition`: places the pieces of `parts[k]` in rows `rows[k]`."""
    order = tf.math.invert_permutation(tf.concat(rows, axis=0))
    return each(
        lambda *ragged: tf.gather(tf.concat(ragged, axis=0), order), *parts
    )


class WordPieces(tf.Module):
    """Splits words into pieces, greedily by longest match from the left.

    Args:
      entries: the vocabulary, including "[UNK]".
      tokenize_chinese_chars: whether each Chinese character is a word.

    Call arguments:
      cleaned: [N] string, from `words.clean`.

    Returns:
      Pieces, with offsets in bytes of `cleaned`. A word that cannot be split
      into entries, or is longer than 200 characters, is [UNK].
    """

    def __init__(
        self, entries: Sequence[str], tokenize_chinese_chars: bool = True
    ):
        super().__init__()
        self._tokenize_chinese_chars = tokenize_chinese_chars
        # The op refuses zero bytes and equal entries. A word has no space, so
        # what no word can match is replaced by what no word matches either.
        entries = [
            entry if vocab.can_match(entry) else f" {i}"
            for i, entry in enumerate(entries)
        ]
        # The ops run on the CPU and need their tables there.
        with tf.device("CPU"):
            # This one also splits at spaces and punctuation.
            self._plain = _fast_wordpiece(
                entries, max_bytes_per_word=vocab.MAX_CHARS_PER_WORD
            )
            self._words = _fast_wordpiece(
                entries,
                # A character has at most four bytes.
                max_bytes_per_word=4 * vocab.MAX_CHARS_PER_WORD,
                no_pretokenization=True,
            )

    def __call__(self, cleaned: tf.Tensor) -> Pieces:
        """Returns the pieces; see the class."""
        # Tests the cleaned strings: without accents, more strings are plain.
        rows = partition(self.is_plain(cleaned))
        other, plain = (tf.gather(cleaned, row) for row in rows)
        return merge(rows, [self._split(other), self.split_plain(plain)])

    def is_plain(self, strings: tf.Tensor) -> tf.Tensor:
        """Returns whether `split_plain` can split each string, [N] bool."""
        return words.is_plain(strings, self._tokenize_chinese_chars)

    def split_plain(self, cleaned: tf.Tensor) -> Pieces:
        """Returns the pieces, faster; every string must be `is_plain`."""
        return _to_pieces(self._plain.tokenize_with_offsets(cleaned))

    def _split(self, cleaned: tf.Tensor) -> Pieces:
        of_string, offsets = words.split(  # [N, (words)]
            cleaned, self._tokenize_chinese_chars
        )
        word = of_string.flat_values
        # The op's limit is in bytes, that of the original in characters.
        lengths = tf.strings.length(word, "UTF8_CHAR")
        is_long = lengths > vocab.MAX_CHARS_PER_WORD
        pieces = _to_pieces(
            self._words.tokenize_with_offsets(tf.where(is_long, "[UNK]", word))
        )  # [words, (pieces)]
        # [UNK] for a long word ends where the word ends.
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
