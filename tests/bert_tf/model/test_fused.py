"""Fused operations and their gradients, compared with TensorFlow's."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import dropout, fused

KEY = dropout.make_key(7, 3, 2)
BOUNDS = {tf.float64: 1e-12, tf.float32: 3e-6, tf.bfloat16: 0.02}
EVERY_DTYPE = pytest.mark.parametrize("dtype", BOUNDS, ids=lambda d: d.name)


def normal(*shape, seed=0, dtype=tf.float32):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=shape), dtype)


trained_gelu = functools.partial(fused.gelu_tanh, training=True)


def results(function, arguments, compiled=False):
    """Returns a function's value and the gradients of a weighted sum of it."""

    @tf.function(autograph=False, jit_compile=compiled)
    def run(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
            weights = normal(*value.shape, seed=9, dtype=value.dtype)
            total = tf.reduce_sum(fused.upcast(value) * fused.upcast(weights))
        return value, *tape.gradient(total, arguments)

    return run(*arguments)


def check(ours, formula, arguments, bound, compiled=False):
    found = results(ours, arguments, compiled)
    # The formula in float64, from the same (rounded) arguments.
    exact = [tf.cast(x, tf.float64) for x in arguments]
    expected = results(formula, exact)
    for x, y, argument in zip(
        found, expected, [arguments[0], *arguments], strict=True
    ):
        assert x.dtype == argument.dtype
        scale = np.abs(y).max()
        np.testing.assert_allclose(
            tf.cast(x, tf.float64) / scale, y / scale, atol=bound
        )


@pytest.fixture(params=[False, True], ids=["operations", "one_loop"])
def always_compiled(request, monkeypatch):
    """Runs a test without XLA, and with XLA even for small tensors."""
    monkeypatch.setattr(
        fused, "_WORTH_COMPILING", 1 if request.param else math.inf
    )


@EVERY_DTYPE
def test_dense(dtype):
    arguments = [
        normal(*shape, seed=i, dtype=dtype)
        for i, shape in enumerate([(6, 5), (5, 4), (4,)])
    ]
    check(
        functools.partial(fused.dense, training=True),
        lambda x, w, b: x @ w + b,
        arguments,
        BOUNDS[dtype],
    )


@EVERY_DTYPE
def test_gelu(dtype, always_compiled):
    x = tf.cast(tf.linspace(-6.0, 6.0, 101), dtype)
    check(trained_gelu, fused.gelu_tanh, [x], BOUNDS[dtype])


def norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5)


def norm_arguments(dtype):
    wide = tf.float32 if dtype == tf.bfloat16 else dtype
    return [
        normal(6, 16, seed=1, dtype=dtype),
        normal(16, seed=3, dtype=wide),
        normal(16, seed=4, dtype=wide),
    ]


@EVERY_DTYPE
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_add_norm(dtype, rate, always_compiled):
    def ours(change, hidden, gamma, beta):
        keep = drop.keep_mask(tf.shape(change), True, KEY)
        return fused.add_norm(
            change, hidden, gamma, beta, 1e-5, keep, rate, training=True
        )

    drop = dropout.Dropout(rate, 5, dtype="float64")

    def formula(change, hidden, gamma, beta):
        total = hidden + drop(change, training=True, dropout_key=KEY)
        return norm(total, gamma, beta)

    arguments = [normal(6, 16, seed=2, dtype=dtype), *norm_arguments(dtype)]
    check(ours, formula, arguments, BOUNDS[dtype])


@pytest.mark.parametrize("rate", [0.0, 0.1])
@EVERY_DTYPE
def test_add(dtype, rate, always_compiled):
    def ours(change, hidden):
        keep = drop.keep_mask(tf.shape(change), True, KEY)
        return fused.add(change, hidden, keep, rate, training=True)

    def formula(change, hidden):
        return hidden + drop(change, training=True, dropout_key=KEY)

    drop = dropout.Dropout(rate, 5, dtype="float64")
    arguments = [normal(6, 16, seed=seed, dtype=dtype) for seed in (1, 2)]
    check(ours, formula, arguments, BOUNDS[dtype])


@EVERY_DTYPE
def test_norm(dtype, always_compiled):
    ours = functools.partial(fused.norm, epsilon=1e-5, training=True)
    check(ours, norm, norm_arguments(dtype), BOUNDS[dtype])


