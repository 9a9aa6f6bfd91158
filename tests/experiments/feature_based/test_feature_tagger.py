"""The feature-based tagger: layer choices, weighted sums, saving."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training import optimizers
from experiments.feature_based import feature_tagger


@pytest.fixture(scope="module")
def config(tiny_config):
    return dataclasses.replace(tiny_config, num_hidden_layers=6, hidden_size=4)


def batch_of(num_layers, words=5):
    rng = np.random.default_rng(0)
    mask = np.ones((2, words), np.int32)
    mask[1, 3:] = 0
    values = rng.normal(size=(2, words, num_layers, 4)).astype(np.float32)
    return {
        "word_features": tf.constant(values),
        "input_mask": tf.constant(mask),
    }


def test_the_six_choices_are_the_rows_of_table_7():
    layers = {
        name: feature_tagger.resolve_layers(name, 12)
        for name in feature_tagger.CHOICES
    }
    assert layers == {
        "embeddings": [0],
        "second_to_last": [11],
        "last": [12],
        "weighted_sum_last_four": [9, 10, 11, 12],
        "concat_last_four": [9, 10, 11, 12],
        "weighted_sum_all": list(range(1, 13)),
    }


def test_choices_that_need_more_layers_are_rejected():
    for choice, layers in (("concat_last_four", 3), ("second_to_last", 1)):
        message = f"{choice}' needs more layers than the {layers} of this"
        with pytest.raises(ValueError, match=message):
            feature_tagger.resolve_layers(choice, layers)
    assert feature_tagger.resolve_layers("embeddings", 1) == [0]


@pytest.mark.parametrize("choice", feature_tagger.CHOICES)
def test_every_choice_has_logits_for_each_word(config, choice):
    model = feature_tagger.FeatureTagger(config, 3, choice, lstm_units=2)
    layers = feature_tagger.resolve_layers(choice, 6)
    logits = model(batch_of(len(layers)))["logits"]
    assert logits.shape == (2, 5, 3)
    kernel = model.bilstms[0].forward.cell.kernel
    is_concatenated = choice == "concat_last_four"
    assert kernel.shape[0] == (16 if is_concatenated else 4)
    assert model.bilstms[1].forward.cell.kernel.shape[0] == 4  # 2 directions.


def test_a_weighted_sum_starts_as_the_mean_and_has_learned_weights():
    features = batch_of(3)["word_features"]
    layer = feature_tagger.WeightedSum(3)
    np.testing.assert_allclose(
        layer(features), features.numpy().mean(axis=2), atol=1e-6
    )
    layer.weight_logits.assign([0.0, np.log(2.0), np.log(5.0)])
    layer.scale.assign(3.0)
    weights = np.array([1, 2, 5]) / 8 * 3
    expected = np.einsum("bwnh,n->bwh", features.numpy(), weights)
    np.testing.assert_allclose(layer(features), expected, atol=1e-5)


def test_a_weighted_sum_has_no_weight_decay():
    layer = feature_tagger.WeightedSum(3)
    layer.build()
    assert len(layer.weights) == 2
    assert not any(map(optimizers.decays, layer.weights))


def test_padding_does_not_change_logits_of_words(config):
    keras.utils.set_random_seed(1)
    model = feature_tagger.FeatureTagger(config, 3, "last", lstm_units=2)
    batch = batch_of(1)
    other = batch | {"word_features": tf.Variable(batch["word_features"])}
    other["word_features"][1, 3:].assign(tf.ones([2, 1, 4]))
    first, second = (model(b)["logits"].numpy() for b in (batch, other))
    np.testing.assert_allclose(first[0], second[0], atol=1e-6)
    np.testing.assert_allclose(first[1, :3], second[1, :3], atol=1e-6)


def test_it_saves_and_loads_without_custom_objects(config, tmp_path):
    model = feature_tagger.FeatureTagger(
        config, 3, "weighted_sum_all", lstm_units=2
    )
    path = str(tmp_path / "tagger.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    batch = batch_of(6)
    np.testing.assert_allclose(
        loaded(batch)["logits"], model(batch)["logits"], atol=1e-6
    )


def test_invalid_arguments_are_rejected(config):
    with pytest.raises(ValueError, match="num_classes=1; a tagger needs 2"):
        feature_tagger.FeatureTagger(config, 1)
    with pytest.raises(ValueError, match="'first' is not one of embed"):
        feature_tagger.FeatureTagger(config, 3, "first")
