"""The embedding layer, compared with its three tables."""

import numpy as np
import pytest
import reference_bert
import tensorflow as tf
from random_weights import randomised

from bert_tf.model import embeddings, layers


@pytest.fixture
def layer(tiny_config):
    layer = embeddings.Embeddings(tiny_config)
    layer.build()
    return randomised(layer)


def expected(layer, ids, types, positions):
    words, position_table, segments, gamma, beta = (
        weight.numpy().astype(np.float64) for weight in layer.weights
    )
    total = words[ids] + segments[types] + position_table[positions]
    return reference_bert.norm(
        total, {"norm/gamma": gamma, "norm/beta": beta}, "norm"
    )


def test_token_segment_and_position_are_summed_and_normalized(layer):
    ids = np.array([[5, 6, 7, 8], [8, 5, 9, 0]], np.int32)
    types = np.array([[0, 0, 1, 0], [0, 1, 1, 1]], np.int32)
    given = np.array([[0, 1, 0, 1], [0, 1, 2, 0]], np.int32)
    for position_ids, positions in ((None, [0, 1, 2, 3]), (given, given)):
        np.testing.assert_allclose(
            layer(ids, types, position_ids),
            expected(layer, ids, types, positions),
            atol=1e-5,
        )


def test_word_vectors_replace_the_embeddings_of_ids(layer):
    ids = np.array([[5, 6, 7], [8, 5, 0]], np.int32)
    other = layer.word_embeddings.numpy()[ids[::-1]]
    np.testing.assert_array_equal(
        layer(ids, ids % 2, word_vectors=other), layer(ids[::-1], ids % 2)
    )


def test_a_sequence_over_max_position_embeddings_is_rejected(layer):
    ids = np.ones((1, 65), np.int32)
    with pytest.raises(ValueError, match="65 tokens.*max_position_embeddings"):
        layer(ids, ids)
    assert layer(ids, ids, np.arange(65)[None] % 64).shape == (1, 65, 16)
    assert layer(ids[:, 1:], ids[:, 1:]).shape == (1, 64, 16)


def test_gradients_of_tables_are_dense(layer):
    ids = np.array([[4, 4, 4, 5]], "int32")
    with tf.GradientTape() as tape:
        rows = layer.rows(layer.word_embeddings, ids)
        loss = tf.reduce_sum(rows)
    gradient = tape.gradient(loss, layer.word_embeddings.value)
    # Optimizers of Keras add the squares of slices that name a row twice.
    assert isinstance(gradient, tf.Tensor)
    assert gradient[4, 0] == 3.0


def test_look_ups_do_not_make_tensorflow_copy_the_tables(layer):
    ids = tf.constant([[5, 6]])
    graph = tf.function(layer).get_concrete_function(ids, ids, ids).graph
    assert "ResourceGather" not in {op.type for op in graph.get_operations()}


def test_products_with_one_hot_vectors_look_up_the_same_rows(layer):
    ids = tf.constant([[5, 6, 7, 5], [8, 5, 0, 1]])
    inputs = ids, ids % 2, ids % 3
    graphs = []

    def run(*inputs):
        with tf.GradientTape() as tape:
            outputs = layer(*inputs)
            loss = tf.reduce_sum(
                outputs * tf.random.stateless_normal(outputs.shape, (1, 2))
            )
        tables = [weight.value for weight in layer.weights]
        gradients = tape.gradient(loss, tables)
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    results = []
    for layer.use_one_hot in (False, True):
        function = tf.function(run).get_concrete_function(*inputs)
        graphs.append({op.type for op in function.graph.get_operations()})
        results.append(function(*inputs))
    assert "GatherV2" in graphs[0] and "GatherV2" not in graphs[1]
    (gathered, gradients), (multiplied, other_gradients) = results
    np.testing.assert_array_equal(gathered, multiplied)
    for expected, gradient in zip(gradients, other_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-6)


@pytest.mark.parametrize("use_one_hot", [False, True])
@pytest.mark.parametrize("position_ids", [None, [[0, 1, 2], [0, 0, 1]]])
def test_tables_may_be_stored_in_bfloat16_and_summed_in_float32(
    layer, tiny_config, use_one_hot, position_ids
):
    policy = layers.StoredInBfloat16("float32")
    stored = embeddings.Embeddings(tiny_config, dtype=policy)
    stored.build()
    stored.use_one_hot = use_one_hot
    for ours, theirs in zip(stored.weights, layer.weights, strict=True):
        ours.assign(theirs)
    types = [weight.dtype for weight in stored.weights]
    assert types == ["bfloat16"] * 3 + ["float32"] * 2
    ids = np.array([[5, 6, 7], [8, 5, 0]], np.int32)
    positions = position_ids or [0, 1, 2]
    outputs = stored(
        ids, ids % 2, position_ids and np.array(position_ids, np.int32)
    )
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(
        outputs, expected(stored, ids, ids % 2, positions), atol=1e-5
    )
    assert policy == layers.StoredInBfloat16("float32")
    assert policy != layers.StoredInBfloat16("float16")
    assert policy.get_config() == {"compute_dtype": "float32"}
