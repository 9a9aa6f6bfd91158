"""`compile`, `fit` and dropout keys of the models."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.model import dropout, fused, models, sentence_encoder
from tfrecords import schema

ROOT = pathlib.Path(__file__).parents[3]
LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], np.float32)
EXPECTED = 0.1481483  # Mean of -log softmax(LOGITS)[[0, 1]].
NO_LOGITS = "has from_logits=False, but the"
PROBABILITIES = "takes probabilities, but the model"


@pytest.fixture
def labelled(make_batch, tiny_config):
    """Inputs of 32 rows, whose second token tells the label, and labels."""
    batch, labels = make_batch(tiny_config, rows=32), np.arange(32) % 2
    inputs = {name: batch[name] for name in schema.ENCODER_INPUTS}
    inputs["input_word_ids"][:, 1] = 20 + labels
    return inputs, labels


def model_of(config, seed=1, **kwargs):
    keras.utils.set_random_seed(seed)
    return bert_tf.BertClassifier(config, 2, **kwargs)


@pytest.fixture
def wide_config(tiny_config):
    """Initial weights that are large enough to learn in a few steps."""
    return dataclasses.replace(tiny_config, initializer_range=0.2)


@pytest.mark.slow
def test_fit_learns_with_integer_labels(wide_config, labelled):
    inputs, labels = labelled
    model = model_of(wide_config)
    model.compile(keras.optimizers.Adam(5e-3), metrics=["accuracy"])
    history = model.fit(inputs, labels, epochs=15, batch_size=8, verbose=0)
    found = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert found["accuracy"] == 1.0, history.history
    assert found["loss"] < 0.2
    # The loss is the one of the logits.
    logits = model.predict(inputs, verbose=0)["logits"]
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    np.testing.assert_allclose(found["loss"], np.mean(each), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (None, [0, 1]),
        ("sparse_categorical_crossentropy", [0, 1]),
        ("SparseCategoricalCrossentropy", [0, 1]),
        (keras.losses.sparse_categorical_crossentropy, [0, 1]),
        ({"logits": "sparse_categorical_crossentropy"}, [0, 1]),
        ("categorical_crossentropy", np.eye(3)[:2]),
        (keras.losses.CategoricalCrossentropy(from_logits=True), np.eye(3)[:2]),
    ],
)
def test_losses_take_logits(tiny_config, loss, labels):
    model = bert_tf.BertClassifier(tiny_config, 3)
    model.compile(loss=loss)
    labels = tf.constant(labels)
    found = model.compute_loss(y=labels, y_pred={"logits": LOGITS})
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (keras.losses.SparseCategoricalCrossentropy(), NO_LOGITS),
        (keras.losses.CategoricalCrossentropy(), NO_LOGITS),
        (keras.losses.BinaryCrossentropy(), NO_LOGITS),
        ({"logits": keras.losses.SparseCategoricalCrossentropy()}, NO_LOGITS),
        ("kld", PROBABILITIES),
        ("KLDivergence", PROBABILITIES),
        (keras.losses.kl_divergence, PROBABILITIES),
        (keras.losses.KLDivergence, PROBABILITIES),
        (keras.losses.KLDivergence(), PROBABILITIES),
        (
            {"logits": keras.losses.CategoricalGeneralizedCrossEntropy()},
            PROBABILITIES,
        ),
    ],
)
def test_losses_of_probabilities_are_refused(tiny_config, loss, message):
    model = bert_tf.BertClassifier(tiny_config, 3)
    with pytest.raises(ValueError, match=message):
        model.compile(loss=loss)


def test_a_function_of_ones_own_is_the_loss_whatever_its_name(tiny_config):
    def categorical_crossentropy(labels, logits):
        return 7.0 + 0.0 * logits[:, 0]

    model = bert_tf.BertClassifier(tiny_config, 3)
    model.compile(loss=categorical_crossentropy)
    found = model.compute_loss(y=tf.eye(3)[:2], y_pred={"logits": LOGITS})
    assert float(found) == 7.0


def test_ids_of_type_float_are_not_rounded(tiny_config):
    """`keras.Input` makes them; bfloat16 has no integers above 256."""
    config = dataclasses.replace(tiny_config, vocab_size=1000)
    encoder = bert_tf.BertEncoder(config, dtype="mixed_bfloat16")
    ids = np.array([[999, 257, 513, 3]], np.int32)
    batch = {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.zeros_like(ids),
    }
    expected = encoder(batch).pooled_output
    floats = {name: x.astype(np.float32) for name, x in batch.items()}
    np.testing.assert_array_equal(encoder(floats).pooled_output, expected)
    inputs = {name: keras.Input((4,), name=name) for name in batch}
    functional = keras.Model(inputs, encoder(inputs).pooled_output)
    np.testing.assert_array_equal(functional(batch), expected)


def test_each_model_has_a_default_loss(tiny_config, inputs):
    zeros = np.zeros(4, np.int32)
    spans = {"start_logits": zeros, "end_logits": zeros + 1}
    choices = {n: x.reshape(2, 2, -1) for n, x in inputs.items()}
    tags = np.zeros((4, 12), np.int32)
    for model, x, y in (
        (bert_tf.BertTagger(tiny_config, 3), inputs, tags),
        (bert_tf.BertSpanPredictor(tiny_config), inputs, spans),
        (bert_tf.BertMultipleChoice(tiny_config), choices, zeros[:2]),
    ):
        model.compile(metrics=["accuracy"], run_eagerly=True)
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        outputs = model(x)
        y = y if isinstance(y, dict) else {"logits": y}
        each = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(y[name], logits)
            for name, logits in outputs.items()
        ]
        expected = sum(np.mean(loss) for loss in each)
        np.testing.assert_allclose(found["loss"], expected, rtol=1e-5)
        names = [f"{n}_accuracy" for n in y] if len(y) > 1 else ["accuracy"]
        assert set(names) <= set(found)
    model = bert_tf.BertRegressor(tiny_config)
    model.compile(run_eagerly=True)
    found = model.evaluate(inputs, zeros + 2.0, verbose=0)
    expected = np.mean((model(inputs)["predictions"] - 2.0) ** 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_loaded_model_is_compiled(tiny_config, inputs, tmp_path, is_frozen):
    labels = np.array([0, 1, 1, 0])
    model = model_of(tiny_config)
    model.encoder.trainable = not is_frozen
    model.compile(keras.optimizers.Adam(1e-3), metrics=["accuracy"])
    model.train_on_batch(inputs, labels)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(inputs, labels, verbose=0) == model.evaluate(
        inputs, labels, verbose=0
    )
    found, expected = (x.optimizer.variables for x in (loaded, model))
    # Iterations, learning rate, two moments of each trained weight.
    assert len(found) == 2 + 2 * len(model.trainable_weights)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    assert loaded.optimizer.iterations == 1


def draws(model):
    """Number of draws from the seed generator of each dropout layer."""
    found = [
        layer.seed_generator.state[1].numpy()
        for layer in model._flatten_layers()
        if isinstance(layer, dropout.Dropout)
    ]
    assert len(found) > 1
    return found


@pytest.mark.parametrize("name", ["classifier", "tagger", "choices", "encoder"])
def test_a_call_without_key_draws_one(tiny_config, inputs, name):
    model = {
        "classifier": lambda: bert_tf.BertClassifier(tiny_config, 2),
        "tagger": lambda: bert_tf.BertTagger(tiny_config, 2),
        "choices": lambda: bert_tf.BertMultipleChoice(tiny_config),
        "encoder": lambda: bert_tf.BertEncoder(tiny_config),
    }[name]()
    if name == "choices":
        inputs = {n: x.reshape(2, 2, -1) for n, x in inputs.items()}
    model(inputs)
    assert sum(draws(model)) == 0
    first, second = (
        tf.nest.flatten(model(inputs, training=True))[0] for _ in range(2)
    )
    assert sum(draws(model)) == 2
    assert (first.numpy() != second.numpy()).any()


def test_without_dropout_no_key_is_drawn(tiny_config, inputs):
    config = dataclasses.replace(
        tiny_config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = model_of(config)
    np.testing.assert_allclose(
        model(inputs, training=True)["logits"],
        model(inputs)["logits"],
        atol=1e-6,
    )


@pytest.mark.slow
def test_remat_in_fit_gives_the_same_losses(wide_config, labelled, monkeypatch):
    inputs, labels = labelled
    recomputed = []
    recompute_grad = tf.recompute_grad
    monkeypatch.setattr(
        tf,
        "recompute_grad",
        lambda run: recomputed.append(run) or recompute_grad(run),
    )
    losses = []
    for remat in (False, True):
        model = model_of(wide_config)
        if remat:
            model.encoder.enable_remat()
        model.compile(keras.optimizers.SGD(0.1))
        history = model.fit(
            inputs, labels, epochs=2, batch_size=8, shuffle=False, verbose=0
        )
        losses.append(history.history["loss"])
        assert sum(draws(model)) == 8  # One in each step.
        # Per traced call and layer.
        expected = wide_config.num_hidden_layers if remat else 0
        assert len(recomputed) == expected
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


MIRRORED = """
import json, sys
import keras, numpy as np, tensorflow as tf
num_replicas = int(sys.argv[1])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * num_replicas
)
import bert_tf
config = bert_tf.BertConfig.from_json_file(sys.argv[2])
arrays = dict(np.load(sys.argv[3]))
labels = arrays.pop("labels")
devices = [f"CPU:{i}" for i in range(num_replicas)]
strategy = tf.distribute.MirroredStrategy(devices)
keras.utils.set_random_seed(1)
with strategy.scope():
    model = bert_tf.BertClassifier(config, 2)
    model.encoder.enable_remat()
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"])
history = model.fit(
    arrays, labels, epochs=2, batch_size=8, shuffle=False, verbose=0
)
print(json.dumps([strategy.num_replicas_in_sync, history.history["loss"]]))
"""


@pytest.mark.slow
def test_fit_on_two_replicas_equals_one(wide_config, labelled, tmp_path):
    """With dropout: the replicas drop what one would in all rows."""
    inputs, labels = labelled
    np.savez(tmp_path / "rows.npz", labels=labels, **inputs)
    wide_config.to_json_file(tmp_path / "config.json")
    losses = []
    for num_replicas in (1, 2):
        arguments = [num_replicas, tmp_path / "config.json"]
        arguments.append(tmp_path / "rows.npz")
        done = subprocess.run(
            [sys.executable, "-c", MIRRORED, *map(str, arguments)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found, loss = json.loads(done.stdout.splitlines()[-1])
        assert found == num_replicas
        losses.append(loss)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@pytest.mark.parametrize("is_functional", [False, True])
def test_fit_uses_the_custom_gradients(
    tiny_config, inputs, functional, monkeypatch, is_functional
):
    model = model_of(tiny_config)
    if is_functional:
        model = functional(model.encoder)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    calls = []
    gradient = fused._attend_gradient
    monkeypatch.setattr(
        fused,
        "_attend_gradient",
        lambda *args: calls.append(args) or gradient(*args),
    )
    data = tf.data.Dataset.from_tensor_slices((inputs, np.arange(4) % 2))
    data = data.batch(2, drop_remainder=True)
    model.fit(data, shuffle=False, verbose=0)
    # Keras traces a step once or twice.
    assert len(calls) in {i * tiny_config.num_hidden_layers for i in (1, 2)}
    # Loops are compiled only for static shapes, see `fused.one_loop`.
    assert all(query.shape.is_fully_defined() for query, *_ in calls)


def test_quantize_is_refused(tiny_config):
    model = model_of(tiny_config)
    for part in (model, model.encoder):
        with pytest.raises(ValueError, match="not quantized by Keras"):
            part.quantize("int8")


def test_quantize_of_a_larger_model_leaves_bert_as_it_is(
    tiny_config, inputs, functional
):
    encoder = model_of(tiny_config).encoder
    model = functional(encoder)
    before = [weight.numpy() for weight in encoder.weights]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize("int8")
    warned = [str(warning.message) for warning in caught]
    assert any("encoder/pooler: layers of BERT" in line for line in warned)
    assert model.layers[-1].quantization_mode == "int8"
    assert model.predict(inputs, verbose=0).shape == (4, 2)
    for weight, value in zip(encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_paths_lead_to_all_weights_of_another_model(tiny_config, task):
    first, second = (models.for_task(task, tiny_config, 3) for _ in range(2))
    for model in (first, second):
        model.compile("sgd")
    second.set_state_tree(first.get_state_tree())
    for found, expected in zip(second.weights, first.weights, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["encoder", "classification", None])
def test_names_in_files_are_without_names_around_the_model(tiny_config, name):
    expected = [*model_folders.weight_names(model_of(tiny_config))]
    own = [*model_folders.weight_names(bert_tf.BertEncoder(tiny_config))]
    with keras.name_scope("outer"):
        model = model_of(tiny_config, name=name)
        encoder = bert_tf.BertEncoder(tiny_config, name=name)
    assert [*model_folders.weight_names(model)] == expected
    assert [*model_folders.weight_names(encoder)] == own
    names = model_folders.weight_names(model.encoder)
    assert [*names] == own and expected[-1] == "classification/dense/bias"


def exported(model, batch, tmp_path, **kwargs):
    """Returns expected and found outputs by name; from a SavedModel."""
    model.export(tmp_path / "exported", verbose=False, **kwargs)
    loaded = tf.saved_model.load(tmp_path / "exported")
    found = loaded.serve({n: tf.constant(x) for n, x in batch.items()})
    return model(batch), found


@pytest.mark.parametrize("task", [*models.TASK_MODELS, "causal"])
def test_export_needs_no_call(tiny_config, batch, tmp_path, task):
    config = tiny_config
    if task == "causal":
        config, task = (
            dataclasses.replace(config, is_causal=True),
            "pretraining",
        )
    model = models.for_task(task, config, 3)
    batch = {n: batch[n] for n in model.input_shapes()}
    if task == "multiple_choice":
        batch = {n: x.reshape(2, 2, -1) for n, x in batch.items()}
    expected, found = exported(model, batch, tmp_path)
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda specs: specs.pop("masked_lm_positions"),
        lambda specs: specs.update(input_mask=keras.InputSpec(ndim=2)),
    ],
)
def test_a_signature_that_lacks_an_input_or_type_is_refused(
    tiny_config, tmp_path, change
):
    model = bert_tf.BertPretrainer(tiny_config)
    specs = {
        n: keras.InputSpec("int32", x) for n, x in model.input_shapes().items()
    }
    change(specs)
    with pytest.raises(ValueError, match="dtype, for each of .*masked_lm_pos"):
        model.export(tmp_path / "x", input_signature=[specs])


def test_a_subclass_of_the_sentence_encoder_adds_a_layer(tiny_config):
    class WithLayer(sentence_encoder.BertSentenceEncoder):
        def __init__(self, config):
            super().__init__(config)
            self.more = keras.layers.Dense(2, name="more")
            self.more.build((None, 3))

    paths = [weight.path for weight in WithLayer(tiny_config).weights]
    assert paths[0] == "encoder/embeddings/word_embeddings"
    assert paths[-1] == "more/bias"


def test_an_encoder_is_exported_with_all_hidden_states(
    tiny_config, inputs, tmp_path
):
    model = bert_tf.BertEncoder(tiny_config)
    specs = {n: keras.InputSpec("int32", (None, 12)) for n in inputs}
    for signature in (specs, [specs, specs]):
        with pytest.raises(ValueError, match="a list of one dict"):
            model.export(tmp_path / "x", input_signature=signature)
    expected, found = exported(model, inputs, tmp_path, input_signature=[specs])
    names = ("hidden_state_0", "hidden_state_1", "sequence_output")
    for name, x in zip(names, expected.hidden_states, strict=True):
        np.testing.assert_allclose(found.pop(name), x, atol=1e-6)
    [(name, pooled)] = found.items()
    assert name == "pooled_output"
    np.testing.assert_allclose(pooled, expected.pooled_output, atol=1e-6)
