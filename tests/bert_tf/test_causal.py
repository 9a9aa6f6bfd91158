"""Left-to-right models: causal attention, next-token loss, fine-tuning."""

import keras
import numpy as np
import oracle
import pytest
import tensorflow as tf
from random_weights import randomised, weights_of

import bert_tf
from bert_tf.model import dropout, layers, models
from bert_tf.model.encoder import last_positions
from bert_tf.tasks import pretraining
from tfrecords import schema
from tfrecords.pretraining import packing

KEY = dropout.make_key(7, 3, 0)


@pytest.fixture
def config(tiny_config):
    """No dropout, so that training matches the reference."""
    changes = {
        "is_causal": True,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return type(tiny_config).from_dict(tiny_config.to_dict() | changes)


def unmasked(batch):
    """Returns the features of records made with --masking_time=dynamic."""
    names = [*schema.ENCODER_INPUTS, "is_real_example"]
    return {name: tf.constant(batch[name]) for name in names}


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "training"])
def test_every_layer_and_the_pooled_output_match_the_reference(
    config, make_batch, key
):
    encoder = randomised(bert_tf.BertEncoder(config))
    batch = make_batch(config)
    outputs = encoder(batch, training=key is not None, dropout_key=key)
    expected, pooled = oracle.encode(batch, weights_of(encoder), config)
    real = batch["input_mask"] > 0
    for ours, theirs in zip(outputs.encoder_outputs, expected, strict=True):
        np.testing.assert_allclose(ours[real], theirs[real], atol=1e-5)
    np.testing.assert_allclose(outputs.pooled_output, pooled, atol=1e-5)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "training"])
def test_no_token_attends_to_a_later_token(config, make_batch, key):
    encoder = randomised(bert_tf.BertEncoder(config))
    batch = unmasked(make_batch(config, rows=1))
    kwargs = {"training": key is not None, "dropout_key": key}
    before = encoder(batch, **kwargs).sequence_output[0].numpy()
    for changed in range(12):
        ids = batch["input_word_ids"].numpy()
        ids[0, changed] = (ids[0, changed] + 1) % config.vocab_size
        after = encoder(batch | {"input_word_ids": tf.constant(ids)}, **kwargs)
        after = after.sequence_output[0].numpy()
        np.testing.assert_array_equal(after[:changed], before[:changed])
        differs = np.abs(after - before).max(axis=-1)
        assert (differs[changed:] > 1e-6).all(), changed


def test_gradients_of_a_token_reach_no_later_token(config, make_batch):
    encoder = randomised(bert_tf.BertEncoder(config))
    batch = unmasked(make_batch(config, rows=1))
    batch["input_word_ids"] = tf.range(12)[None]  # All ids are different.
    table = encoder.embeddings.word_embeddings.value
    with tf.GradientTape() as tape:
        outputs = encoder(batch, training=True, dropout_key=KEY)
        total = tf.reduce_sum(outputs.sequence_output[0, 5] ** 2)
    rows = tf.convert_to_tensor(tape.gradient(total, table)).numpy()[:12]
    assert (np.abs(rows[:6]).max(axis=-1) > 0).all()
    np.testing.assert_array_equal(rows[6:], 0)


