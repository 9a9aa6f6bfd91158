import dataclasses
import threading
import time

import numpy as np
import planted_tasks as tasks
import pytest
import tensorflow as tf
from training_steps import as_tensors, make

from bert_tf.checkpoint import model_folders
from bert_tf.model import dropout
from bert_tf.tasks import pretraining
from bert_tf.training import train_step


def without_dropout(config):
    return dataclasses.replace(
        config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def repeated(batch):
    """Returns an endless iterator over one batch."""
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


@pytest.fixture(scope="module")
def tiny_config(tiny_config):
    """One layer, to trace in half the time."""
    return dataclasses.replace(tiny_config, num_hidden_layers=1)


@pytest.fixture
def batch(tiny_config, make_batch):
    return as_tensors(make_batch(tiny_config))


@pytest.mark.usefixtures("eagerly")
def test_a_step_clips_gradients_by_their_global_norm(tiny_config, make_batch):
    config = without_dropout(tiny_config)
    model, optimizer, _, step = make(config, clip_norm=0.5)
    batch = as_tensors(make_batch(config))
    with tf.GradientTape() as tape:
        outputs = model(batch, training=False)
        losses = pretraining.TASK.losses(outputs, batch)
        total = tf.add_n([mean.value() for mean in losses.values()])
    expected = tape.gradient(total, [w.value for w in model.trainable_weights])
    expected = [tf.convert_to_tensor(g).numpy() for g in expected]
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in expected))
    values = step(batch)
    np.testing.assert_allclose(values["loss"], [total], rtol=1e-5)
    np.testing.assert_allclose(values["gradient_norm"], [norm], rtol=1e-5)
    # The first moment after one update is a tenth of the clipped gradient.
    for moment, gradient in zip(optimizer.first_moments, expected, strict=True):
        np.testing.assert_allclose(
            moment, 0.1 * gradient * 0.5 / norm, atol=1e-7
        )


@pytest.mark.parametrize("has_dropout, k", [(False, 4), (True, 2)])
@pytest.mark.usefixtures("eagerly")
def test_micro_batches_do_not_change_the_update(
    tiny_config, make_batch, has_dropout, k
):
    config = tiny_config if has_dropout else without_dropout(tiny_config)
    batch = as_tensors(make_batch(config, rows=8))
    results = []
    for parts in (1, k):
        _, optimizer, _, step = make(config, gradient_accumulation_steps=parts)
        values = step(batch)
        results.append((values, optimizer.first_moments))
    (expected, expected_moments), (values, moments) = results
    assert list(expected) == list(values)
    for name in expected:
        np.testing.assert_allclose(
            expected[name], values[name], rtol=1e-5, err_msg=name
        )
    for x, y in zip(expected_moments, moments, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-7)


@pytest.mark.parametrize(("k", "is_graph"), [(1, False), (2, True)])
def test_weights_without_a_loss_stay_as_they_are(
    tiny_config, batch, request, k, is_graph
):
    """As in optimization.py; that optimizers do so is in tests/contracts."""
    if not is_graph:
        request.getfixturevalue("eagerly")
    del batch["next_sentence_labels"]
    model, _, _, step = make(
        tiny_config,
        task=pretraining.PretrainingTask("none"),
        gradient_accumulation_steps=k,
    )
    weights = model_folders.weight_names(model)
    before = {name: weight.numpy() for name, weight in weights.items()}
    step(batch)
    same = {n for n, w in weights.items() if np.array_equal(before[n], w)}
    assert same == {
        f"{layer}/{part}"
        for layer in ("encoder/pooler", "next_sentence/dense")
        for part in ("kernel", "bias")
    }


def test_loss_weights_are_the_weights_of_the_losses(tiny_config, batch):
    model, *_ = make(tiny_config)
    cases = (
        (pretraining.TASK, model(batch)),
        (tasks.classification("x", 2), {"logits": tf.zeros((4, 2))}),
        (tasks.regression("y"), {"predictions": tf.zeros(4)}),
    )
    batch |= {
        "label_ids": tf.zeros(4, tf.int32),
        "label_scores": tf.zeros(4),
        "is_real_example": tf.constant([1.0, 1.0, 1.0, 0.0]),
    }
    for task, outputs in cases:
        weights = {n: m.weight for n, m in task.losses(outputs, batch).items()}
        assert weights == task.loss_weights(batch), task.name


