import keras
import numpy as np
import pytest
import reference_bert
import tensorflow as tf

from bert_tf.checkpoint import model_folders
from experiments.bilstm.layer import BiLSTM


@pytest.fixture
def layer():
    keras.utils.set_random_seed(1)
    layer = BiLSTM(3, name="bilstm")
    layer.build((None, None, 4), (None, None))
    rng = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(rng.normal(0.1, 0.5, weight.shape))
    return layer


HIDDEN = np.random.default_rng(3).normal(0, 1, (2, 6, 4)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], np.int32)


def test_it_matches_the_reference_on_rows_with_padding(layer):
    weights = {
        f"bilstm/{name}": weight.numpy().astype(np.float64)
        for name, weight in model_folders.weight_names(layer).items()
    }
    states, last = layer(HIDDEN, MASK)
    for row, length in enumerate((6, 4)):
        expected, at_end = reference_bert.bilstm(
            HIDDEN[row, :length], weights, "bilstm", 3
        )
        np.testing.assert_allclose(states[row, :length], expected, atol=1e-6)
        np.testing.assert_allclose(last[row], at_end, atol=1e-6)
    assert np.isfinite(states).all()


def test_directions_have_separate_weights_and_no_other_state():
    keras.utils.set_random_seed(1)
    layer = BiLSTM(3)
    layer.build((None, None, 4))
    one, two = layer.forward.cell.kernel, layer.backward.cell.kernel
    assert (one.numpy() != two.numpy()).all()
    assert len(layer.weights) == len(layer.trainable_weights) == 6


def test_it_computes_in_float32_under_bfloat16():
    layer = BiLSTM(3, dtype="mixed_bfloat16")
    states, last = layer(tf.constant(HIDDEN, tf.bfloat16), MASK)
    assert states.dtype == last.dtype == tf.float32
    assert {weight.dtype for weight in layer.weights} == {"float32"}
