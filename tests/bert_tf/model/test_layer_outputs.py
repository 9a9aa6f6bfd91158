"""Hidden states of chosen layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import layer_outputs, models


@pytest.fixture(scope="module")
def model(tiny_config):
    keras.utils.set_random_seed(3)
    return models.BertRegressor(tiny_config)


def test_layer_0_is_the_embeddings_and_l_the_last(model, inputs):
    states = layer_outputs.make_step(model.encoder, [0, 2, 1])(
        {name: tf.constant(values) for name, values in inputs.items()}
    )
    hidden = model.encoder(inputs).hidden_states
    expected = [hidden[0], hidden[2], hidden[1]]
    np.testing.assert_allclose(states, np.stack(expected, axis=2), atol=1e-5)


def test_truncating_batches_by_length_does_not_change_hidden_states(
    model, inputs
):
    step = layer_outputs.make_step(model.encoder, [2])
    expected = step({n: tf.constant(v) for n, v in inputs.items()}).numpy()
    rows = layer_outputs.run_in_order(step, inputs, 3, [4, 8, 12])
    assert len(rows) == 4
    for row, values in enumerate(rows):
        length = inputs["input_mask"][row].sum()
        assert values.shape == (length, 1, 16)
        np.testing.assert_allclose(values, expected[row, :length], atol=1e-5)


def test_layers_may_be_counted_from_either_end_as_in_the_original():
    assert layer_outputs.parse(["-1", "0", "-4"], 4) == [-1, 0, -4]
    assert layer_outputs.parse(["3", " -2"], 4) == [3, -2]
    with pytest.raises(ValueError, match="layers is empty"):
        layer_outputs.parse([], 4)


@pytest.mark.parametrize("words", [["-3"], ["2"], ["last"], ["-1", ""]])
def test_values_that_are_not_layers_are_rejected(words):
    with pytest.raises(ValueError, match=f"'{words[-1]}'; expected .* -2 to 1"):
        layer_outputs.parse(words, 2)


def test_layers_out_of_range_are_rejected(model):
    for layers in ([3], [-1], []):
        with pytest.raises(ValueError, match="from 0, the embeddings, to 2"):
            layer_outputs.make_step(model.encoder, layers)


def test_static_lengths_double_up_to_max_seq_length():
    assert layer_outputs.static_lengths(128) == [16, 32, 64, 128]
    assert layer_outputs.static_lengths(100) == [16, 32, 64, 100]
    assert layer_outputs.static_lengths(8) == [8]
