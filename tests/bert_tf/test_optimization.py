import keras
import numpy as np
import pytest
import reference_bert
import tensorflow as tf

import bert_tf
from bert_tf import model_folders, optimization


@pytest.mark.parametrize("correct_bias", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_hundred_steps_equal_the_numpy_step(correct_bias, decay):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(5, 3)).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimization.AdamW(
        [variable],
        lambda step: tf.constant(1e-2),
        weight_decay_rate=decay,
        correct_bias=correct_bias,
    )
    weight = start.astype(np.float64)
    m, v = np.zeros((2, 5, 3))
    for step in range(1, 101):
        gradient = rng.normal(size=(5, 3)).astype(np.float32)
        optimizer.apply([tf.constant(gradient)])
        weight, m, v = reference_bert.adamw_step(
            weight, gradient, m, v, 1e-2, decay, step, correct_bias
        )
    assert int(optimizer.step.numpy()) == 100
    np.testing.assert_allclose(variable.numpy(), weight, rtol=1e-6, atol=1e-6)
    slots = optimizer.slots()
    np.testing.assert_allclose(slots["m/kernel"], m, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(slots["v/kernel"], v, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_hundred_steps_of_lamb_equal_the_numpy_step(decay):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(5, 3)).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimization.Lamb(
        [variable], lambda step: tf.constant(1e-2), weight_decay_rate=decay
    )
    weight = start.astype(np.float64)
    m, v = np.zeros((2, 5, 3))
    for step in range(1, 101):
        gradient = rng.normal(size=(5, 3)).astype(np.float32)
        optimizer.apply([tf.constant(gradient)])
        weight, m, v = reference_bert.lamb_step(
            weight, gradient, m, v, 1e-2, decay, step
        )
    np.testing.assert_allclose(variable.numpy(), weight, rtol=1e-6, atol=1e-6)


def test_lamb_scales_matrices_and_neither_biases_nor_zeros():
    weights = {
        "kernel": np.full((2, 2), 3.0),
        "zeros/kernel": np.zeros((2, 2)),
        "bias": np.full(4, 3.0),
    }
    variables = [
        keras.Variable(value, name=name.replace("/", "_"), dtype="float32")
        for name, value in weights.items()
    ]
    optimizer = optimization.Lamb(
        variables, lambda step: tf.constant(0.5), weight_decay_rate=0.0
    )
    optimizer.apply([tf.fill(v.shape, 7.0) for v in variables])
    # The corrected update of a first step is 1 in every place; the norm of
    # the kernel is 6, that of its update 2.
    for variable, expected in zip(variables, (1.5, -0.5, 2.5), strict=True):
        np.testing.assert_allclose(variable, expected, rtol=1e-5)
    # With no gradient and no decay there is nothing to scale.
    optimizer = optimization.Lamb(
        variables[:1], lambda step: tf.constant(0.5), weight_decay_rate=0.0
    )
    optimizer.apply([tf.zeros((2, 2))])
    np.testing.assert_allclose(variables[0], 1.5, rtol=1e-5)


@pytest.mark.parametrize("make", optimization.OPTIMIZERS.values())
def test_layers_further_down_learn_more_slowly(tiny_config, make):
    model = bert_tf.BertPretrainer(tiny_config)
    weights = model.trainable_weights

    def changes(decay):
        for weight in weights:
            weight.assign(np.ones(weight.shape))
        optimizer = make(
            weights,
            lambda step: tf.constant(0.5),
            weight_decay_rate=0.0,
            layerwise_lr_decay=decay,
        )
        optimizer.apply([tf.ones(w.shape) for w in weights])
        return {
            name: 1.0 - weight.numpy()
            for name, weight in model_folders.weight_names(model).items()
        }

    whole, decayed = changes(1.0), changes(0.5)
    for name, change in whole.items():
        factor = 1.0
        for part, expected in (
            ("/embeddings/", 0.125),
            ("/layer_0/", 0.25),
            ("/layer_1/", 0.5),
        ):
            factor = expected if part in name else factor
        np.testing.assert_allclose(
            decayed[name], factor * change, rtol=1e-5, err_msg=name
        )


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.1])
def test_a_layerwise_decay_out_of_range_is_refused(decay):
    with pytest.raises(ValueError, match=f"layerwise_lr_decay={decay} should"):
        optimization.layerwise_factors(["a"], decay)


@pytest.mark.parametrize("make", optimization.OPTIMIZERS.values())
def test_decay_spares_biases_and_layer_norm_and_nothing_else(tiny_config, make):
    model = bert_tf.BertPretrainer(tiny_config)
    for weight in model.weights:
        weight.assign(np.ones(weight.shape))
    optimizer = make(model.trainable_weights, lambda step: tf.constant(0.5))
    optimizer.apply([tf.zeros(w.shape) for w in model.trainable_weights])
    for name, weight in model_folders.weight_names(model).items():
        value = np.unique(weight.numpy())
        spared = name.endswith(("bias", "gamma", "beta"))
        # LAMB makes the update, all of it decay here, as long as the weight.
        change = 0.5 * (0.01 if make is optimization.AdamW else 1.0)
        expected = 1.0 if spared else 1.0 - change
        np.testing.assert_allclose(value, [expected], rtol=1e-6, err_msg=name)


def test_the_rate_at_start_in_warmup_after_it_and_at_the_end():
    schedule = optimization.WarmupLinearDecay(1e-4, 100, 10)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100, 200)]
    expected = [0.0, 5e-5, 9e-5, 4.5e-5, 0.0, 0.0]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-12)


def test_without_warmup_the_rate_starts_at_its_peak():
    assert float(optimization.WarmupLinearDecay(1e-4, 100)(0)) == (
        pytest.approx(1e-4)
    )


def test_the_schedule_serves_a_keras_optimizer():
    schedule = optimization.WarmupLinearDecay(1e-4, 100, 10)
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
    ],
)
def test_a_schedule_out_of_range_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        optimization.WarmupLinearDecay(*arguments)
