"""What every optimizer does, with every setting: updates, restarts, replicas.

A new one is an entry of `optimizers.OPTIMIZERS` and a branch of `numpy_step`.
"""

import dataclasses
import json
import re
import subprocess
import sys

import keras
import numpy as np
import oracle
import pytest
import tensorflow as tf
import training_steps
from random_weights import randomised

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.training import checkpoints, optimizers
from bert_tf.training.config import OptimizerOptions

RATE = 1e-2
ALL = {
    "correct_bias": True,
    "ema_decay": 0.5,
    "adam_beta_2": 0.9999,
}
SETTINGS = {
    "plain": {},
    "corrected": {"correct_bias": True},
    "averaged": {"ema_decay": 0.9},
    "all": ALL,
}
each_setting = pytest.mark.parametrize(
    "settings",
    [{"correct_bias": False} | given for given in SETTINGS.values()],
    ids=list(SETTINGS),
)
pytestmark = pytest.mark.parametrize("name", optimizers.OPTIMIZERS)


def config_of(name, settings):
    return OptimizerOptions(output_dir="unused", optimizer=name, **settings)


def make(name, variables, settings, rate=RATE):
    """Returns an optimizer, as a run makes it."""
    return optimizers.make_optimizer(
        config_of(name, settings), variables, lambda step: tf.constant(rate)
    )


def gradients_of(variables, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=v.shape).astype(np.float32) for v in variables]


def apply(optimizer, gradients, factor=None):
    optimizer.apply(
        [g if g is None else tf.constant(g) for g in gradients],
        factor and tf.constant(factor),
    )


def state(optimizer):
    """Returns everything that decides the next update, by name."""
    weights = dict(
        zip(optimizer.paths, optimizer.variables_to_train, strict=True)
    )
    variables = weights | optimizer.slots() | {"step": optimizer.step}
    return {path: variable.numpy() for path, variable in variables.items()}


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value, err_msg=path)


@pytest.fixture
def model(tiny_config):
    return randomised(bert_tf.BertPretrainer(tiny_config))


def numpy_step(path, weight, slots, gradient, step, config):
    """Returns the weight after a step; updates its slots."""
    decay, is_in_layer = 0.01, "/layer_" in path
    if is_in_layer and path.endswith("kernel") and config.optimizer == "muon":
        weight, slots["m"] = oracle.muon_step(
            weight, gradient, slots.get("m", 0.0), RATE, decay
        )
        return weight
    update = oracle.adamw_step
    if path.endswith(("bias", "gamma", "beta")):
        decay = 0.0
    elif config.optimizer == "lamb":
        update = oracle.lamb_step
    weight, slots["m"], slots["v"] = update(
        weight,
        gradient,
        slots.get("m", 0.0),
        slots.get("v", 0.0),
        RATE,
        decay,
        step,
        config.correct_bias,
        betas=(0.9, config.adam_beta_2),
    )
    return weight


def assert_close(found, expected, rtol, atol, loose=(), factor=1.0):
    """Compares values by path; those of `loose` with a higher `atol`."""
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        bound = atol * factor if path in loose else atol
        np.testing.assert_allclose(
            found[path], value, rtol=max(rtol, bound), atol=bound, err_msg=path
        )


@each_setting
def test_updates_of_all_weights_equal_numpy(name, settings, model):
    config = config_of(name, settings)
    variables = model_folders.weight_names(model)
    # LAMB's trust ratio is 1 if weight or update is 0.
    variables["encoder/embeddings/type_embeddings"].assign(np.zeros((2, 16)))
    optimizer = make(name, list(variables.values()), settings)
    expected = {p: w.numpy().astype(float) for p, w in variables.items()}
    averages, slots = expected.copy(), {path: {} for path in variables}
    last = 100 if settings == ALL else 10
    for step in range(1, last + 1):
        gradients = gradients_of(variables.values(), step)
        gradients = dict(zip(variables, gradients, strict=True))
        gradients["encoder/embeddings/position_embeddings"][:] = 0.0
        factor = 0.3 if step % 2 else None
        apply(optimizer, gradients.values(), factor)
        ema_decay = min(config.ema_decay or 0.0, step / (9 + step))
        for path, gradient in gradients.items():
            gradient = gradient.astype(float) * (factor or 1.0)
            weight = expected[path] = numpy_step(
                path,
                expected[path],
                slots[path],
                gradient,
                step,
                config,
            )
            averages[path] += (1 - ema_decay) * (weight - averages[path])
        if step not in (1, last):
            continue
        # Newton-Schulz iterations enlarge rounding errors.
        muons = [path for path in variables if "v" not in slots[path]]
        loose = {"loose": muons, "factor": 100.0}
        assert_close(variables, expected, rtol=1e-6, atol=1e-6, **loose)
        with optimizer.averaged():
            assert_close(variables, averages, rtol=1e-6, atol=1e-6, **loose)
    assert int(optimizer.step.numpy()) == last
    assert bool(muons) == (name == "muon")
    # TensorFlow has 1 - beta_2 in float32: the optimizer makes v exact with a
    # factor on the gradients, which m has, too.
    beta_2 = config.adam_beta_2
    scales = {"m": ((1 - beta_2) / (1 - float(np.float32(beta_2)))) ** 0.5}
    expected_slots = {
        f"{kind}/{variables[path].path}": value * scales.get(kind, 1.0)
        for path in variables
        for kind, value in slots[path].items()
    }
    found = optimizer.slots()
    if config.ema_decay:
        for weight in variables.values():
            assert found.pop(f"weight/{weight.path}") is weight.value
            del found[f"average/{weight.path}"]
    muons = [f"m/{variables[path].path}" for path in muons]
    loose = {"loose": muons, "factor": 10.0}
    assert_close(found, expected_slots, rtol=1e-5, atol=1e-7, **loose)


