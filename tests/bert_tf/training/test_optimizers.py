"""AdamW over many steps, in Keras, too; Muon's matrices; defaults; schedules.

What every optimizer does is in tests/contracts/test_optimizers.py.
"""

import dataclasses
import json
import subprocess
import sys

import keras
import numpy as np
import oracle
import planted_tasks
import pytest
import reference_bert
import tensorflow as tf
import training_steps

import bert_tf
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


def test_the_global_norm_is_that_of_the_concatenated_values():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((9, 6), (4,), ())]
    values = np.concatenate([np.ravel(array) for array in arrays])
    tensors = [tf.constant(array, tf.float32) for array in arrays]
    norm = optimizers.global_norm(tensors)
    assert norm.shape == ()
    np.testing.assert_allclose(norm, np.linalg.norm(values), rtol=1e-6)
    compiled = tf.function(optimizers.global_norm, jit_compile=True)
    np.testing.assert_allclose(compiled(tensors), norm, rtol=1e-6)


def test_the_global_norm_of_float16_is_computed_in_float32():
    large = tf.fill([4], tf.constant(6e4, tf.float16))
    norm = optimizers.global_norm([large])
    assert norm.dtype == tf.float32
    np.testing.assert_allclose(norm, 2 * float(large[0]), rtol=1e-6)


def test_nan_and_inf_propagate_to_the_global_norm():
    for value in (np.inf, np.nan):
        tensors = [tf.ones(3), tf.constant([1.0, value])]
        assert not np.isfinite(optimizers.global_norm(tensors))
    assert np.isinf(optimizers.global_norm([tf.constant([3e38])]))


@pytest.fixture
def still_config(tiny_config):
    """Without dropout, whose masks differ between `fit` and a run."""
    rates = "hidden_dropout_prob", "attention_probs_dropout_prob"
    return dataclasses.replace(tiny_config, **dict.fromkeys(rates, 0.0))


def compiled(config, schedule, clip_norm=1.0):
    model = bert_tf.BertClassifier(config, num_classes=2)
    model.compile(bert_tf.AdamWeightDecay(schedule, clip_norm))
    return model


def test_fifty_steps_of_compile_equal_those_of_a_run(
    still_config, make_batch, tmp_path
):
    schedule = bert_tf.WarmupDecay(1e-3, 50, 10)
    task = planted_tasks.classification("x", 2)
    clip_norm = 0.1  # The norm is mostly above.
    trained, optimizer, _, step = training_steps.make(
        still_config, task=task, clip_norm=clip_norm
    )
    optimizer.learning_rate = schedule
    model = compiled(still_config, schedule, clip_norm)
    model.set_weights(trained.get_weights())
    names = "input_word_ids", "input_mask", "input_type_ids"
    rows, norms = {"is_real_example": np.ones(4, np.float32)}, []
    for seed in range(50):
        batch = make_batch(still_config, seed=seed)
        labels = np.arange(4) % 2
        inputs = {name: batch[name] for name in names}
        rows |= inputs | {"label_ids": labels}
        norms += [*step(training_steps.as_tensors(rows))["gradient_norm"]]
        model.train_on_batch(inputs, labels)
        if seed == 20:  # A saved model goes on as if it were the same.
            model.save(tmp_path / "model.keras")
            model = keras.models.load_model(tmp_path / "model.keras")
    assert min(norms) < clip_norm < np.median(norms)
    found = {weight.path: weight.numpy() for weight in model.weights}
    for weight in trained.weights:
        np.testing.assert_allclose(
            found[weight.path], weight, rtol=0, atol=1e-6, err_msg=weight.path
        )


def test_weights_that_the_loss_does_not_read_stay_in_fit(
    still_config, make_batch
):
    model = bert_tf.BertTagger(still_config, num_classes=3)
    model.compile(bert_tf.AdamWeightDecay(0.1))
    before = {w.path: w.numpy() for w in model.weights if "kernel" in w.path}
    model.train_on_batch(make_batch(still_config), np.zeros((4, 12), "int32"))
    after = {weight.path: weight.numpy() for weight in model.weights}
    same = {p for p in before if np.array_equal(before[p], after[p])}
    assert same == {"encoder/pooler/kernel"}


def test_layers_that_are_trained_later_need_another_compile(
    still_config, make_batch
):
    model = compiled(still_config, 0.1)
    model.encoder.trainable = False
    model.compile(bert_tf.AdamWeightDecay(0.1))
    batch = make_batch(still_config), np.zeros(4, np.int32)
    model.train_on_batch(*batch)
    model.encoder.trainable = True
    with pytest.raises(ValueError, match="recreate a new optimizer"):
        model.train_step(batch)


def test_a_clip_norm_of_zero_is_refused():
    with pytest.raises(ValueError, match="global_clipnorm=0.0 should be above"):
        bert_tf.AdamWeightDecay(0.1, global_clipnorm=0.0)


def test_a_model_without_any_gradient_is_refused():
    weight = keras.Variable(np.ones(2))
    with pytest.raises(ValueError, match="No weight has a gradient"):
        bert_tf.AdamWeightDecay(0.1).apply([None], [weight])


IN_FIT_ON_REPLICAS = """
import json, sys
import keras
import numpy as np
import tensorflow as tf
import bert_tf
from bert_tf.training import strategies

mirrored = strategies.make_strategy("mirrored", virtual_devices=2)
one = strategies.make_strategy("one_device")
x = np.arange(24, dtype="float32").reshape(8, 3) / 8
y = np.arange(8, dtype="float32")


def train(strategy):
    with strategy.scope():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
        model.set_weights([np.ones((3, 1)), np.zeros(1)])
        model.compile(bert_tf.AdamWeightDecay(0.5, global_clipnorm=0.1), "mse")
    model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
    return [weight.tolist() for weight in model.get_weights()]


print(json.dumps([train(mirrored), train(one)]))
"""


@pytest.mark.slow
def test_fit_on_two_replicas_gives_the_weights_of_one():
    done = subprocess.run(
        [sys.executable, "-c", IN_FIT_ON_REPLICAS],
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    two, one = json.loads(done.stdout.splitlines()[-1])
    for found, expected in zip(two, one, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