@pytest.mark.parametrize("rate", [0.0, 0.3])
@EVERY_DTYPE
def test_attend(dtype, rate, always_compiled):
    mask = tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])

    def ours(qkv):
        keep = drop.keep_mask((2, 2, 5, 5), True, KEY)
        return fused.attend(qkv, mask, keep, rate, training=True)

    drop = dropout.Dropout(rate, 5, dtype="float64")

    def formula(qkv):
        query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.einsum("basd,batd->bast", query, key) / 2.0
        scores += -10000.0 * (1.0 - tf.cast(mask, tf.float64))[:, None, None]
        weights = drop(tf.nn.softmax(scores), training=True, dropout_key=KEY)
        return tf.einsum("bast,batd->bsad", weights, value)

    qkv = normal(2, 5, 3, 2, 4, dtype=dtype)
    check(ours, formula, [qkv], BOUNDS[dtype])


def test_attend_follows_the_mask_of_packed_sequences():
    numbers = np.array([[1, 1, 2, 2, 2], [1, 2, 2, 0, 0]])
    mask = tf.constant(numbers[:, :, None] == numbers[:, None, :])
    qkv = normal(2, 5, 3, 2, 4)

    def packed(qkv):
        return fused.attend(qkv, mask, training=True)

    def unpacked(qkv):
        """Attends within one example at a time."""
        rows = []
        for row, own in zip(tf.unstack(qkv), numbers, strict=True):
            ends = np.flatnonzero(np.diff(own, append=-1)) + 1
            parts = tf.split(row, np.diff(ends, prepend=0), axis=0)
            each = [
                fused.attend(
                    part[None], tf.ones([1, part.shape[0]]), training=True
                )[0]
                for part in parts
            ]
            rows.append(tf.concat(each, 0))
        return tf.stack(rows)

    check(packed, unpacked, [qkv], 3e-6)


@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 50)])
def test_cross_entropy_and_its_gradient(shape, always_compiled):
    logits = 5.0 * normal(*shape)
    labels = tf.argmax(normal(*shape, seed=1), -1, output_type=tf.int32)

    def formula(logits):
        chosen = tf.gather(logits, labels, axis=-1, batch_dims=len(shape) - 1)
        return tf.reduce_logsumexp(logits, -1) - chosen

    ours = functools.partial(fused.cross_entropy, labels=labels)
    check(ours, formula, [logits], 1e-6)


def test_cross_entropy_of_extreme_logits():
    logits = tf.constant([[0.0, 200.0, -300.0]] * 3)
    each = fused.cross_entropy(logits, tf.range(3))
    np.testing.assert_array_equal(each, [200.0, 0.0, 500.0])


def test_small_cross_entropies_are_exact_whatever_is_added_to_all_logits():
    logits = np.float64([[0.0, 11.0, 2.0, 1.0]])
    expected = np.log(np.exp(logits).sum()) - 11.0  # 2e-4.
    for offset in (0.0, 1000.0):
        each = fused.cross_entropy(
            tf.constant(logits + offset, tf.float32), tf.constant([1])
        )
        np.testing.assert_allclose(each, [expected], rtol=2e-3)


def test_custom_gradients_are_used_only_in_training():
    """Exports would contain them, and other runtimes reject them."""
    for training in (False, True):
        gelu = functools.partial(fused.gelu_tanh, training=training)
        run = tf.function(gelu, autograph=False)
        graph = run.get_concrete_function(tf.TensorSpec([2, 3])).graph
        kinds = {operation.type for operation in graph.get_operations()}
        assert ("IdentityN" in kinds) == training


def test_compiled_inside_a_compiled_function(monkeypatch):
    monkeypatch.setattr(fused, "_WORTH_COMPILING", 1)
    x = normal(4, 5)
    check(trained_gelu, fused.gelu_tanh, [x], 3e-6, compiled=True)


def test_a_masked_token_with_a_large_score_has_no_weight():
    query, key = tf.fill([1, 1, 1, 1], 60.0), tf.constant([[[[0.0], [60.0]]]])
    weights = fused.attention_weights(query, key, tf.constant([[1, 0]]))
    assert weights.numpy().tolist() == [[[[1.0, 0.0]]]]