def test_averages_do_not_change_training(name, model):
    variables = model.trainable_weights
    start = model.get_weights()
    found = []
    for ema_decay in (None, 0.9):
        model.set_weights(start)
        optimizer = make(name, variables, {"ema_decay": ema_decay})
        for step in range(3):
            apply(optimizer, gradients_of(variables, step))
        before = state(optimizer)
        with optimizer.averaged():
            averages = state(optimizer)
        assert_same_bits(state(optimizer), before)
        found.append({p: before[p] for p in optimizer.paths})
    assert_same_bits(*found)
    assert all((averages[p] != before[p]).any() for p in optimizer.paths)


@pytest.mark.parametrize("settings", [{}, ALL], ids=["plain", "all"])
def test_a_restored_state_gives_the_same_next_updates(
    name, settings, model, tiny_config, tmp_path
):
    other = bert_tf.BertPretrainer(tiny_config)
    runs = []
    for each in (model, other):
        optimizer = make(name, each.trainable_weights, settings)
        saved = checkpoints.RunCheckpoints(str(tmp_path), each, optimizer)
        runs.append((saved, optimizer))
    (saved, optimizer), (restored, restarted) = runs

    def update(optimizer):
        variables = optimizer.variables_to_train
        seed = int(optimizer.step.numpy())
        apply(optimizer, gradients_of(variables, seed))

    def states():
        return [
            {path.replace(each.name, ""): x for path, x in state(own).items()}
            for each, own in ((model, optimizer), (other, restarted))
        ]

    for _ in range(3):
        update(optimizer)
    saved.save(3)
    assert restored.restore_latest() == 3
    assert_same_bits(*states())
    for _ in range(2):
        update(optimizer)
        update(restarted)
    assert_same_bits(*states())
    with optimizer.averaged(), restarted.averaged():
        assert model_folders.digest(other) == model_folders.digest(model)


def test_a_weight_without_gradient_stays(name, model):
    variables = model.trainable_weights
    optimizer = make(name, variables, ALL)
    gradients = gradients_of(variables, 1)
    apply(optimizer, gradients)
    before = state(optimizer)
    absent = {n for n, v in enumerate(variables) if "layer_0" in v.path}
    gradients = [None if n in absent else g for n, g in enumerate(gradients)]
    apply(optimizer, gradients)
    after = state(optimizer)
    same = {p for p in before if np.array_equal(before[p], after[p])}
    assert same == {  # Averages still move towards the weights.
        p for p in before if "layer_0" in p and not p.startswith("average/")
    }
    with pytest.raises(ValueError, match="0 gradients in a list of 46, for 46"):
        apply(optimizer, [None] * len(variables))
    with pytest.raises(ValueError, match="1 gradients in a list of 1, for 46"):
        apply(optimizer, gradients_of(variables[:1], 1))
    assert_same_bits(state(optimizer), after)


@pytest.mark.usefixtures("eagerly")
def test_a_gradient_that_is_not_finite_skips_the_step(
    name, tiny_config, make_batch
):
    config = dataclasses.replace(tiny_config, num_hidden_layers=1)
    batch = make_batch(config)
    batch["masked_lm_weights"][0, 0] = np.inf
    _, optimizer, _, step = training_steps.make(config, optimizer=name, **ALL)
    before = state(optimizer)
    values = step(training_steps.as_tensors(batch))
    assert not np.isfinite(values["gradient_norm"]).any()
    # The next batch follows.
    assert_same_bits(state(optimizer), before | {"step": 1})


