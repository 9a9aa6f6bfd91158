"""Examples in rows of several: everything is there, in its place."""

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.pretraining import packed_rows, packing

SIZES = {
    "max_seq_length": 24,
    "max_predictions_per_seq": 4,
    "max_predictions_per_row": 8,
    "max_examples_per_row": 3,
}


def random_examples(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 25, count)
    is_token = np.arange(24) < lengths[:, None]
    num_masked = np.rint(lengths * 0.15).astype(int).clip(1)
    is_masked = np.arange(4) < num_masked[:, None]
    positions = [
        np.sort(rng.choice(length, 4, replace=False)) for length in lengths
    ]
    return {
        "input_word_ids": rng.integers(5, 99, (count, 24)) * is_token,
        "input_mask": is_token.astype(np.int32),
        "input_type_ids": rng.integers(0, 2, (count, 24)) * is_token,
        "masked_lm_positions": np.array(positions) * is_masked,
        "masked_lm_ids": rng.integers(5, 99, (count, 4)) * is_masked,
        "masked_lm_weights": is_masked.astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, count),
    }


def in_order(examples):
    """Examples side by side as they are to share rows, and those rows."""
    lengths = examples["input_mask"].sum(axis=1)
    found = packing.assign(lengths, 24, 3)
    return {n: x[found.order] for n, x in examples.items()}, found.counts


def test_two_examples_share_a_row():
    examples = {
        "input_word_ids": [[1, 21, 2, 31, 2, 0], [1, 22, 2, 32, 33, 2]],
        "input_mask": [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]],
        "input_type_ids": [[0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1]],
        "masked_lm_positions": [[3, 0], [1, 4]],
        "masked_lm_ids": [[31, 0], [22, 33]],
        "masked_lm_weights": [[1.0, 0.0], [1.0, 1.0]],
        "next_sentence_labels": [1, 0],
    }
    sizes = SIZES | {"max_seq_length": 12, "max_predictions_per_row": 4}
    found = packed_rows.join(
        {name: np.array(x) for name, x in examples.items()},
        np.array([2]),
        sizes,
    )
    schema.check(found, schema.PACKED_PRETRAINING, sizes)
    assert {name: x[0].tolist() for name, x in found.items()} == {
        "input_word_ids": [1, 21, 2, 31, 2, 1, 22, 2, 32, 33, 2, 0],
        "input_mask": [1] * 11 + [0],
        "input_type_ids": [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0],
        "example_numbers": [1] * 5 + [2] * 6 + [0],
        "position_ids": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 0],
        "cls_positions": [0, 5, 0],
        "masked_lm_positions": [3, 6, 9, 0],
        "masked_lm_ids": [31, 22, 33, 0],
        "masked_lm_weights": [1, 1, 1, 0],
        "next_sentence_labels": [1, 0, 0],
        "next_sentence_weights": [1, 1, 0],
    }


def test_examples_come_out_of_rows_as_they_went_in():
    examples, counts = in_order(random_examples(200))
    rows = packed_rows.join(examples, counts, SIZES)
    schema.check(rows, schema.PACKED_PRETRAINING, SIZES)
    number = 0
    for row, count in enumerate(counts):
        of_token = rows["example_numbers"][row]
        assert (rows["input_mask"][row] == (of_token > 0)).all()
        assert rows["next_sentence_weights"][row].sum() == count
        positions = rows["masked_lm_positions"][row]
        weights = rows["masked_lm_weights"][row]
        for own in range(1, count + 1):
            length = examples["input_mask"][number].sum()
            places = np.flatnonzero(of_token == own)
            assert places[0] == rows["cls_positions"][row, own - 1]
            assert (rows["position_ids"][row][places] == range(length)).all()
            for name in ("input_word_ids", "input_type_ids"):
                expected = examples[name][number, :length]
                assert (rows[name][row][places] == expected).all(), name
            is_own = (of_token[positions] == own) & (weights > 0)
            is_used = examples["masked_lm_weights"][number] > 0
            expected = examples["masked_lm_positions"][number][is_used]
            assert (positions[is_own] - places[0] == expected).all()
            expected = examples["masked_lm_ids"][number][is_used]
            assert (rows["masked_lm_ids"][row][is_own] == expected).all()
            label = rows["next_sentence_labels"][row, own - 1]
            assert label == examples["next_sentence_labels"][number]
            number += 1
    assert number == 200
    total = examples["masked_lm_weights"].sum()
    assert rows["masked_lm_weights"].sum() == total


@pytest.mark.parametrize("block", [1, 3, 64, 500])
def test_rows_do_not_depend_on_the_size_of_blocks(block):
    examples, counts = in_order(random_examples(200))
    expected = packed_rows.join(examples, counts, SIZES)
    blocks = (
        {name: x[begin : begin + block] for name, x in examples.items()}
        for begin in range(0, 200, block)
    )
    found = list(packed_rows.pack(blocks, counts, SIZES))
    for name in expected:
        joined = np.concatenate([rows[name] for rows in found])
        np.testing.assert_array_equal(joined, expected[name], err_msg=name)


def test_single_segments_have_no_labels():
    examples, counts = in_order(random_examples(20))
    both = packed_rows.join(examples, counts, SIZES)
    del examples["next_sentence_labels"]
    alone = packed_rows.join(examples, counts, SIZES)
    schema.check(alone, schema.PACKED_MASKED_LM, SIZES)
    for name, array in alone.items():
        np.testing.assert_array_equal(array, both[name])


def test_unmasked_examples_have_no_masks():
    examples, counts = in_order(random_examples(20))
    masked = packed_rows.join(examples, counts, SIZES)
    for name in [name for name in examples if name.startswith("masked_lm")]:
        del examples[name]
    unmasked = packed_rows.join(examples, counts, SIZES)
    schema.check(unmasked, schema.PACKED_PAIRS, SIZES)
    for name, array in unmasked.items():
        np.testing.assert_array_equal(array, masked[name])


def test_examples_that_do_not_fit_are_an_error():
    examples, _ = in_order(random_examples(2, seed=1))
    assert examples["input_mask"].sum() > 24
    with pytest.raises(ValueError, match="cannot assign"):
        packed_rows.join(examples, np.array([2]), SIZES)
