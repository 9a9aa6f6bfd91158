"""Packed rows give the same results as one example per row."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import training_steps
from random_weights import randomised

import bert_tf
from bert_tf.model import dropout
from bert_tf.tasks import distillation, pretraining
from bert_tf.training import loop, strategies
from bert_tf.training.config import TrainingConfig
from tfrecords.pretraining import packing

SIZES = {
    "max_seq_length": 36,
    "max_predictions_per_row": 9,
    "max_examples_per_row": 3,
}


@pytest.fixture
def config(tiny_config):
    """No dropout, since its masks depend on the position in a row."""
    changes = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "num_hidden_layers": 1,
    }
    return type(tiny_config).from_dict(tiny_config.to_dict() | changes)


@pytest.fixture
def both(tiny_config, make_batch):
    """The same examples in a batch with one per row and in a packed batch."""
    examples = make_batch(tiny_config, rows=20, tokens=24)
    lengths = examples["input_mask"].sum(axis=1)
    assignment = packing.assign(lengths, 36, 3)
    unpacked = {name: x[assignment.order] for name, x in examples.items()}
    packed = packing.join(unpacked, assignment.counts, SIZES)
    assert len(assignment.counts) < 12
    assert {2, 3} <= set(assignment.counts)
    packed["is_real_example"] = np.ones(len(assignment.counts), np.float32)
    return [
        {name: tf.constant(x) for name, x in batch.items()}
        for batch in (unpacked, packed)
    ]


def of_examples(outputs, batch):
    """Returns masked-LM and next-sentence logits in the order of examples."""
    masked = batch["masked_lm_weights"] > 0
    pairs = outputs["next_sentence_logits"]
    if "next_sentence_weights" in batch:
        pairs = pairs[batch["next_sentence_weights"] > 0]
    return outputs["masked_lm_logits"][masked], pairs


def results(model, batch, key):
    """Returns logits, losses and gradients; trains if there is a key."""
    variables = [weight.value for weight in model.trainable_weights]

    @tf.function(autograph=False)
    def run(batch):
        with tf.GradientTape() as tape:
            outputs = model(batch, training=key is not None, dropout_key=key)
            means = pretraining.TASK.losses(outputs, batch)
            losses = {name: mean.value() for name, mean in means.items()}
            total = tf.add_n(list(losses.values()))
        gradients = tape.gradient(total, variables)
        return outputs, losses, [tf.convert_to_tensor(g) for g in gradients]

    outputs, losses, gradients = run(batch)
    return of_examples(outputs, batch), losses, gradients


KEY = dropout.make_key(7, 3, 0)


@pytest.mark.parametrize(
    ("key", "remat"),
    [(None, False), (KEY, False), (KEY, True)],
    ids=["plain", "training", "remat"],
)
def test_packing_does_not_change_logits_losses_or_gradients(
    config, both, key, remat
):
    model = randomised(bert_tf.BertPretrainer(config))
    model.encoder.remat = remat
    unpacked, packed = (results(model, batch, key) for batch in both)
    for x, y in zip(packed[0], unpacked[0], strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    for name, loss in unpacked[1].items():
        np.testing.assert_allclose(packed[1][name], loss, rtol=1e-5)
    largest = max(np.abs(gradient).max() for gradient in unpacked[2])
    for x, y in zip(packed[2], unpacked[2], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * largest)


def test_packing_does_not_change_what_is_learned_from_a_teacher(config, both):
    student = randomised(bert_tf.BertPretrainer(config))
    teacher = randomised(bert_tf.BertPretrainer(config), seed=5)
    task = distillation.DistilledTask(
        pretraining.TASK,
        teacher,
        losses=("soft_targets", "attention_relations", "hidden_relations"),
        weight=0.5,
        temperature=2.0,
        relation_heads=4,
        relation_layer=0,
    )
    unpacked, packed = (
        task.losses(task.outputs(student, batch, KEY), batch) for batch in both
    )
    assert len(unpacked) == 6
    for name, mean in unpacked.items():
        np.testing.assert_allclose(
            packed[name].value(), mean.value(), rtol=1e-5, err_msg=name
        )


def test_metrics_count_examples_and_not_rows(config, both):
    model = randomised(bert_tf.BertPretrainer(config))
    unpacked, packed = (
        pretraining.TASK.accuracies(model(batch), batch) for batch in both
    )
    assert packed["next_sentence_accuracy"].weight == 20
    for name, mean in unpacked.items():
        np.testing.assert_array_equal(packed[name].total, mean.total)
        np.testing.assert_array_equal(packed[name].weight, mean.weight)
    frequencies = [
        pretraining.unigram_accuracy([batch], config.vocab_size)
        for batch in both
    ]
    assert frequencies[0] == frequencies[1]


def test_padding_rows_do_not_change_losses_or_accuracies(config, both):
    model = randomised(bert_tf.BertPretrainer(config))
    _, packed = both
    padded = {n: tf.concat([x, tf.zeros_like(x)], 0) for n, x in packed.items()}
    for means in (pretraining.TASK.losses, pretraining.TASK.accuracies):
        expected, actual = (means(model(b), b) for b in (packed, padded))
        for name in expected:
            np.testing.assert_allclose(
                actual[name].value(), expected[name].value(), rtol=1e-5
            )


def test_packing_does_not_change_logits_in_bfloat16(config, both):
    keras.utils.set_random_seed(1)
    model = bert_tf.BertPretrainer(config, dtype="mixed_bfloat16")
    unpacked, packed = (of_examples(model(batch), batch) for batch in both)
    for x, y in zip(packed, unpacked, strict=True):
        np.testing.assert_allclose(x, y, atol=0.02)


def first_rows(batch, count):
    return {name: x[:count] for name, x in batch.items()}


def test_packing_does_not_change_a_training_step(config, both):
    """Even accumulated: micro-batches are weighted by number of examples."""
    unpacked, packed = both
    rows = len(packed["is_real_example"]) // 2 * 2
    packed = first_rows(packed, rows)
    examples = int(tf.reduce_sum(packed["next_sentence_weights"]))
    unpacked = first_rows(unpacked, examples)
    results = []
    for batch, parts in ((unpacked, 1), (packed, 2)):
        _, optimizer, _, step = training_steps.make(
            config, gradient_accumulation_steps=parts
        )
        results.append((step(batch), optimizer.first_moments))
    (expected, expected_moments), (values, moments) = results
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-5, err_msg=name)
    for x, y in zip(moments, expected_moments, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-7)


def test_dropout_of_packed_rows_is_the_same_on_any_replica(tiny_config, both):
    model = randomised(bert_tf.BertPretrainer(tiny_config))
    packed = first_rows(both[1], 4)

    def logits(first, last):
        rows = {name: x[first:last] for name, x in packed.items()}
        key = dropout.make_key(5, tf.constant(9, tf.int64), tf.constant(first))
        return model(rows, training=True, dropout_key=key)

    whole, parts = logits(0, 4), [logits(0, 2), logits(2, 4)]
    for name in whole:
        joined = tf.concat([part[name] for part in parts], 0)
        np.testing.assert_allclose(whole[name], joined, atol=1e-5)
        assert not np.allclose(whole[name], model(packed)[name], atol=1e-3)


def test_packed_rows_lower_to_static_shapes(tiny_config, both):
    """TPUs need this: HLO has no bounded dynamic dimension, such as `<=3`."""
    strategy = strategies.make_strategy("one_device")
    settings = TrainingConfig(output_dir="unused", seed=1)
    model = loop.build_model(pretraining.TASK, tiny_config, strategy, settings)

    @tf.function(jit_compile=True, autograph=False)
    def losses(batch):
        key = dropout.make_key(1, tf.constant(2, tf.int64), 0)
        outputs = model(batch, training=True, dropout_key=key)
        means = pretraining.TASK.losses(outputs, batch)
        return [mean.value() for mean in means.values()]

    hlo = losses.experimental_get_compiler_ir(both[1])(stage="hlo")
    assert "<=" not in hlo
    assert "custom-call" not in hlo


def test_attention_of_packed_rows_is_that_of_their_examples(config, both):
    encoder = randomised(bert_tf.BertEncoder(config))
    unpacked, packed = (
        encoder(batch, return_attention=True).attention[0].numpy()
        for batch in both
    )
    numbers = both[1]["example_numbers"].numpy()
    lengths = both[0]["input_mask"].numpy().sum(axis=1)
    example = 0
    for row, weights in zip(numbers, packed, strict=True):
        for number in range(1, row.max() + 1):
            (where,) = np.nonzero(row == number)
            length = lengths[example]
            assert len(where) == length
            np.testing.assert_allclose(
                weights[:, where][:, :, where],
                unpacked[example, :, :length, :length],
                atol=1e-6,
            )
            others = np.nonzero(row != number)[0]
            assert not weights[:, where][:, :, others].any()
            example += 1
    assert example == len(lengths)
