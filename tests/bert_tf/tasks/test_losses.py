import keras
import numpy as np
import oracle
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks import losses, pretraining


@pytest.fixture
def batch(make_batch, tiny_config):
    return make_batch(tiny_config)


@pytest.fixture
def model(tiny_config):
    keras.utils.set_random_seed(1)
    return bert_tf.BertPretrainer(tiny_config)


def test_pretraining_losses_equal_the_oracle(tiny_config, batch):
    rng = np.random.default_rng(3)
    masked = rng.normal(0, 3, (4, 3, tiny_config.vocab_size))
    following = rng.normal(0, 3, (4, 2))
    outputs = {
        "masked_lm_logits": tf.constant(masked, tf.float32),
        "next_sentence_logits": tf.constant(following, tf.float32),
    }
    found = pretraining.TASK.losses(outputs, batch)
    expected = oracle.pretraining_losses(masked, following, batch)
    names = ("masked_lm_loss", "next_sentence_loss")
    means = [found[name].value() for name in names]
    np.testing.assert_allclose(means, expected, rtol=1e-5)


def test_single_segments_have_only_the_masked_lm_loss(model, batch):
    outputs, task = model(batch), pretraining.PretrainingTask("none")
    single = {n: v for n, v in batch.items() if n != "next_sentence_labels"}
    for terms, whole in (
        (task.losses, pretraining.TASK.losses),
        (task.accuracies, pretraining.TASK.accuracies),
    ):
        (name,) = found = terms(outputs, single)
        assert name.startswith("masked_lm_")
        expected = whole(outputs, batch)[name].value()
        assert found[name].value() == expected
    assert set(task.loss_weights(single)) == {"masked_lm_loss"}


def test_sentence_order_has_its_own_names_of_losses(model, batch):
    outputs = model(batch)
    task = pretraining.PretrainingTask("sentence_order")
    losses_, accuracies = task.losses(outputs, batch), task.accuracies
    assert set(losses_) == {"masked_lm_loss", "sentence_order_loss"}
    assert set(task.loss_weights(batch)) == set(losses_)
    expected = pretraining.TASK.losses(outputs, batch)["next_sentence_loss"]
    assert losses_["sentence_order_loss"].value() == expected.value()
    assert set(accuracies(outputs, batch)) == {
        "masked_lm_accuracy",
        "sentence_order_accuracy",
    }


def test_the_loss_without_masked_tokens_is_zero(model, batch):
    batch["masked_lm_weights"] = np.zeros((4, 3), np.float32)
    loss = pretraining.TASK.losses(model(batch), batch)["masked_lm_loss"]
    assert loss.value().numpy() == 0.0


def test_the_weights_of_masked_tokens_have_the_original_epsilon(
    tiny_config, batch
):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(4, 3, tiny_config.vocab_size))
    outputs = {
        "masked_lm_logits": tf.constant(logits, tf.float32),
        "next_sentence_logits": tf.zeros([4, 2]),
    }
    found = []
    for weight in (1.0, 1e-5):  # In all, 1 and as much as the epsilon.
        weights = np.zeros((4, 3), np.float32)
        weights[0, 0] = weight
        terms = pretraining.TASK.losses(
            outputs, batch | {"masked_lm_weights": weights}
        )
        found.append(terms["masked_lm_loss"].value().numpy())
    np.testing.assert_allclose(found[1], found[0] / 2, rtol=1e-4)


def test_losses_and_accuracies_ignore_padding_rows(model, batch):
    more = {n: np.concatenate([v, np.zeros_like(v)]) for n, v in batch.items()}
    for terms in (pretraining.TASK.losses, pretraining.TASK.accuracies):
        few, many = terms(model(batch), batch), terms(model(more), more)
        for name in few:
            np.testing.assert_allclose(
                few[name].value(), many[name].value(), rtol=1e-5
            )


def test_accuracy_is_the_weighted_share_of_right_rows():
    logits = tf.constant([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    labels = tf.constant([0, 0, 0])
    weights = tf.constant([1.0, 1.0, 0.0])
    assert losses.accuracy(logits, labels, weights).value().numpy() == 0.5


def test_squared_error_is_the_weighted_mean():
    error = losses.squared_error(
        tf.constant([1.0, 2.0, 9.0]),
        tf.constant([0.0, 4.0, 0.0]),
        tf.constant([1.0, 1.0, 0.0]),
    )
    assert error.value().numpy() == 2.5


def test_unigram_accuracy_is_the_share_of_the_most_frequent_token():
    batch = {
        "masked_lm_ids": np.array([[5, 5, 3], [5, 2, 2]]),
        "masked_lm_weights": np.array([[1, 1, 1], [0, 1, 0]]),
    }
    assert pretraining.unigram_accuracy([batch], 7) == 0.5
