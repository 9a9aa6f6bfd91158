"""Raw strings -> words for a tagger, and their offsets.

Datasets of tagged words are already split into words; served text is not. Words
end at whitespace. Punctuation around a word is split off, and punctuation
inside a word is kept, as in CoNLL-2003 ("all-rounder", "U.N", "1996-08-22"):

  string  ("  J o b s "  ,     a   t     U . N .  )
  words    "  Jobs    "  ,     at        U.N   .

Each Chinese character is a word, whatever the tokenizer's rules. N strings, T
characters in all strings, W words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from tfrecords.text import words as words_lib


class RawWords(NamedTuple):
    """Words of strings; each [N, (words)].

    Offsets count characters of the string as decoded by Python's
    `decode("utf-8", "replace")`.
    """

    words: tf.RaggedTensor  # String.
    starts: tf.RaggedTensor  # int64.
    ends: tf.RaggedTensor  # int64, exclusive.


def _outer(
    is_mark: tf.Tensor, run: tf.Tensor, num_runs: tf.Tensor
) -> tf.Tensor:
    """Returns [T] bool: marks with no letter before, or none after, in the run.

    A run is a sequence of characters without space; `run` [T] is its number.
    """
    positions = tf.range(tf.size(run, tf.int64))
    after_all = tf.size(run, tf.int64)
    first = tf.math.unsorted_segment_min(
        tf.where(is_mark, after_all, positions), run, num_runs
    )
    last = tf.math.unsorted_segment_max(
        tf.where(is_mark, tf.constant(-1, tf.int64), positions), run, num_runs
    )
    is_inner = (tf.gather(first, run) < positions) & (
        positions < tf.gather(last, run)
    )
    return is_mark & ~is_inner


def split(strings: tf.Tensor) -> RawWords:
    """Splits strings into words, with TensorFlow ops, for any N.

    Args:
      strings: [N] string, UTF-8; invalid bytes become U+FFFD.
    """
    characters = tf.strings.unicode_split(
        strings, "UTF-8"
    ).with_row_splits_dtype(tf.int64)
    flat = characters.flat_values  # [T]
    # Texts have many characters but few distinct ones.
    different, index = tf.unique(flat)
    is_space, is_mark, is_chinese = (
        tf.gather(is_class, index)
        for is_class in words_lib.character_classes(different)
    )
    row = characters.value_rowids()
    is_first = tf.concat([[True], row[1:] != row[:-1]], 0)[: tf.size(row)]

    def before(flags):  # [T] bool: the flag of the previous character.
        return tf.concat([[False], flags[:-1]], 0)[: tf.size(flags)]

    begins_run = ~is_space & (is_first | before(is_space))
    run = tf.cumsum(tf.cast(begins_run, tf.int64))  # 0 before the first.
    num_runs = 1 + tf.reduce_sum(tf.cast(begins_run, tf.int64))
    # The space after a run counts as part of it, and is not a letter.
    is_alone = is_chinese | _outer(is_mark | is_space, run, num_runs)
    begins = ~is_space & (begins_run | is_alone | before(is_alone))
    word = tf.cumsum(tf.cast(begins, tf.int64)) - 1  # [T]
    num_words = tf.reduce_sum(tf.cast(begins, tf.int64))  # W
    kept = ~is_space
    word = tf.boolean_mask(word, kept)
    positions = tf.range(tf.size(flat, tf.int64))
    positions -= tf.gather(characters.row_starts(), row)  # In its string.
    ends = 1 + tf.math.unsorted_segment_max(
        tf.boolean_mask(positions, kept), word, num_words
    )
    joined = tf.strings.unsorted_segment_join(
        tf.boolean_mask(flat, kept), word, num_words
    )
    lengths = tf.math.unsorted_segment_sum(
        tf.cast(begins, tf.int64), row, characters.nrows()
    )
    rows = tf.RaggedTensor.from_row_lengths(joined, lengths)
    return RawWords(
        rows,
        rows.with_values(tf.boolean_mask(positions, begins)),
        rows.with_values(ends),
    )


def split_texts(texts: Sequence[str]) -> Iterator[tuple[tuple, tuple]]:
    """Yields the words of each text, and (start, end) of each word in it."""
    found = split(tf.constant(texts, tf.string))
    for words, *places in zip(*(x.to_list() for x in found), strict=True):
        yield (
            tuple(word.decode() for word in words),
            tuple(zip(*places, strict=True)),
        )