@pytest.mark.usefixtures("eagerly")
def test_an_overflow_of_float16_halves_the_scale_and_is_counted(
    tiny_config, batch
):
    _, optimizer, scale, step = make(tiny_config, precision="float16")
    scale.value.assign(2.0**24)  # Gradients of this size overflow.
    values = step(batch)
    assert np.isinf(values["gradient_norm"]) | np.isnan(values["gradient_norm"])
    assert np.isfinite(values["loss"])
    assert values["loss_scale"] == 2.0**24
    assert float(scale.value) == 2.0**23
    assert int(scale.skipped) == 1
    while not np.isfinite(step(batch)["gradient_norm"]):
        pass
    assert int(scale.good_steps) == 1
    assert int(optimizer.step) == int(scale.skipped) + 1


@pytest.mark.usefixtures("eagerly")
def test_float16_and_bfloat16_gradients_match_float32(tiny_config, batch):
    norms = [
        make(tiny_config, precision=precision)[3](batch)
        for precision in ("float32", "float16", "bfloat16")
    ]
    norms = [float(values["gradient_norm"][0]) for values in norms]
    np.testing.assert_allclose(norms[1], norms[0], rtol=5e-3)
    np.testing.assert_allclose(norms[2], norms[0], rtol=3e-2)


@pytest.mark.slow
def test_xla_does_not_change_updates(tiny_config, make_batch):
    batch = make_batch(tiny_config, rows=8)
    results = []
    for jit_compile in (False, True):
        model, _, _, step = make(
            tiny_config, gradient_accumulation_steps=2, jit_compile=jit_compile
        )
        values = step(repeated(batch), 2)
        results.append((values, [w.numpy() for w in model.trainable_weights]))
    (plain, weights), (compiled, compiled_weights) = results
    for name in plain:
        np.testing.assert_allclose(
            plain[name], compiled[name], rtol=1e-4, err_msg=name
        )
    for x, y in zip(weights, compiled_weights, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-4)


def test_a_call_of_several_steps_ends_after_the_step_that_is_to_stop(
    tiny_config, make_batch
):
    """The wish is made by another thread, during the call."""
    step = make(tiny_config)[3]
    batch = make_batch(tiny_config)
    values = step(repeated(batch), 3)  # Traces.
    assert values["loss"].shape == (3,)
    batches = repeated(batch)
    threading.Timer(0.5, lambda: step.stop.assign(1.0)).start()
    begin = time.monotonic()
    values = step(batches, 10**6)
    assert 0 < len(values["loss"]) < 10**6
    assert values["stop"].numpy().tolist()[-2:] == [0.0, 1.0]
    assert int(step.optimizer.step) == 3 + len(values["loss"])
    assert time.monotonic() - begin < 60
    assert len(step(batches, 10)["loss"]) == 1  # Always at least one.


def test_a_step_makes_one_dropout_key(tiny_config, batch, monkeypatch):
    firsts = []
    real = dropout.make_key

    def make_key(seed, step, first):
        firsts.append(first)
        return real(seed, step, first)

    monkeypatch.setattr(dropout, "make_key", make_key)
    make(tiny_config)[3](batch)
    assert len(firsts) == 1


@pytest.mark.parametrize("name", dropout.GENERATORS)
@pytest.mark.parametrize("remat", [False, True])
def test_all_masks_are_from_the_generator_of_the_config(
    tiny_config, batch, monkeypatch, name, remat
):
    drawn = []
    real = tf.raw_ops.StatelessRandomUniformFullIntV2

    def draw(**arguments):
        drawn.append(arguments["alg"])
        return real(**arguments)

    monkeypatch.setattr(tf.raw_ops, "StatelessRandomUniformFullIntV2", draw)
    make(tiny_config, dropout=name, remat=remat)[3](batch)
    # One in the embeddings; three in the layer, drawn again with remat.
    assert drawn == [dropout.GENERATORS[name]] * (7 if remat else 4)


def test_the_loss_scale_doubles_after_good_steps_and_halves_on_overflow(
    monkeypatch,
):
    monkeypatch.setattr(train_step, "_GROWTH_STEPS", 3)
    scale = train_step.LossScale()
    scale.value.assign(8.0)
    values = []
    for is_finite in (1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0):
        scale.update(tf.constant(bool(is_finite)))
        values.append(float(scale.value))
    # Never below one.
    assert values == [8, 8, 16, 16, 8, 8, 8, 16, 8, 4, 2, 1, 1]
    state = {name: float(x) for name, x in scale.state().items()}
    assert state == {
        "loss_scale/value": 1,
        "loss_scale/good_steps": 0,
        "loss_scale/skipped": 6,
    }
