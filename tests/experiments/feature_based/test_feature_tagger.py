"""The feature-based tagger: layer choices, weighted sums, loss, saving."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training import optimizers
from experiments.feature_based import feature_tagger
from experiments.feature_based.task import NerFeatures


@pytest.fixture(scope="module")
def config(tiny_config):
    return dataclasses.replace(tiny_config, num_hidden_layers=6, hidden_size=4)


def batch_of(num_layers, words=5):
    rng = np.random.default_rng(0)
    mask = np.ones((2, words), np.int32)
    mask[1, 3:] = 0
    values = rng.normal(size=(2, words, num_layers, 4)).astype(np.float32)
    return {"word_features": values, "input_mask": tf.constant(mask)}


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
    with pytest.raises(
        ValueError, match="t_four' needs more layers than the 3"
    ):
        feature_tagger.resolve_layers("concat_last_four", 3)


def test_a_weighted_sum_starts_as_the_mean_and_learns_its_weights():
    features = batch_of(3)["word_features"]
    layer = feature_tagger.WeightedSum(3)
    np.testing.assert_allclose(
        layer(features), features.mean(axis=2), atol=1e-6
    )
    assert not any(map(optimizers.decays, layer.weights))
    layer.weight_logits.assign([0.0, np.log(2.0), np.log(5.0)])
    layer.scale.assign(3.0)
    weights = np.array([1, 2, 5]) / 8 * 3
    expected = np.einsum("bwnh,n->bwh", features, weights)
    np.testing.assert_allclose(layer(features), expected, atol=1e-5)


def test_its_export_takes_features_of_type_float(config, tmp_path):
    model = feature_tagger.FeatureTagger(config, 3, "last", lstm_units=2)
    model.export(tmp_path / "model", verbose=False)
    loaded, batch = tf.saved_model.load(tmp_path / "model"), batch_of(1)
    found = loaded.serve({n: tf.constant(x) for n, x in batch.items()})
    np.testing.assert_allclose(
        found["logits"], model(batch)["logits"], atol=1e-6
    )


@pytest.mark.parametrize("choice", feature_tagger.CHOICES)
def test_logits_do_not_depend_on_padding_and_are_those_of_its_file(
    config, choice, tmp_path
):
    keras.utils.set_random_seed(1)
    model = feature_tagger.FeatureTagger(config, 3, choice, lstm_units=2)
    batch = batch_of(len(feature_tagger.resolve_layers(choice, 6)))
    first = model(batch)["logits"].numpy()
    kernel = model.bilstms[0].forward.cell.kernel
    assert kernel.shape[0] == (16 if choice == "concat_last_four" else 4)
    model.save(tmp_path / "tagger.keras")
    model = keras.models.load_model(tmp_path / "tagger.keras")
    batch["word_features"][1, 3:] = 1.0
    second = model(batch)["logits"].numpy()
    np.testing.assert_allclose(first[0], second[0], atol=1e-6)
    np.testing.assert_allclose(first[1, :3], second[1, :3], atol=1e-6)


def test_the_scheme_is_that_of_the_file_and_by_default_of_the_labels():
    labels = ["O", "B-LOC", "I-LOC"]
    assert NerFeatures(None, "last", 2, labels).scheme == "IOB2"
    assert NerFeatures(None, "last", 2, labels, "IOB1").scheme == "IOB1"


def test_the_loss_is_over_the_words_of_real_examples(tiny_config):
    task = NerFeatures(None, "last", 2, labels=["O"] * 3)
    model = task.build_model(tiny_config)
    weights = [[0.0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    batch = {
        "word_features": tf.ones([3, 4, 1, 16]),
        "input_mask": tf.ones([3, 4], tf.int32),
        "tag_ids": tf.constant([[0, 2, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]),
        "tag_weights": tf.constant(weights),
        "is_real_example": tf.constant([1.0, 1.0, 0.0]),
    }
    loss = task.losses(model(batch), batch)["tagging_loss"]
    assert float(loss.weight) == 3
