"""Losses of distillation, against NumPy; teachers that stay as they are."""

import dataclasses

import keras
import numpy as np
import planted_tasks
import pytest
import reference_bert
import tensorflow as tf
import training_steps

from bert_tf.model import dropout, models
from bert_tf.tasks import distillation, ner, pretraining, squad, swag
from tfrecords import schema

KEY = dropout.make_key(1, 0, 0)


def softmax(x):
    return np.exp(reference_bert.log_softmax(np.asarray(x, np.float64)))


def kl(taught, learned):
    """KL(taught || learned) of two distributions, over the last axis."""
    ratio = np.log(np.where(taught > 0, taught, 1) / np.maximum(learned, 1e-99))
    return np.sum(np.where(taught > 0, taught * ratio, 0.0), axis=-1)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_soft_targets_and_their_gradient_equal_the_oracle(temperature):
    rng = np.random.default_rng(1)
    logits, taught = rng.normal(0, 3, (2, 4, 5, 7)).astype(np.float32)
    weights = rng.integers(0, 2, (4, 5)).astype(np.float32)
    with tf.GradientTape() as tape:
        x = tf.constant(logits)
        tape.watch(x)
        mean = distillation.soft_targets(
            x,
            tf.constant(taught),
            tf.constant(weights),
            1e-5,
            temperature=temperature,
        )
    p, q = (softmax(z / temperature) for z in (taught, logits))
    expected = temperature**2 * np.sum(weights * kl(p, q))
    np.testing.assert_allclose(mean.total, expected, rtol=1e-5)
    assert (mean.weight, mean.epsilon) == (weights.sum(), 1e-5)
    # Hinton et al. 2015, equation 2, times the square of the temperature.
    gradient = temperature * weights[..., None] * (q - p)
    np.testing.assert_allclose(
        tape.gradient(mean.total, x), gradient, atol=1e-5
    )


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_soft_labels_are_decisions_of_their_own(temperature):
    rng = np.random.default_rng(1)
    logits, taught = rng.normal(0, 3, (2, 4, 5)).astype(np.float32)
    weights = np.array([1, 0.5, 0, 1], np.float32)
    mean = distillation.soft_labels(
        *map(tf.constant, (logits, taught, weights)), temperature=temperature
    )
    p, q = (1 / (1 + np.exp(-z / temperature)) for z in (taught, logits))
    each = kl(np.stack([p, 1 - p], -1), np.stack([q, 1 - q], -1)).mean(axis=1)
    np.testing.assert_allclose(
        mean.value(),
        temperature**2 * np.sum(weights * each) / weights.sum(),
        rtol=1e-5,
    )


def relation_oracle(learned, taught, num_heads, visible, weights):
    """MiniLMv2, equations 4 to 6, one token at a time."""
    total = 0.0
    for own, theirs in zip(learned, taught, strict=True):
        for row, token in zip(*np.nonzero(weights), strict=True):
            seen = np.nonzero(visible[row, token])[0]
            of_models = []
            for x in (theirs, own):
                parts = np.split(x[row].astype(np.float64), num_heads, -1)
                of_models.append(
                    [
                        softmax(p[seen] @ p[token] / np.sqrt(p.shape[-1]))
                        for p in parts
                    ]
                )
            total += np.mean(kl(*map(np.array, of_models)))
    return total / np.sum(weights)