def test_the_causal_mask_of_packed_rows_stays_within_examples():
    numbers = tf.constant([[1, 1, 2, 2, 0]])
    expected = [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    packed_mask = layers.causal_mask(layers.packed_attention_mask(numbers))
    np.testing.assert_array_equal(tf.cast(packed_mask[0], tf.int32), expected)
    mask = tf.constant([[1, 1, 0]])
    expected = [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    np.testing.assert_array_equal(
        tf.cast(layers.causal_mask(mask)[0], tf.int32), expected
    )


def test_last_positions_are_those_of_each_example():
    mask = tf.constant([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    last = last_positions({"input_mask": mask})
    np.testing.assert_array_equal(last, [[2], [0], [0]])
    packed = {
        "input_mask": tf.constant([[1, 1, 1, 1, 0]]),
        "example_numbers": tf.constant([[1, 1, 1, 2, 0]]),
        "cls_positions": tf.constant([[0, 3, 0]]),
    }
    np.testing.assert_array_equal(last_positions(packed), [[2, 3, 0]])


# The next-token loss.


def test_logits_and_loss_match_the_reference(config, make_batch):
    model = randomised(models.BertPretrainer(config))
    batch = unmasked(make_batch(config))
    outputs = model(batch, training=False)
    assert set(outputs) == {"next_token_logits"}
    weights = weights_of(model)
    encoder = {
        name.removeprefix("encoder/"): weight
        for name, weight in weights.items()
        if name.startswith("encoder/")
    }
    numpy_batch = {name: x.numpy() for name, x in batch.items()}
    expected, _ = oracle.encode(numpy_batch, encoder, config)
    positions = np.tile(np.arange(11), (4, 1))
    logits = oracle.masked_lm_logits(expected[-1], positions, weights)
    real = batch["input_mask"].numpy()[:, :-1] > 0
    np.testing.assert_allclose(
        outputs["next_token_logits"].numpy()[real], logits[real], atol=1e-4
    )
    loss = pretraining.LeftToRightTask().losses(outputs, batch)
    np.testing.assert_allclose(
        loss["next_token_loss"].value(),
        oracle.next_token_loss(logits, numpy_batch),
        rtol=1e-5,
    )


def test_the_loss_weight_is_the_number_of_predicted_tokens(config, make_batch):
    model = models.BertPretrainer(config)
    batch = unmasked(make_batch(config))
    task = pretraining.LeftToRightTask()
    outputs = model(batch, training=False)
    losses, weights = task.losses(outputs, batch), task.loss_weights(batch)
    assert set(losses) == set(weights) == {"next_token_loss"}
    expected = batch["input_mask"].numpy()[:, 1:].sum()
    assert losses["next_token_loss"].weight == expected
    assert weights["next_token_loss"] == expected
    accuracies = task.accuracies(outputs, batch)
    assert accuracies["next_token_accuracy"].weight == expected


def test_packing_does_not_change_the_loss(config, make_batch):
    model = randomised(models.BertPretrainer(config))
    examples = make_batch(config, rows=12, tokens=24)
    assignment = packing.assign(examples["input_mask"].sum(axis=1), 36, 3)
    unpacked = {name: examples[name][assignment.order] for name in examples}
    sizes = {
        "max_seq_length": 36,
        "max_predictions_per_row": 9,
        "max_examples_per_row": 3,
    }
    packed = packing.join(unpacked, assignment.counts, sizes)
    assert len(assignment.counts) < 12
    task = pretraining.LeftToRightTask()
    means = [
        task.losses(model(batch), batch)["next_token_loss"]
        for batch in (
            {name: tf.constant(x) for name, x in part.items()}
            for part in (unpacked, packed)
        )
    ]
    assert means[0].weight == means[1].weight
    np.testing.assert_allclose(means[0].total, means[1].total, rtol=1e-5)


def test_unigram_accuracy_counts_next_tokens():
    batch = {
        "input_word_ids": np.array([[1, 5, 5, 2], [1, 5, 2, 0]]),
        "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]]),
    }
    # 3 of the 5 next tokens, 5 5 2 and 5 2, are the most frequent one, 5.
    accuracy = pretraining.unigram_accuracy(
        [batch], 9, pretraining.LeftToRightTask()
    )
    assert accuracy == 3 / 5


# Fine-tuning.


def test_a_classifier_depends_on_the_last_token(config, make_batch):
    keras.utils.set_random_seed(1)
    model = randomised(models.BertClassifier(config, 3))
    batch = unmasked(make_batch(config, rows=1))
    logits = model(batch)["logits"].numpy()
    ids = batch["input_word_ids"].numpy()
    ids[0, -1] = (ids[0, -1] + 1) % config.vocab_size
    other = model(batch | {"input_word_ids": tf.constant(ids)})["logits"]
    assert np.abs(other - logits).max() > 1e-4
