"""segments.pack against the original's loop in plain Python."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrecords import schema
from tfrecords.text import segments

CLS, SEP = 2, 3


def truncate(tokens_a, tokens_b, max_tokens):
    """The rule of run_classifier.py, one token at a time."""
    tokens_a, tokens_b = list(tokens_a), list(tokens_b)
    while len(tokens_a) + len(tokens_b) > max_tokens:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        longer.pop()
    return tokens_a, tokens_b


def expected_row(tokens_a, tokens_b, max_seq_length):
    if not tokens_b:
        tokens_a = tokens_a[: max_seq_length - 2]
        ids = [CLS, *tokens_a, SEP]
        types = [0] * len(ids)
    else:
        tokens_a, tokens_b = truncate(tokens_a, tokens_b, max_seq_length - 3)
        ids = [CLS, *tokens_a, SEP, *tokens_b, SEP]
        types = [0] * (len(tokens_a) + 2) + [1] * (len(tokens_b) + 1)
    padding = [0] * (max_seq_length - len(ids))
    mask = [1] * len(ids)
    return ids + padding, mask + padding, types + padding


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


segment = st.lists(st.integers(5, 99), max_size=24)


@settings(max_examples=80, deadline=None)
@given(
    pairs=st.lists(st.tuples(segment, segment), min_size=1, max_size=6),
    max_seq_length=st.integers(5, 40),
    is_pair=st.booleans(),
)
def test_packing_equals_the_original_loop(pairs, max_seq_length, is_pair):
    packed = segments.pack(
        ragged([a for a, _ in pairs]),
        ragged([b for _, b in pairs]) if is_pair else None,
        max_seq_length,
        CLS,
        SEP,
    )
    rows = [
        expected_row(a, b if is_pair else None, max_seq_length)
        for a, b in pairs
    ]
    for index, name in enumerate(schema.ENCODER_INPUTS):
        np.testing.assert_array_equal(
            packed[name].numpy(), [row[index] for row in rows], name
        )


def test_every_pair_of_lengths_is_truncated_as_in_the_original():
    lengths = [(a, b, m) for a in range(9) for b in range(9) for m in (2, 7, 8)]
    for max_tokens in (2, 7, 8):
        a, b = zip(
            *[(x, y) for x, y, m in lengths if m == max_tokens], strict=True
        )
        stay = segments.pair_lengths(tf.constant(a), tf.constant(b), max_tokens)
        for x, y, stay_a, stay_b in zip(a, b, *stay, strict=True):
            left = truncate(range(x), range(y), max_tokens)
            assert (len(left[0]), len(left[1])) == (stay_a, stay_b)


def test_the_length_is_static_in_tf_data():
    rows = ragged([[7, 8], [9], []])
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(2)
    dataset = dataset.map(lambda a: segments.pack(a, a, 8, CLS, SEP))
    for name, spec in dataset.element_spec.items():
        assert spec.shape.as_list() == [None, 8], name
        assert spec.dtype == tf.int32


def test_zero_rows_give_an_empty_batch():
    empty = tf.RaggedTensor.from_row_lengths(tf.constant([], tf.int32), [])
    packed = segments.pack(empty, None, 8, CLS, SEP)
    assert packed["input_mask"].shape == (0, 8)


def test_row_splits_may_be_int32_or_int64():
    rows = ragged([[7, 8], [9]])
    for dtype in (tf.int32, tf.int64):
        packed = segments.pack(
            rows.with_row_splits_dtype(dtype), rows, 8, CLS, SEP
        )
        assert packed["input_mask"].numpy().sum() == 7 + 5


def test_a_length_without_room_for_tokens_is_rejected():
    rows = ragged([[7]])
    with pytest.raises(ValueError, match="max_seq_length=4 has no room"):
        segments.pack(rows, rows, 4, CLS, SEP)
    with pytest.raises(ValueError, match="use 3 or more"):
        segments.pack(rows, None, 2, CLS, SEP)


@pytest.mark.parametrize("is_pair", [False, True])
def test_the_length_may_be_a_tensor(is_pair):
    pack = tf.function(segments.pack)
    tokens = ragged([[5, 6, 7, 8], [9]])
    others = tokens if is_pair else None
    for length in (5, 9, 30):
        packed = pack(tokens, others, tf.constant(length), CLS, SEP)
        for name, value in segments.pack(
            tokens, others, length, CLS, SEP
        ).items():
            assert value.dtype == packed[name].dtype == tf.int32
            np.testing.assert_array_equal(packed[name], value)
    least = 5 if is_pair else 3
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"use {least} or"):
        pack(tokens, others, tf.constant(least - 1), CLS, SEP)


def rooms(pair, max_seq_length):
    """The numbers of tokens that `truncate` keeps of a pair."""
    special = 3 if pair[1] else 2
    return [len(x) for x in truncate(*pair, max_seq_length - special)]


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(segment, segment), min_size=1, max_size=6),
    max_seq_length=st.integers(5, 40),
    is_pair=st.booleans(),
)
def test_of_long_texts_the_first_and_last_tokens_are_kept(
    pairs, max_seq_length, is_pair
):
    pairs = [(a, b if is_pair else []) for a, b in pairs]
    texts = [list(x) for x in zip(*pairs, strict=True)][: 1 + is_pair]
    found, rows = segments.shorten(
        [ragged(x) for x in texts], max_seq_length, "head_tail"
    )
    assert rows.numpy().tolist() == list(range(len(pairs)))
    for number, pair in enumerate(pairs):
        kept = rooms(pair, max_seq_length)
        for ids, most, tensor in zip(pair, kept, found, strict=False):
            first = math.ceil(most * 128 / 510)
            last = ids[len(ids) - (most - first) :]
            assert tensor[number].numpy().tolist() == ids[:first] + last


def test_of_510_tokens_128_are_first():
    tokens = ragged([list(range(1000))])
    (found,), _ = segments.shorten([tokens], 512, "head_tail")
    expected = [*range(128), *range(1000 - 382, 1000)]
    assert found[0].numpy().tolist() == expected


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(segment, segment), min_size=1, max_size=6),
    max_seq_length=st.integers(5, 40),
    is_pair=st.booleans(),
)
def test_windows_have_all_tokens_once_and_a_short_text_in_each(
    pairs, max_seq_length, is_pair
):
    pairs = [(a, b if is_pair else []) for a, b in pairs]
    texts = [list(x) for x in zip(*pairs, strict=True)][: 1 + is_pair]
    found, rows = segments.shorten(
        [ragged(x) for x in texts], max_seq_length, "windows"
    )
    windows = list(zip(*(x.to_list() for x in found), strict=True))
    for number, pair in enumerate(pairs):
        own = [x for x, row in zip(windows, rows, strict=True) if row == number]
        most = rooms(pair, max_seq_length)
        counts = [
            max(1, math.ceil(len(x) / max(n, 1)))
            for x, n in zip(pair, most, strict=True)
        ]
        assert len(own) == max(counts)
        for ids, count, *parts in zip(pair, counts, *own, strict=False):
            assert sum(parts[:count], []) == ids
            assert all(part == parts[count - 1] for part in parts[count:])


def test_windows_of_one_text_are_full_but_the_last():
    tokens = ragged([list(range(5, 17))])
    (found,), rows = segments.shorten([tokens], 7, "windows_max")
    assert found.to_list() == [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16]]
    assert rows.numpy().tolist() == [0, 0, 0]