def weights_after(name, scales, **kwargs):
    """Returns the weights after updates in a tf.function, as in TrainStep."""
    rng = np.random.default_rng(3)
    values = [rng.normal(size=s).astype("float32") for s in ((7, 300), (40,))]
    with keras.name_scope("layer_0"):
        variables = [keras.Variable(x, name="kernel") for x in values]
    gradients = [tf.constant(2.0 * value + 1.0) for value in values]
    optimizer = make(name, variables, ALL)

    @tf.function(autograph=False, **kwargs)
    def step(scale):
        tf.cond(
            tf.math.is_finite(scale),
            lambda: optimizer.apply(gradients, scale),
            optimizer.skip,
        )

    for scale in scales:
        step(tf.constant(scale))
    assert int(optimizer.step.numpy()) == len(scales)
    return [variable.numpy() for variable in variables]


def test_updates_can_be_skipped_repeated_and_compiled(name):
    scales = 0.5, np.inf, 0.25
    weights = weights_after(name, scales)
    for a, b in zip(weights, weights_after(name, scales), strict=True):
        np.testing.assert_array_equal(a, b)
    compiled = weights_after(name, scales, jit_compile=True)
    for a, b in zip(weights, compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


ON_REPLICAS = """
import json, sys
import keras
import numpy as np
import tensorflow as tf
from bert_tf.training import config, optimizers, strategies

settings = json.loads(sys.argv[1])
mirrored = strategies.make_strategy("mirrored", virtual_devices=2)
one = strategies.make_strategy("one_device")
start = np.full((3, 4), 0.5, "float32")
gradient = np.arange(12, dtype="float32").reshape(3, 4)


def train(name, strategy, shares):
    with strategy.scope():
        with keras.name_scope("layer_0"):
            variables = [keras.Variable(start, name=n) for n in ("kernel", "a")]
        optimizer = optimizers.make_optimizer(
            config.OptimizerOptions(output_dir="x", optimizer=name, **settings),
            variables,
            lambda step: tf.constant(0.1),
        )

    def update(scale):
        replica = tf.distribute.get_replica_context()
        share = tf.gather(shares, replica.replica_id_in_sync_group)
        gradients = replica.all_reduce("sum", [gradient * share] * 2)
        tf.cond(
            tf.math.is_finite(scale),
            lambda: optimizer.apply(gradients, scale),
            optimizer.skip,
        )

    @tf.function(autograph=False)
    def step(scale):
        strategy.run(update, args=(scale,))

    for scale in (0.5, float("inf"), 0.25):
        step(tf.constant(scale))

    def copies():
        all_copies = [
            strategy.experimental_local_results(variable.value)
            for variable in variables
        ]
        return [
            [x.numpy().tolist() for x in weights]
            for weights in zip(*all_copies, strict=True)
        ]

    found = copies()
    with optimizer.averaged():
        return [*zip(found, copies(), strict=True)]


print(json.dumps({
    name: train(name, mirrored, [1.0, 2.0]) + train(name, one, [3.0])
    for name in optimizers.OPTIMIZERS
}))
"""


@pytest.fixture(scope="module")
def on_replicas():
    """Weights and averages by optimizer: two replicas', and one device's."""
    done = subprocess.run(
        [sys.executable, "-c", ON_REPLICAS, json.dumps(ALL)],
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_two_replicas_have_the_weights_of_one(name, on_replicas):
    """To the bit, since the sums of these gradients are exact."""
    first, second, one = on_replicas[name]
    weights, averages = one
    assert weights != averages
    assert first == second == one


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"adam_beta_2": -0.1}, "--adam_beta_2=-0.1 should be at least 0"),
        ({"adam_beta_2": 1.0}, "--adam_beta_2=1.0 should be at most 0.99999"),
        ({"ema_decay": 0.0}, "--ema_decay=0.0 should be above 0"),
        ({"ema_decay": 1.0}, "--ema_decay=1.0 should be at most 0.999999"),
        ({"learning_rate": -1.0}, "--learning_rate=-1.0 should be at least 0"),
        ({"clip_norm": 0.0}, "--clip_norm=0.0 should be above 0"),
        ({"clip_norm": np.nan}, "--clip_norm=nan should be a finite"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_in_one_line(name, settings, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        config_of(name, settings)
    assert "\n" not in str(raised.value)
