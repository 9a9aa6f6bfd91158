import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.model import dropout


def mask(rows, first, step=3, dropout_id=5, seed=1, shape=(6, 7), rate=0.1):
    key = dropout.make_key(seed, step, first)
    return dropout.keep_mask((rows, *shape), rate, key, dropout_id).numpy()


def test_rows_depend_on_their_index_and_not_on_the_number_of_rows():
    expected = mask(8, 0)
    for first, rows in ((0, 4), (4, 4), (2, 1), (7, 1)):
        np.testing.assert_array_equal(
            mask(rows, first), expected[first : first + rows]
        )


def test_masks_do_not_change():
    """A run that is resumed by a later version drops the same values."""
    kept = mask(2, 3, step=123456, seed=2**32 - 1, shape=(11,), rate=0.5)
    assert ["".join("01"[int(value)] for value in row) for row in kept] == [
        "01111111001",
        "01010100100",
    ]


def test_every_part_of_the_key_changes_the_mask():
    base = mask(8, 0, shape=(50, 50))
    for change in ({"step": 4}, {"dropout_id": 6}, {"seed": 2}, {"first": 8}):
        other = mask(**({"rows": 8, "first": 0, "shape": (50, 50)} | change))
        # Independent masks agree in 0.9^2 + 0.1^2 = 0.82 of all values.
        assert abs((base == other).mean() - 0.82) < 0.02, change


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_kept_is_one_minus_rate(rate):
    kept = mask(64, 0, shape=(1000,), rate=rate).mean()
    deviation = np.sqrt(rate * (1 - rate) / 64000)
    assert abs(kept - (1 - rate)) < 5 * deviation


def test_the_smallest_rate_drops_one_of_65536_values():
    dropped = (~mask(256, 0, shape=(2**16,), rate=2**-16)).sum()
    assert abs(dropped - 256) < 5 * np.sqrt(256)


def test_the_scale_is_that_of_the_share_that_is_really_kept():
    # Of 65,536 levels, 0.1 drops 6,554.
    assert dropout.kept_scale(0.1) == 2**16 / (2**16 - 6554)


def test_scaling_of_kept_values_preserves_the_mean():
    layer = dropout.Dropout(0.25, dropout_id=1)
    outputs = layer(
        tf.ones((16, 4096)),
        training=True,
        dropout_key=dropout.make_key(1, 2, 0),
    ).numpy()
    assert set(np.unique(outputs)) == {0.0, np.float32(1 / 0.75)}
    assert abs(outputs.mean() - 1) < 0.02


def test_without_training_or_rate_inputs_are_unchanged():
    inputs = tf.ones((2, 3))
    assert dropout.Dropout(0.5, 1)(inputs) is inputs
    assert dropout.Dropout(0.0, 1)(inputs, training=True) is inputs


def test_without_a_key_each_call_draws_a_new_mask():
    layer = dropout.Dropout(0.5, dropout_id=1)
    first = layer(tf.ones((4, 100)), training=True).numpy()
    second = layer(tf.ones((4, 100)), training=True).numpy()
    assert (first != second).any()


def test_dropout_ids_of_a_model_are_unique(tiny_config):
    model = bert_tf.BertClassifier(tiny_config, num_classes=2)
    ids = [
        layer.dropout_id
        for layer in model._flatten_layers()
        if isinstance(layer, dropout.Dropout)
    ]
    assert len(ids) == len(set(ids)) == 1 + 2 * 3 + 1
