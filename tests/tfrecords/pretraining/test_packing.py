"""packing.py: rows are those of plain first-fit-decreasing."""

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.pretraining import packing


def rows_of(found):
    """Returns a list of examples for each row."""
    return [
        part.tolist()
        for part in np.split(found.order, np.cumsum(found.counts)[:-1])
    ]


def one_by_one(lengths, max_seq_length, max_examples):
    """Returns the lengths in each row, by textbook first-fit-decreasing."""
    rows = []
    for length in sorted(lengths.tolist(), reverse=True):
        for row in rows:
            fits = sum(row) + length <= max_seq_length
            if fits and len(row) < max_examples:
                row.append(length)
                break
        else:
            rows.append([length])
    return sorted(rows)


def random_lengths(rng, count, max_seq_length):
    """Returns lengths of many full rows, as in books, and of shorter ones."""
    lengths = rng.integers(3, max_seq_length + 1, count)
    return np.where(rng.random(count) < 0.3, max_seq_length, lengths)


def test_the_longest_example_goes_into_the_first_row_that_it_fits():
    found = packing.assign(np.array([5, 3, 8, 2, 2]), 8, 3)
    assert rows_of(found) == [[0, 1], [2], [3, 4]]


@pytest.mark.parametrize("max_examples", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("max_seq_length", [12, 40, 128])
def test_rows_are_those_of_first_fit_decreasing(max_seq_length, max_examples):
    rng = np.random.default_rng(max_seq_length)
    for count in (1, 7, 400):
        lengths = random_lengths(rng, count, max_seq_length)
        found = packing.assign(lengths, max_seq_length, max_examples)
        rows = rows_of(found)
        assert sorted(sum(rows, [])) == list(range(count))
        expected = one_by_one(lengths, max_seq_length, max_examples)
        assert sorted(lengths[row].tolist() for row in rows) == expected


def test_rows_are_as_shuffled_as_the_examples():
    lengths = random_lengths(np.random.default_rng(1), 10_000, 128)
    rows = rows_of(packing.assign(lengths, 128, 8))
    longest = [row[0] for row in rows]
    assert longest == sorted(longest)
    # Rows of a single example, which first-fit makes first, are not first.
    counts = np.array([len(row) for row in rows])
    halves = np.array_split(counts, 2)
    assert abs(halves[0].mean() - halves[1].mean()) < 0.1


def test_no_examples_make_no_rows():
    found = packing.assign(np.zeros(0, int), 8, 3)
    assert len(found.order) == len(found.counts) == 0


@pytest.mark.parametrize("length", [0, 9, -1])
def test_a_length_that_fits_no_row_raises(length):
    with pytest.raises(ValueError, match=f"{length} tokens.*max_seq_length=8"):
        packing.assign(np.array([3, length]), 8, 2)


@pytest.mark.parametrize("prob", [0.05, 0.15, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("most", [1, 5, 12])
def test_no_row_has_more_masked_tokens_than_slots(prob, most):
    size, max_examples = 40, 4
    slots = packing.max_predictions_per_row(size, most, prob, max_examples)
    # Masked tokens by length; then the most of k examples by row length.
    lengths = np.arange(3, size + 1)
    masked = np.rint(lengths * prob).astype(int).clip(1, most)
    best = np.zeros(size + 1, int)
    for _ in range(max_examples):
        best = np.array(
            [
                max(
                    [
                        best[room],
                        *(
                            best[room - length] + count
                            for length, count in zip(
                                lengths, masked, strict=True
                            )
                            if length <= room
                        ),
                    ]
                )
                for room in range(size + 1)
            ]
        )
    assert best[-1] <= slots <= best[-1] + max_examples or slots == size


def test_number_of_slots_for_usual_flags():
    assert packing.max_predictions_per_row(512, 80, 0.15, 6) == 80
    assert packing.max_predictions_per_row(128, 20, 0.15, 3) == 20
    assert packing.max_predictions_per_row(128, 20, 0.15, 1) == 19


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
    """Returns examples in the order of their rows, and counts per row."""
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
    found = packing.join(
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


def test_packed_rows_hold_each_example_unchanged():
    examples, counts = in_order(random_examples(200))
    rows = packing.join(examples, counts, SIZES)
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
            columns = np.flatnonzero(of_token == own)
            assert columns[0] == rows["cls_positions"][row, own - 1]
            assert (rows["position_ids"][row][columns] == range(length)).all()
            for name in ("input_word_ids", "input_type_ids"):
                expected = examples[name][number, :length]
                assert (rows[name][row][columns] == expected).all(), name
            is_own = (of_token[positions] == own) & (weights > 0)
            is_used = examples["masked_lm_weights"][number] > 0
            expected = examples["masked_lm_positions"][number][is_used]
            assert (positions[is_own] - columns[0] == expected).all()
            expected = examples["masked_lm_ids"][number][is_used]
            assert (rows["masked_lm_ids"][row][is_own] == expected).all()
            label = rows["next_sentence_labels"][row, own - 1]
            assert label == examples["next_sentence_labels"][number]
            number += 1
    assert number == 200
    total = examples["masked_lm_weights"].sum()
    assert rows["masked_lm_weights"].sum() == total


@pytest.mark.parametrize("block", [1, 3, 64, 500])
def test_rows_do_not_depend_on_the_block_size(block):
    examples, counts = in_order(random_examples(200))
    expected = packing.join(examples, counts, SIZES)
    blocks = (
        {name: x[begin : begin + block] for name, x in examples.items()}
        for begin in range(0, 200, block)
    )
    found = list(packing.pack(blocks, counts, SIZES))
    for name in expected:
        joined = np.concatenate([rows[name] for rows in found])
        np.testing.assert_array_equal(joined, expected[name], err_msg=name)


@pytest.mark.parametrize(
    ("without", "features"),
    [
        ("next_sentence_labels", schema.PACKED_MASKED_LM),
        ("masked_lm", schema.PACKED_UNMASKED_PAIRS),
    ],
)
def test_examples_without_labels_or_masks_are_packed(without, features):
    examples, counts = in_order(random_examples(20))
    whole = packing.join(examples, counts, SIZES)
    part = {n: x for n, x in examples.items() if not n.startswith(without)}
    found = packing.join(part, counts, SIZES)
    schema.check(found, features, SIZES)
    for name, array in found.items():
        np.testing.assert_array_equal(array, whole[name])


def test_examples_that_do_not_fit_into_a_row_raise():
    examples, _ = in_order(random_examples(2, seed=1))
    assert examples["input_mask"].sum() > 24
    with pytest.raises(ValueError, match="cannot assign"):
        packing.join(examples, np.array([2]), SIZES)
