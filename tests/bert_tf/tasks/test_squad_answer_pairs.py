"""squad_answers.py: validity and order of pairs of starts and ends."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks import squad_answers


class Windows(NamedTuple):
    """The fields of question_windows.Windows that are used."""

    inputs: dict
    question: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    in_passage: np.ndarray
    has_max_context: np.ndarray


def windows(has_max_context=(0, 0, 1, 1, 1, 0)):
    row = np.array([[0, 0, 1, 1, 1, 0]])
    return Windows(
        {"input_mask": np.array([[1, 1, 1, 1, 1, 1]])},
        np.array([0], np.int32),
        np.array([[0, 0, 0, 2, 4, 0]], np.int32),
        np.array([[0, 0, 1, 3, 5, 0]], np.int32),
        row > 0,
        np.array([has_max_context]) > 0,
    )


def find(start, end, n_best_size=6, max_answer_length=30, **changes):
    pairs = squad_answers.find_pairs(
        windows(**changes),
        np.array([start], np.float32),
        np.array([end], np.float32),
        n_best_size,
        max_answer_length,
    )
    found = squad_answers.find_answers(
        np.array([0], np.int32),
        pairs,
        None,
        squad_answers.join(tf.constant(["a b c"])),
        None,
    )
    return [text.decode() for text in found.texts.numpy()]


def test_pairs_are_sorted_by_their_sum():
    texts = find([9, 9, 3, 2, 1, 9], [9, 9, 0, 4, 6, 9])
    assert texts == ["a b c", "b c", "a b", "c", "b", "a"]


def test_equal_sums_keep_the_order_of_starts_then_of_ends():
    assert find([0] * 6, [0] * 6) == ["a", "a b", "a b c", "b", "b c", "c"]
    # The best start first, although the sums are equal.
    assert find([0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0])[:3] == ["b", "b c", "a"]


def test_too_long_answers_are_invalid():
    assert find([0] * 6, [0] * 6, max_answer_length=2) == [
        "a",
        "a b",
        "b",
        "b c",
        "c",
    ]


def test_an_answer_starts_at_a_token_with_maximum_context():
    texts = find([0] * 6, [0] * 6, has_max_context=(0, 0, 0, 1, 0, 0))
    assert texts == ["b", "b c"]


def test_only_the_best_starts_and_ends_are_paired():
    # One of the two best starts and ends is not in the passage.
    assert find([9, 0, 0, 8, 0, 0], [0, 9, 0, 0, 8, 0], 2) == ["b c"]


def test_sums_are_float64():
    start = [0, 0, 1e8, 1e8, 0, 0]
    end = [0, 0, -50, 3, 0, 0]
    # In float32, 1e8 + 3 and 1e8 + 0 are the same.
    texts = find(start, end)
    assert texts[:2] == ["a b", "b"]
    assert texts[2] == "a b c"