@pytest.mark.parametrize("is_packed", [False, True])
def test_relations_equal_the_oracle(is_packed):
    rng = np.random.default_rng(2)
    learned = rng.normal(0, 2, (3, 2, 5, 8)).astype(np.float32)
    taught = rng.normal(0, 2, (3, 2, 5, 12)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    visible = np.repeat(mask[:, None] > 0, 5, axis=1)
    if is_packed:
        numbers = np.array([[1, 1, 2, 2, 2], [1, 2, 2, 0, 0]])
        visible = numbers[:, :, None] == numbers[:, None]
    weights = mask.astype(np.float32)
    mean = distillation.relations(
        (list(map(tf.constant, learned)), list(map(tf.constant, taught))),
        tf.constant(visible if is_packed else mask),
        tf.constant(weights),
        num_heads=4,
    )
    expected = relation_oracle(learned, taught, 4, visible, weights)
    np.testing.assert_allclose(mean.value(), expected, rtol=1e-4)
    same = distillation.relations(
        ([taught[0]], [taught[0]]),
        tf.constant(mask),
        tf.constant(weights),
        num_heads=4,
    )
    np.testing.assert_allclose(same.value(), 0.0, atol=1e-6)


@pytest.fixture
def batch(make_batch, tiny_config):
    return training_steps.as_tensors(make_batch(tiny_config))


def build(kind, config, seed, **changes):
    keras.utils.set_random_seed(seed)
    config = dataclasses.replace(
        config,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
        **changes,
    )
    return models.for_task(kind, config, 3)


def distil(task, teacher, **changes):
    settings = {
        "losses": ("soft_targets", "attention_relations", "hidden_relations"),
        "weight": 0.25,
        "temperature": 2.0,
        "relation_heads": 2,
        "relation_layer": 1,
    }
    return distillation.DistilledTask(task, teacher, **(settings | changes))


def values(means):
    return {name: float(mean.value()) for name, mean in means.items()}


def test_rows_that_fill_a_batch_have_no_relations(tiny_config, batch):
    batch["is_real_example"] = tf.constant([1.0, 0.0, 1.0, 1.0])
    teacher = build("pretraining", tiny_config, 1)
    task = distil(pretraining.TASK, teacher, losses=("hidden_relations",))
    weight = task.loss_weights(batch)["hidden_relations_loss"]
    assert float(weight) == batch["input_mask"].numpy()[[0, 2, 3]].sum()


def test_losses_are_weighted_and_named(tiny_config, batch):
    student = build("pretraining", tiny_config, 1, num_hidden_layers=1)
    teacher = build("pretraining", tiny_config, 2, hidden_size=24)
    task = distil(pretraining.TASK, teacher)
    with tf.GradientTape() as tape:
        outputs = task.outputs(student, batch, KEY)
        means = task.losses(outputs, batch)
        total = tf.add_n([mean.value() for mean in means.values()])
    found = values(means)
    weights = {name: mean.weight for name, mean in means.items()}
    assert weights == task.loss_weights(batch)

    own, taught = student(batch), teacher(batch)
    for name, value in values(pretraining.TASK.losses(own, batch)).items():
        assert found.pop(name) == pytest.approx(0.75 * value, rel=1e-5)
    for name, target in pretraining.TASK.targets(batch).items():
        expected = distillation.soft_targets(
            own[target.logits],
            taught[target.logits],
            target.weights,
            target.epsilon,
            temperature=2.0,
        )
        value = found.pop(f"{name}_soft_targets_loss")
        assert value == pytest.approx(0.25 * float(expected.value()), rel=1e-5)

    # The student's only layer learns from the teacher's layer 1.
    mask = batch["input_mask"].numpy()
    visible = np.repeat(mask[:, None] > 0, mask.shape[1], axis=1)
    states = [
        (student.encoder(batch), student.encoder.encoder_layers[0], 0),
        (teacher.encoder(batch), teacher.encoder.encoder_layers[1], 1),
    ]
    vectors = [
        [
            hidden.hidden_states[i].numpy() @ part.kernel.numpy()
            + part.bias.numpy()
            for a in [layer.attention]
            for part in (a.query, a.key, a.value)
        ]
        for hidden, layer, i in states
    ]
    expected = relation_oracle(*vectors, 2, visible, mask)
    value = found.pop("attention_relations_loss")
    assert value == pytest.approx(0.25 * expected, rel=1e-4)
    last = [[hidden.sequence_output.numpy()] for hidden, *_ in states]
    expected = relation_oracle(*last, 2, visible, mask)
    value = found.pop("hidden_relations_loss")
    assert value == pytest.approx(0.25 * expected, rel=1e-4)
    assert not found

    # No gradient reaches the teacher, and all weights of the student have one.
    gradients = tape.gradient(
        total, [w.value for w in (*student.weights, *teacher.weights)]
    )
    count = len(student.weights)
    assert all(gradient is not None for gradient in gradients[:count])
    assert gradients[count:] == [None] * len(teacher.weights)


def test_the_gradient_of_relations_reaches_the_student_as_differences_do(
    tiny_config, batch
):
    student = build("pretraining", tiny_config, 1)
    teacher = build("pretraining", tiny_config, 2)
    task = distil(
        pretraining.TASK, teacher, losses=("attention_relations",), weight=0.5
    )
    kernel = student.encoder.encoder_layers[1].attention.query.kernel.value

    def loss():
        outputs = task.outputs(student, batch, KEY)
        return task.losses(outputs, batch)["attention_relations_loss"].value()

    with tf.GradientTape() as tape:
        value = loss()
    gradient = tape.gradient(value, kernel).numpy()
    direction = gradient / np.linalg.norm(gradient)
    start, ends = kernel.numpy(), []
    for step in (1e-2, -1e-2):
        kernel.assign(start + step * direction)
        ends.append(float(loss()))
    slope = (ends[0] - ends[1]) / 2e-2
    assert slope == pytest.approx(np.linalg.norm(gradient), rel=1e-2)


@pytest.mark.parametrize(
    "kind", ["classification", "regression", "spans", "tagging"]
)
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(
    tiny_config, batch, kind
):
    batch |= {
        "label_ids": tf.zeros(4, tf.int32),
        "label_scores": tf.zeros(4),
        "start_positions": tf.zeros(4, tf.int32),
        "end_positions": tf.ones(4, tf.int32),
        "tag_ids": tf.zeros((4, 12), tf.int32),
        "tag_weights": tf.ones((4, 12)),
    }
    tasks = {
        "classification": planted_tasks.classification("x", 3),
        "regression": planted_tasks.regression("y"),
        "spans": squad.Squad(),
        "tagging": ner.Ner(labels=["O", "B-X", "I-X"]),
    }
    teacher, other = (build(kind, tiny_config, seed) for seed in (1, 2))
    task = distil(tasks[kind], teacher, weight=1.0)
    for student, is_same in ((teacher, True), (other, False)):
        means = task.losses(task.outputs(student, batch, KEY), batch)
        assert set(means) == set(task.loss_weights(batch))
        # With weight 1, labels are not used.
        assert not set(means) & set(tasks[kind].loss_weights(batch))
        for name, value in values(means).items():
            assert (abs(value) < 1e-5) == is_same, name
    assert task.accuracies(teacher(batch), batch).keys() == (
        tasks[kind].accuracies(teacher(batch), batch).keys()
    )


def test_soft_targets_of_choices_need_no_mask(tiny_config, batch):
    """The mask of a causal model is for rows of tokens, not for choices."""
    batch = {  # [B, 3, S], each row with the next ones as its other choices.
        name: tf.stack([tf.roll(batch[name], i, 0) for i in range(3)], axis=1)
        for name in schema.CHOICE_INPUTS
    }
    batch["label_ids"] = tf.zeros(4, tf.int32)
    batch["is_real_example"] = tf.ones(4)
    student, teacher = (
        build("multiple_choice", tiny_config, seed, is_causal=True)
        for seed in (1, 2)
    )
    task = distil(swag.Swag(), teacher, losses=("soft_targets",), weight=1.0)
    (value,) = values(
        task.losses(task.outputs(student, batch, KEY), batch)
    ).values()
    assert value > 0


def test_soft_targets_of_spans_are_a_mean_over_start_and_end(
    tiny_config, batch
):
    batch |= {
        "start_positions": tf.zeros(4, tf.int32),
        "end_positions": tf.ones(4, tf.int32),
    }
    student, teacher = (build("spans", tiny_config, seed) for seed in (1, 2))
    task = distil(squad.Squad(), teacher, losses=("soft_targets",), weight=1.0)
    found = values(task.losses(task.outputs(student, batch, KEY), batch))
    for edge in ("start", "end"):
        expected = distillation.soft_targets(
            student(batch)[f"{edge}_logits"],
            teacher(batch)[f"{edge}_logits"],
            batch["is_real_example"],
            temperature=2.0,
        )
        assert found.pop(f"{edge}_soft_targets_loss") == pytest.approx(
            float(expected.value()) / 2, rel=1e-5
        )
    assert not found


@pytest.mark.slow
def test_other_ways_to_compute_a_step_give_the_same_losses(tiny_config, batch):
    config = dataclasses.replace(tiny_config, num_hidden_layers=1)
    losses = ("soft_targets", "attention_relations")
    teacher = build("pretraining", tiny_config, 2)
    task = distil(pretraining.TASK, teacher, losses=losses)

    def train(**settings):
        *_, step = training_steps.make(config, teach=lambda _: task, **settings)
        return [step(batch), step(batch)]

    expected = train()
    for found in (train(remat=True), train(jit_compile=True)):
        for ours, theirs in zip(found, expected, strict=True):
            for name in task.loss_weights(batch):
                np.testing.assert_allclose(
                    ours[name], theirs[name], rtol=1e-4, err_msg=name
                )
