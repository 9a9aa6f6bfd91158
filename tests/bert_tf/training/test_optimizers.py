import subprocess
import sys

import keras
import numpy as np
import pytest
import reference_bert
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.training import config, optimizers


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("correct_bias", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_100_steps_match_the_reference(correct_bias, decay, scale):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(5, 3)).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimizers.AdamW(
        [variable],
        lambda step: tf.constant(1e-2),
        weight_decay_rate=decay,
        correct_bias=correct_bias,
    )
    weight = start.astype(np.float64)
    m, v = np.zeros((2, 5, 3))
    for step in range(1, 101):
        gradient = rng.normal(size=(5, 3)).astype(np.float32)
        optimizer.apply([tf.constant(gradient)], scale and tf.constant(scale))
        gradient = gradient.astype(np.float64) * (scale or 1.0)
        weight, m, v = reference_bert.adamw_step(
            weight, gradient, m, v, 1e-2, decay, step, correct_bias
        )
    assert int(optimizer.step.numpy()) == 100
    np.testing.assert_allclose(variable.numpy(), weight, rtol=1e-6, atol=1e-6)
    slots = optimizer.slots()
    np.testing.assert_allclose(slots["m/kernel"], m, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(slots["v/kernel"], v, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_100_steps_of_lamb_match_the_reference(decay):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(5, 3)).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimizers.Lamb(
        [variable],
        lambda step: tf.constant(1e-2),
        weight_decay_rate=decay,
        correct_bias=True,
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


def in_layer(value, name="kernel"):
    """Returns a weight of an encoder layer."""
    with keras.name_scope("encoder"), keras.name_scope("layer_0"):
        return keras.Variable(value, name=name, dtype="float32")


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("shape", [(5, 3), (4, 9), (6, 6)])
def test_100_steps_of_muon_match_the_reference(decay, shape):
    rng = np.random.default_rng(1)
    start = rng.normal(size=shape).astype(np.float32)
    variable = in_layer(start)
    optimizer = optimizers.Muon(
        [variable], lambda step: tf.constant(1e-2), weight_decay_rate=decay
    )
    assert set(optimizer.slots()) == {"m/encoder/layer_0/kernel"}
    weight, m = start.astype(np.float64), np.zeros(shape)
    for _ in range(100):
        gradient = rng.normal(size=shape).astype(np.float32)
        optimizer.apply([tf.constant(gradient)])
        weight, m = reference_bert.muon_step(weight, gradient, m, 1e-2, decay)
    np.testing.assert_allclose(variable, weight, rtol=1e-4, atol=1e-4)


def test_muon_is_adamw_for_all_but_the_matrices_of_layers(tiny_config):
    model = bert_tf.BertPretrainer(tiny_config)
    rng = np.random.default_rng(2)
    starts = [rng.normal(size=w.shape) for w in model.trainable_weights]
    gradients = [tf.constant(x + 0.1, tf.float32) for x in starts]

    def weights_after(make):
        for weight, start in zip(model.trainable_weights, starts, strict=True):
            weight.assign(start)
        make(model.trainable_weights, lambda step: tf.constant(0.1)).apply(
            gradients
        )
        return {
            name: weight.numpy()
            for name, weight in model_folders.weight_names(model).items()
        }

    ours, theirs = map(weights_after, (optimizers.Muon, optimizers.AdamW))
    differ = {n for n in ours if not np.array_equal(ours[n], theirs[n])}
    assert differ == {
        name
        for name in ours
        if name.startswith("encoder/layer_") and name.endswith("kernel")
    }
    assert len(differ) == 6 * tiny_config.num_hidden_layers


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


def test_lamb_does_not_scale_biases_and_zeros():
    weights = {
        "kernel": np.full((2, 2), 3.0),
        "zeros/kernel": np.zeros((2, 2)),
        "bias": np.full(4, 3.0),
    }
    variables = [
        keras.Variable(value, name=name.replace("/", "_"), dtype="float32")
        for name, value in weights.items()
    ]
    optimizer = optimizers.Lamb(
        variables,
        lambda step: tf.constant(0.5),
        weight_decay_rate=0.0,
        correct_bias=True,
    )
    optimizer.apply([tf.fill(v.shape, 7.0) for v in variables])
    # The bias-corrected first update is 1 everywhere; the norm of the kernel is
    # 6, that of its update 2.
    for variable, expected in zip(variables, (1.5, -0.5, 2.5), strict=True):
        np.testing.assert_allclose(variable, expected, rtol=1e-5)
    # Without gradient and weight decay the update is 0.
    optimizer = optimizers.Lamb(
        variables[:1],
        lambda step: tf.constant(0.5),
        weight_decay_rate=0.0,
        correct_bias=True,
    )
    optimizer.apply([tf.zeros((2, 2))])
    np.testing.assert_allclose(variables[0], 1.5, rtol=1e-5)


def test_a_loss_that_reads_no_weight_is_refused():
    variables = [keras.Variable([1.0, 2.0], name=name) for name in "ab"]
    optimizer = optimizers.AdamW(variables, lambda step: tf.constant(0.5))
    with pytest.raises(ValueError, match="0 gradients in a list of 2, for 2 w"):
        optimizer.apply([None, None])
    with pytest.raises(ValueError, match="1 gradients in a list of 1, for 2 w"):
        optimizer.apply([tf.ones(2)])
    optimizer.apply([tf.ones(2), None])
    assert (variables[0].numpy() < [1, 2]).all()
    np.testing.assert_array_equal(variables[1], [1, 2])


@pytest.mark.parametrize("make", optimizers.OPTIMIZERS.values())
def test_layerwise_decay_lowers_the_rate_of_lower_layers(tiny_config, make):
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

    full, decayed = changes(1.0), changes(0.5)
    for name, change in full.items():
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
def test_a_layerwise_decay_out_of_range_is_rejected(decay):
    with pytest.raises(ValueError, match=f"layerwise_lr_decay={decay} should"):
        optimizers.layerwise_factors(["a"], decay)


@pytest.mark.parametrize("make", optimizers.OPTIMIZERS.values())
def test_only_biases_and_layer_norm_have_no_weight_decay(tiny_config, make):
    model = bert_tf.BertPretrainer(tiny_config)
    for weight in model.weights:
        weight.assign(np.ones(weight.shape))
    optimizer = make(model.trainable_weights, lambda step: tf.constant(0.5))
    optimizer.apply([tf.zeros(w.shape) for w in model.trainable_weights])
    for name, weight in model_folders.weight_names(model).items():
        value = np.unique(weight.numpy())
        is_excluded = name.endswith(("bias", "gamma", "beta"))
        # The update is only decay; LAMB scales it to the norm of the weight.
        change = 0.5 * (1.0 if make is optimizers.Lamb else 0.01)
        expected = 1.0 if is_excluded else 1.0 - change
        np.testing.assert_allclose(value, [expected], rtol=1e-6, err_msg=name)


def test_weight_decay_is_not_lost_to_rounding():
    # Decay per step is 2e-8 of a weight, float32 resolution 6e-8. Decay has an
    # effect when added to the rest of the update; separately it has none.
    rng = np.random.default_rng(4)
    start = rng.normal(0, 0.05, 2000).astype(np.float32)
    variable = keras.Variable(start, name="kernel")
    optimizer = optimizers.AdamW([variable], lambda step: tf.constant(2e-6))
    apply = tf.function(lambda g: optimizer.apply([g]), autograph=False)
    weight, m, v = start.astype(np.float64), 0.0, 0.0
    for step in range(1, 501):
        gradient = rng.normal(0, 1e-3, 2000).astype(np.float32)
        apply(tf.constant(gradient))
        weight, m, v = reference_bert.adamw_step(
            weight, gradient.astype(np.float64), m, v, 2e-6, 0.01, step
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
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
    )
    weight, m, v = np.zeros((3, 50))
    for _ in range(100):
        gradient = rng.normal(size=50).astype(np.float32)
        optimizer.apply([tf.constant(gradient)])
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * np.square(gradient, dtype=np.float64)
        update = m / (np.sqrt(v) + epsilon) + 0.01 * weight
        weight = weight - 1e-2 * update
    np.testing.assert_allclose(variable, weight, rtol=1e-5, atol=2e-6)


def run_steps(make, values, gradients, scales, rate=1e-2, **kwargs):
    """Returns the weights after updates in a tf.function, as in TrainStep."""
    variables = [in_layer(value) for value in values]
    optimizer = make(variables, lambda step: tf.constant(rate))

    def skip():
        optimizer.step.assign_add(1)

    @tf.function(autograph=False, **kwargs)
    def step(scale):
        tf.cond(
            tf.math.is_finite(scale),
            lambda: optimizer.apply(gradients, scale),
            skip,
        )

    for scale in scales:
        step(tf.constant(scale))
    assert int(optimizer.step.numpy()) == len(scales)
    return [variable.numpy() for variable in variables]


@pytest.mark.parametrize("make", optimizers.OPTIMIZERS.values())
def test_updates_can_be_skipped_repeated_and_compiled(make):
    rng = np.random.default_rng(3)
    values = [rng.normal(size=s).astype("float32") for s in ((7, 300), (40,))]
    gradients = [tf.constant(2.0 * value + 1.0) for value in values]
    scales = 0.5, np.inf, 0.25
    weights = run_steps(make, values, gradients, scales)
    for a, b in zip(
        weights, run_steps(make, values, gradients, scales), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    compiled = run_steps(make, values, gradients, scales, jit_compile=True)
    for a, b in zip(weights, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    if make is optimizers.AdamW:  # LAMB's bias correction depends on the step.
        without = run_steps(make, values, gradients, (0.5, 0.25))
        for a, b in zip(weights, without, strict=True):
            np.testing.assert_array_equal(a, b)


ON_REPLICAS = """
import keras
import numpy as np
import tensorflow as tf
from bert_tf.training import optimizers, strategies

strategy = strategies.make_strategy("mirrored", virtual_devices=2)
for make in optimizers.OPTIMIZERS.values():
    with strategy.scope():
        with keras.name_scope("layer_0"):
            start = np.full((3, 4), 0.5, "float32")
            variable = keras.Variable(start, name="kernel")
        optimizer = make(
            [variable], lambda step: tf.constant(0.1), ema_decay=0.9
        )

    def update(scale):
        replica = tf.distribute.get_replica_context()
        factor = tf.cast(replica.replica_id_in_sync_group + 1, tf.float32)
        gradient = tf.reshape(tf.range(12.0) * factor, (3, 4))
        gradient = replica.all_reduce("sum", gradient)
        tf.cond(
            tf.math.is_finite(scale),
            lambda: optimizer.apply([gradient], scale),
            lambda: None,
        )

    @tf.function(autograph=False)
    def step(scale):
        strategy.run(update, args=(scale,))

    for scale in (0.5, float("inf"), 0.25):
        step(tf.constant(scale))
    def show():
        for copy in strategy.experimental_local_results(variable.value):
            print(optimizer.step.numpy(), *copy.numpy().ravel())

    show()
    with optimizer.averaged():
        show()
"""


@pytest.mark.slow
def test_replicas_update_equally_and_like_one_device():
    printed = subprocess.run(
        [sys.executable, "-c", ON_REPLICAS],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert len(printed) == 4 * len(optimizers.OPTIMIZERS)
    for i, make in enumerate(optimizers.OPTIMIZERS.values()):
        first, second, averages, others = printed[4 * i : 4 * i + 4]
        assert first == second != averages == others
        steps, *weights = first.split()
        assert steps == "2"
        # The gradients of the replicas are one and two times the range.
        start = [np.full((3, 4), 0.5, np.float32)]
        gradients = [tf.reshape(3.0 * tf.range(12.0), (3, 4))]
        expected = run_steps(make, start, gradients, (0.5, 0.25), rate=0.1)
        np.testing.assert_allclose(
            np.float32(weights), expected[0].ravel(), rtol=1e-5
        )


@pytest.mark.parametrize("make", optimizers.OPTIMIZERS.values())
def test_moving_averages_match_float64_and_do_not_change_training(make):
    rng = np.random.default_rng(3)
    start = rng.normal(size=50).astype(np.float32)
    averaged, plain = (keras.Variable(start, name="kernel") for _ in range(2))
    rate = 0.1
    both = [
        make([variable], lambda step: tf.constant(rate), ema_decay=decay)
        for variable, decay in ((averaged, 0.9), (plain, None))
    ]
    expected = start.astype(np.float64)
    for step in range(100):
        gradient = tf.constant(rng.normal(size=50).astype(np.float32))
        for optimizer in both:
            optimizer.apply([gradient])
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * plain.numpy()
    np.testing.assert_array_equal(averaged, plain)
    with both[0].averaged(), both[1].averaged():
        np.testing.assert_allclose(averaged, expected, rtol=1e-5, atol=1e-6)
        assert np.abs(averaged - plain.numpy()).max() > 0.1
    np.testing.assert_array_equal(averaged, plain)
    assert set(both[0].slots()) == {
        f"{kind}/kernel" for kind in ("m", "v", "average", "weight")
    }
    assert set(both[1].slots()) == {"m/kernel", "v/kernel"}


def test_make_optimizer_follows_the_config():
    variables = [keras.Variable(np.ones(3, np.float32), name="kernel")]

    def make(**settings):
        return optimizers.make_optimizer(
            config.TrainingConfig(output_dir="unused", **settings),
            variables,
            lambda step: tf.constant(1e-2),
        )

    made = make()
    assert type(made) is optimizers.AdamW
    assert not made.correct_bias and made.decay_rates == [0.01]
    made = make(
        optimizer="lamb", layerwise_lr_decay=0.9, weight_decay_rate=0.02
    )
    assert type(made) is optimizers.Lamb
    # By default the optimizer decides whether to correct the bias.
    assert made.correct_bias and made.decay_rates == [0.02]
    assert not make(optimizer="lamb", correct_bias=False).correct_bias
    assert make(correct_bias=True).correct_bias
    assert make(ema_decay=0.9).ema_decay == 0.9
    assert make(optimizer="muon").product_dtype == "float32"
    made = make(optimizer="muon", precision="bfloat16")
    assert made.product_dtype == "bfloat16"
    variables = [in_layer(np.ones((3, 3))), *variables]
    assert make(optimizer="muon").rate_factors == [1.0, 1.0]
    made = make(optimizer="muon", muon_learning_rate=4e-3, learning_rate=1e-3)
    assert made.rate_factors == [4.0, 1.0]
    made = make(adam_beta_1=0.8, adam_beta_2=0.98, adam_epsilon=1e-8)
    assert (made.beta_1, made.beta_2, made.epsilon) == (0.8, 0.98, 1e-8)


def test_the_schedule_at_start_in_warmup_after_it_and_at_the_end():
    schedule = optimizers.WarmupDecay(1e-4, 100, 10)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100, 200)]
    expected = [0.0, 5e-5, 9e-5, 4.5e-5, 0.0, 0.0]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.0, 2e-4, 3.66e-4, 2.13e-4, 0.6e-4, 0.6e-4]),
        ("constant", [0.0, 2e-4, 4e-4, 4e-4, 4e-4, 4e-4]),
        ("cosine", [0.0, 2e-4, 4e-4, 2.3e-4, 0.6e-4, 0.6e-4]),
        ("one_cycle", [0.0, 2e-4, 4e-4, 2.3e-4, 0.6e-4, 0.6e-4]),
    ],
)
def test_schedules_fall_to_the_final_rate(schedule, expected):
    final = 0.0 if schedule == "constant" else 0.6e-4
    schedule = optimizers.WarmupDecay(4e-4, 100, 10, schedule, final)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100, 200)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-12)


def test_cosine_and_one_cycle_differ_between_their_ends():
    cosine, one_cycle = (
        float(optimizers.WarmupDecay(1.0, 100, 20, name)(40))
        for name in ("cosine", "one_cycle")
    )
    assert one_cycle == pytest.approx(0.75)
    assert cosine == pytest.approx((1 + np.cos(np.pi / 4)) / 2)


def test_without_warmup_the_rate_starts_at_its_peak():
    assert float(optimizers.WarmupDecay(1e-4, 100)(0)) == (pytest.approx(1e-4))


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
        ((1.0, 9, 0, "cosine", 2.0), "final_learning_rate=2.0 should be betwe"),
        ((1.0, 9, 0, "constant", 0.1), "does not apply to .*=constant"),
    ],
)
def test_a_schedule_out_of_range_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        optimizers.WarmupDecay(*arguments)
