"""AdamW over many steps, Muon's matrices, defaults and schedules.

What every optimizer does is in tests/contracts/test_optimizers.py.
"""

import keras
import numpy as np
import oracle
import pytest
import reference_bert
import tensorflow as tf

from bert_tf.training import config, optimizers


def test_updates_of_muon_have_singular_values_near_one():
    rng = np.random.default_rng(3)
    for shape in ((16, 16), (8, 32), (32, 8)):
        matrix = rng.normal(size=shape) * np.logspace(-2, 2, shape[1])
        found = optimizers.orthogonalized(tf.constant(matrix, tf.float32))
        values = np.linalg.svd(found.numpy(), compute_uv=False)
        assert values.max() < 1.3 and np.median(values) > 0.6
    zeros = optimizers.orthogonalized(tf.zeros((4, 6)))
    np.testing.assert_array_equal(zeros, np.zeros((4, 6)))


def test_products_in_bfloat16_give_nearly_the_same_update():
    rng = np.random.default_rng(4)
    for shape in ((64, 64), (32, 128)):
        matrix = tf.constant(rng.normal(size=shape), tf.float32)
        exact, fast = (
            optimizers.orthogonalized(matrix, dtype).numpy()
            for dtype in ("float32", "bfloat16")
        )
        assert fast.dtype == np.float32
        error = np.linalg.norm(fast - exact) / np.linalg.norm(exact)
        assert 0 < error < 0.1


def test_weight_decay_is_not_lost_to_rounding():
    # Decay per step is 2e-8 of a weight, float32 resolution 6e-8. Decay has an
    # effect when added to the rest of the update; separately it has none.
    rng = np.random.default_rng(4)
    start = rng.normal(0, 0.05, 2000).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimizers.AdamW([variable], lambda step: tf.constant(2e-6))
    apply = tf.function(lambda g: optimizer.apply([g]), autograph=False)
    weight, m, v = start.astype(np.float64), 0.0, 0.0
    for _ in range(500):
        gradient = rng.normal(0, 1e-3, 2000).astype(np.float32)
        apply(tf.constant(gradient))
        weight, m, v = reference_bert.adamw_step(
            weight, gradient.astype(np.float64), m, v, 2e-6, 0.01
        )
    error = variable.numpy() - weight
    assert np.sqrt(np.mean(np.square(error))) < 1e-7


@pytest.mark.parametrize("beta_1, epsilon", [(0.9, 1e-6), (0.95, 1e-12)])
@pytest.mark.parametrize("beta_2", [0.98, 0.999, 0.9999])
def test_any_betas_match_float64(beta_1, beta_2, epsilon):
    rng = np.random.default_rng(2)
    variable = keras.Variable(np.zeros(50, np.float32), name="kernel")
    optimizer = optimizers.AdamW(
        [variable],
        lambda step: tf.constant(1e-2),
        beta_2=beta_2,
    )
    optimizer.beta_1, optimizer.epsilon = beta_1, epsilon
    weight, m, v = np.zeros((3, 50))
    adam = {"betas": (beta_1, beta_2), "epsilon": epsilon}
    for step in range(1, 101):
        gradient = rng.normal(size=50).astype(np.float32)
        optimizer.apply([tf.constant(gradient)])
        weight, m, v = oracle.adamw_step(
            weight, gradient.astype(float), m, v, 1e-2, 0.01, step, **adam
        )
    np.testing.assert_allclose(variable, weight, rtol=1e-5, atol=2e-6)


def test_make_optimizer_has_the_defaults_of_each_optimizer():
    """That it passes on other settings is in tests/contracts."""
    variables = [keras.Variable(np.ones(3, np.float32), name="kernel")]

    def make(**settings):
        return optimizers.make_optimizer(
            config.OptimizerOptions(output_dir="unused", **settings),
            variables,
            lambda step: tf.constant(1e-2),
        )

    made = make()
    assert type(made) is optimizers.AdamW
    assert (made.correct_bias, made.decay_rates) == (False, [0.01])
    assert (made.beta_1, made.beta_2, made.epsilon) == (0.9, 0.999, 1e-6)
    assert make(optimizer="lamb").correct_bias
    made = make(optimizer="muon")
    assert (made.correct_bias, made.product_dtype) == (False, "float32")
    made = make(optimizer="muon", precision="bfloat16")
    assert made.product_dtype == "bfloat16"
    with keras.name_scope("layer_0"):
        matrix = keras.Variable(np.ones((3, 3), "float32"), name="kernel")
    variables = [matrix, *variables]
    assert make(optimizer="muon").matrix_factor == 1.0
    made = make(optimizer="muon", muon_learning_rate=4e-3, learning_rate=1e-3)
    assert made.matrix_factor == 4.0


def test_muon_multiplies_the_rate_of_matrices_of_layers_alone():
    changes = []
    for factor in (1.0, 4.0):
        with keras.name_scope("layer_0"):
            kernel = keras.Variable(np.ones((3, 3), "float32"), name="kernel")
        other = keras.Variable(np.ones((3, 3), "float32"), name="kernel")
        optimizer = optimizers.Muon(
            [kernel, other],
            lambda step: tf.constant(1e-3),
            matrix_factor=factor,
        )
        optimizer.apply([tf.eye(3), tf.eye(3)])
        changes.append([x.numpy() - 1.0 for x in (kernel, other)])
    (kernel, other), (faster, same) = changes
    np.testing.assert_allclose(faster, 4.0 * kernel, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(same, other)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.0, 2e-4, 3.6e-4, 1.8e-4, 0.0, 0.0]),
        ("constant", [0.0, 2e-4, 4e-4, 4e-4, 4e-4, 4e-4]),
        ("cosine", [0.0, 2e-4, 4e-4, 2e-4, 0.0, 0.0]),
        ("one_cycle", [0.0, 2e-4, 4e-4, 2e-4, 0.0, 0.0]),
    ],
)
def test_schedules_rise_and_fall(schedule, expected):
    made = optimizers.WarmupDecay(4e-4, 100, 10, schedule)
    rates = [float(made(step)) for step in (0, 5, 10, 55, 100, 200)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-12)
    without_warmup = optimizers.WarmupDecay(4e-4, 100, 0, schedule)
    assert float(without_warmup(0)) == pytest.approx(4e-4)


def test_cosine_and_one_cycle_differ_between_their_ends():
    cosine, one_cycle = (
        float(optimizers.WarmupDecay(1.0, 100, 20, name)(40))
        for name in ("cosine", "one_cycle")
    )
    assert one_cycle == pytest.approx(0.75)
    assert cosine == pytest.approx((1 + np.cos(np.pi / 4)) / 2)


def test_the_schedule_works_in_a_keras_optimizer():
    schedule = optimizers.WarmupDecay(1e-4, 100, 10)
    optimizer = keras.optimizers.SGD(schedule)
    again = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1e-4, 10, 20), "num_warmup_steps=20 exceeds num_train_steps=10"),
        ((1e-4, 0, 0), "num_train_steps=0 should be at least 1"),
        ((1e-4, 10, -1), "num_warmup_steps=-1 at least 0"),
        ((-1.0, 10, 0), "learning_rate=-1.0 should be 0 or more"),
        ((1.0, 9, 0, "step"), "=step should be one of linear, constant, cos"),
    ],
)
def test_a_schedule_out_of_range_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        optimizers.WarmupDecay(*arguments)
