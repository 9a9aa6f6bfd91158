"""serialization.py: many rows at once give the same bytes as one by one."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tfrecords import schema
from tfrecords.io import serialization

SIZES = {"max_seq_length": 40, "max_predictions_per_seq": 3}


def _check_equal(examples, table, sizes):
    rows = serialization.serialize_rows(examples, table, sizes)
    count = len(next(iter(examples.values())))
    assert len(rows) == count
    for row in range(count):
        one = {name: array[row] for name, array in examples.items()}
        assert rows[row] == schema.serialize(one, table, sizes), row


def _rows(rng, count, limit, dtype=np.int32):
    def integers(*shape):
        # Varints of every length, not only of the longest.
        bits = rng.integers(0, int(limit).bit_length() + 1, (count, *shape))
        return (rng.integers(0, limit, (count, *shape)) >> bits).astype(dtype)

    return {
        "input_word_ids": integers(40),
        "input_mask": integers(40),
        "input_type_ids": integers(40),
        "masked_lm_positions": integers(3),
        "masked_lm_ids": integers(3),
        "masked_lm_weights": rng.random((count, 3)).astype(np.float32),
        "next_sentence_labels": integers(),
    }


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(
    seed=strategies.integers(0, 2**32 - 1),
    count=strategies.integers(1, 9),
    bits=strategies.integers(1, 31),
)
def test_rows_have_the_same_bytes_as_single_examples(seed, count, bits):
    rng = np.random.default_rng(seed)
    examples = _rows(rng, count, 2**bits - 1)
    _check_equal(examples, schema.PRETRAINING, SIZES)


def test_long_integers_have_the_same_bytes():
    examples = _rows(np.random.default_rng(0), 20, 2**62, np.int64)
    _check_equal(examples, schema.PRETRAINING, SIZES)


@pytest.mark.parametrize("largest", [0, 127, 128, 16383, 16384, 2**31 - 1])
def test_integers_at_the_ends_of_their_lengths_have_the_same_bytes(largest):
    examples = _rows(np.random.default_rng(0), 3, largest + 1)
    for array in examples.values():
        if array.dtype == np.int32:
            array[-1] = largest  # The draws need not contain it.
    _check_equal(examples, schema.PRETRAINING, SIZES)


@pytest.mark.parametrize("table", ["classification", "regression"])
def test_other_schemas_have_the_same_bytes(table):
    rng = np.random.default_rng(0)
    examples = _rows(rng, 5, 30000)
    examples |= {"label_ids": rng.integers(0, 3, 5)}
    examples |= {"label_scores": rng.random(5).astype(np.float32)}
    table = schema.SCHEMAS[table]
    _check_equal({name: examples[name] for name in table}, table, SIZES)


def test_a_negative_integer_is_named():
    examples = _rows(np.random.default_rng(0), 5, 100)
    examples["masked_lm_ids"][2, 1] = -3
    with pytest.raises(ValueError, match="'masked_lm_ids' has the value -3"):
        serialization.serialize_rows(examples, schema.PRETRAINING, SIZES)


def test_a_wrong_shape_is_named():
    examples = _rows(np.random.default_rng(0), 5, 100)
    with pytest.raises(ValueError, match="max_seq_length"):
        serialization.serialize_rows(
            examples, schema.PRETRAINING, SIZES | {"max_seq_length": 41}
        )
