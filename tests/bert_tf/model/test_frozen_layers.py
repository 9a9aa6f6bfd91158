"""Frozen layers and weights in `.keras` files and clones."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.model import lora
from experiments.feature_based.feature_tagger import FeatureTagger

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
MODELS = {
    "encoder": bert_tf.BertEncoder,
    "pretrainer": bert_tf.BertPretrainer,
    "classifier": lambda config: bert_tf.BertClassifier(config, 2),
    "regressor": bert_tf.BertRegressor,
    "span_predictor": bert_tf.BertSpanPredictor,
    "tagger": lambda config: bert_tf.BertTagger(config, 3),
    "choices": bert_tf.BertMultipleChoice,
    "feature_tagger": lambda config: FeatureTagger(config, 3, "last", 4),
}


def reloaded(model, folder):
    path = folder / "model.keras"
    model.save(path)
    return keras.models.load_model(path)


def flags(model):
    """`trainable` of every layer that has weights, and of every weight."""
    layers = [x for x in model._flatten_layers() if x.weights]
    return (
        [(type(layer).__name__, layer.trainable) for layer in layers],
        [(weight.name, weight.trainable) for weight in model.weights],
    )


def frozen_below(config, layer):
    """An encoder that trains its last layers and the pooler."""
    encoder = bert_tf.BertEncoder(config, name="bert")
    encoder.get_layer("embeddings").trainable = False
    for index in range(layer):
        encoder.get_layer(f"layer_{index}").trainable = False
    return encoder


def first_layer(model):
    """The first layer inside that has weights."""
    return next(
        x for x in model._flatten_layers(include_self=False) if x.weights
    )


def test_layers_stay_frozen_in_the_file_of_a_functional_model(
    tiny_config, functional, inputs, tmp_path
):
    model = functional(frozen_below(tiny_config, 1))
    # 16 of layer_1, 2 of the pooler, 2 of the head.
    assert len(model.trainable_weights) == 20
    loaded = reloaded(model, tmp_path)
    assert len(loaded.trainable_weights) == 20
    encoder = loaded.get_layer("bert")
    assert not encoder.embeddings.trainable
    assert [x.trainable for x in encoder.encoder_layers] == [False, True]
    assert flags(loaded) == flags(model)

    before = [weight.numpy() for weight in loaded.weights]
    loaded.compile(keras.optimizers.Adam(0.1), LOSS)
    loaded.fit(inputs, np.arange(4) % 2, epochs=1, verbose=0)
    changed = [
        not np.array_equal(weight, old)
        for weight, old in zip(loaded.weights, before, strict=True)
    ]
    assert changed == [weight.trainable for weight in loaded.weights]


def test_a_frozen_model_is_frozen_in_all_its_layers(tiny_config, tmp_path):
    encoder = bert_tf.BertEncoder(tiny_config)
    encoder.trainable = False
    assert flags(reloaded(encoder, tmp_path)) == flags(encoder)
    assert flags(keras.models.clone_model(encoder)) == flags(encoder)


@pytest.mark.parametrize("how", ["file", "clone"])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_the_flags_of_layers_and_weights(
    name, how, tiny_config, tmp_path
):
    model = MODELS[name](tiny_config)
    first_layer(model).trainable = False
    model.weights[-1].trainable = False  # Of a layer that is trained.
    wanted = flags(model)
    assert len(model.trainable_weights) < len(model.weights) - 1
    if how == "file":
        again = reloaded(model, tmp_path)
    else:
        again = keras.models.clone_model(model)
    assert flags(again) == wanted
    assert again.get_config() == model.get_config()


def test_a_layer_that_is_trained_inside_a_frozen_one_is_known(
    tiny_config, tmp_path
):
    encoder = bert_tf.BertEncoder(tiny_config)
    encoder.trainable = False
    encoder.pooler.trainable = True  # Without effect in a frozen encoder.
    loaded = reloaded(encoder, tmp_path)
    assert not loaded.trainable_weights
    assert flags(loaded) == flags(encoder)
    # Frozen by the constructor, which sets no flags of the layers inside.
    encoder = bert_tf.BertEncoder(tiny_config, trainable=False)
    loaded = reloaded(encoder, tmp_path)
    assert flags(loaded) == flags(encoder)
    loaded.trainable = True
    assert len(loaded.trainable_weights) == len(loaded.weights)


def test_a_subclass_that_freezes_in_its_constructor_keeps_that(tiny_config):
    class Frozen(bert_tf.BertClassifier):
        def __init__(self, config, num_classes, **kwargs):
            super().__init__(config, num_classes, **kwargs)
            self.encoder.trainable = False

    model = Frozen(tiny_config, 2)
    config = model.get_config()
    assert flags(Frozen.from_config(config)) == flags(model)
    del config["trainable_parts"]  # As in a file of an earlier version.
    assert flags(Frozen.from_config(config)) == flags(model)
    model.encoder.embeddings.trainable = True
    model.encoder.pooler.trainable = True
    again = Frozen.from_config(model.get_config())
    assert flags(again) == flags(model)


def test_a_functional_model_inside_of_another_keeps_flags(
    tiny_config, functional, tmp_path
):
    inner = functional(frozen_below(tiny_config, 2))
    model = keras.Model(inner.inputs, inner(inner.inputs))
    strings = keras.Input((), dtype="string", name="text")
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat"]
    preprocess = bert_tf.TextPreprocessor(vocab, max_seq_length=12)
    preprocess.trainable = False
    of_text = keras.Model(strings, inner(preprocess(strings)))
    for outer in (model, of_text):
        assert len(outer.trainable_weights) == 4
        loaded = reloaded(outer, tmp_path)
        assert flags(loaded) == flags(outer)
        assert len(keras.models.clone_model(outer).trainable_weights) == 4
    assert not loaded.get_layer(preprocess.name).trainable


def test_what_lora_froze_stays_frozen_and_takes_new_adapters(
    tiny_config, tmp_path
):
    model = bert_tf.BertClassifier(tiny_config, 2)
    model.encoder.enable_lora(2)
    trained = [w for w in model.trainable_weights if not lora.is_factor(w)]
    loaded = reloaded(model, tmp_path)
    assert len(trained) == 4  # Of the pooler and the head.
    own = [w.path.partition("/")[2] for w in trained]
    again = [w.path.partition("/")[2] for w in loaded.trainable_weights]
    assert again == own
    loaded.encoder.enable_lora(2)
    assert lora.counts(loaded) == lora.counts(model)


def test_a_model_without_frozen_parts_has_the_config_of_earlier_versions(
    tiny_config, tmp_path
):
    model = bert_tf.BertClassifier(tiny_config, 2)
    config = model.get_config()
    names = ("name", "trainable", "dtype", "config", "num_classes")
    assert set(config) == set(names)
    again = bert_tf.BertClassifier.from_config(config)
    assert len(again.trainable_weights) == len(model.weights)
    model.encoder.pooler.trainable = False
    assert model.get_config()["trainable_parts"] == {"encoder/pooler": False}


def test_a_flag_of_a_part_that_is_no_more_is_ignored(tiny_config):
    model = bert_tf.BertEncoder(tiny_config)
    model.embeddings.trainable = False
    config = model.get_config()
    config["trainable_parts"]["removed"] = False
    again = bert_tf.BertEncoder.from_config(config)
    assert flags(again) == flags(model)
    assert set(config["trainable_parts"]) == {"embeddings", "removed"}
