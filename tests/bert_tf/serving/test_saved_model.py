"""saved_model.py: contents of SavedModels, and writing them atomically."""

import os
from uuid import uuid4

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from bert_tf.model import encoder as encoder_lib
from bert_tf.serving import saved_model
from bert_tf.serving.answers import encoder
from tfrecords import schema


class Lengths(tf.Module):
    """Strings -> a batch of numbers, with a table in place of a vocabulary."""

    def __init__(self):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["one", "two"], [1.0, 2.0]), 0.0
        )

    def __call__(self, *texts):
        return {"x": tf.stack([self.table.lookup(text) for text in texts], 1)}


class Double(keras.Model):
    """A model other than BERT, since export does not depend on BERT."""

    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, batch, training=None):
        return {"y": batch["x"] * self.scale * 2.0}


@pytest.fixture(scope="module")
def tiny_encoder(tiny_config):
    keras.utils.set_random_seed(1)
    return encoder_lib.BertEncoder(tiny_config)


@pytest.fixture(scope="module")
def encoder_path(tiny_encoder, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export") / "encoder")
    saved_model.export_text(
        [tiny_encoder],
        path,
        signatures={},
        parts={},
        encoder=tiny_encoder,
        default=saved_model.ENCODER,
    )
    return path


@pytest.fixture(scope="module")
def text_path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export") / "text")
    export_doubles(path)
    return path


def doubles(model, lengths):
    """Returns a signature of two string inputs, the second with a default."""
    strings = tf.TensorSpec([None], tf.string)
    default = tf.constant(["?"])

    @tf.function(input_signature=[strings, strings], autograph=False)
    def double(text_a, text_b=default):
        text_b = tf.broadcast_to(text_b, tf.shape(text_a))
        return model(lengths(text_a, text_b))

    return double


def export_doubles(path, scale=3.0, names=("text",), **settings):
    model, lengths = Double(), Lengths()
    model.scale.assign(scale)
    saved_model.export_text(
        [model],
        path,
        signatures={name: doubles(model, lengths) for name in names},
        parts={"tables": lengths},
        **settings,
    )


def inputs(rows=2, length=5):
    rng = np.random.default_rng(0)
    return {
        "input_word_ids": tf.constant(
            rng.integers(30, size=(rows, length)), tf.int32
        ),
        "input_mask": tf.ones((rows, length), tf.int32),
        "input_type_ids": tf.zeros((rows, length), tf.int32),
    }


def test_an_encoder_accepts_any_batch_size_and_length(
    tiny_encoder, encoder_path
):
    loaded = tf.saved_model.load(encoder_path)
    for rows, length in ((2, 5), (1, 16), (0, 3)):
        outputs = loaded(inputs(rows, length))
        expected = tiny_encoder(inputs(rows, length))
        np.testing.assert_allclose(
            outputs["sequence_output"], expected.sequence_output, atol=1e-5
        )
        np.testing.assert_allclose(
            outputs["default"], expected.pooled_output, atol=1e-5
        )
        layers = outputs["encoder_outputs"], expected.encoder_outputs
        for ours, theirs in zip(*layers, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_signature_of_an_encoder_numbers_its_layers(encoder_path):
    loaded = tf.saved_model.load(encoder_path)
    signature = loaded.signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == set(
        schema.ENCODER_INPUTS
    )
    assert set(loaded.signatures) == {"serving_default", "encoder"}
    assert set(signature(**inputs())) == {
        "default",
        "encoder_outputs_0",
        "encoder_outputs_1",
        "pooled_output",
        "sequence_output",
    }


def test_dropout_is_active_only_in_training(encoder_path):
    loaded = tf.saved_model.load(encoder_path)
    without = loaded(inputs())["default"]
    np.testing.assert_array_equal(loaded(inputs())["default"], without)
    trained = loaded(inputs(), training=True)["default"]
    assert np.abs(trained - without).max() > 1e-4


def test_outputs_of_every_dtype_policy_are_float32(tiny_encoder):
    half = encoder_lib.EncoderOutputs(
        *tf.nest.map_structure(
            lambda x: tf.cast(x, tf.bfloat16), tuple(tiny_encoder(inputs()))
        )
    )
    for output in encoder.flatten(encoder.encoder_interface(half)).values():
        assert output.dtype == tf.float32


def test_string_signatures_use_tables_and_weights(text_path):
    loaded = tf.saved_model.load(text_path)
    answers = loaded.signatures["serving_default"](
        text_a=tf.constant(["one", "two"]), text_b=tf.constant(["two", "?"])
    )
    assert answers["y"].numpy().tolist() == [[6.0, 12.0], [12.0, 0.0]]
    assert loaded.text(["one"])["y"].numpy().tolist() == [[6.0, 0.0]]
    assert set(loaded.signatures) == {"serving_default", "text"}


def test_a_saved_model_contains_no_keras_objects(text_path):
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel()
    with open(os.path.join(text_path, "saved_model.pb"), "rb") as file:
        proto.ParseFromString(file.read())
    nodes = proto.meta_graphs[0].object_graph_def.nodes
    kinds = {node.user_object.identifier for node in nodes}
    assert not [kind for kind in kinds if "keras" in kind]


def test_the_tf1_loader_finds_the_variables(text_path):
    # Similar to the C++ loader, which tests of the signatures call.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        proto = tf.compat.v1.saved_model.load(session, ["serve"], text_path)
        definition = proto.signature_def["serving_default"]
        answer = session.run(
            definition.outputs["y"].name,
            {definition.inputs["text_a"].name: ["one", "two"]},
        )
    assert answer.tolist() == [[6.0, 0.0], [12.0, 0.0]]


def test_signatures_have_the_method_names_of_tensorflow_serving(tmp_path):
    path = str(tmp_path / "doubles")
    export_doubles(path, names=("text", "classify", "regress"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        proto = tf.compat.v1.saved_model.load(session, ["serve"], path)
    assert {
        name: definition.method_name
        for name, definition in proto.signature_def.items()
        if not name.startswith("__")  # Initializers.
    } == {
        "serving_default": "tensorflow/serving/predict",
        "text": "tensorflow/serving/predict",
        "classify": "tensorflow/serving/classify",
        "regress": "tensorflow/serving/regress",
    }
    loaded = tf.saved_model.load(path)
    assert loaded.text(["one"])["y"].numpy().tolist() == [[6.0, 0.0]]


def test_an_export_is_not_replaced_by_default(text_path):
    before = os.stat(os.path.join(text_path, "saved_model.pb"))
    with pytest.raises(ValueError, match="already exists.*--overwrite"):
        export_doubles(text_path)
    after = os.stat(os.path.join(text_path, "saved_model.pb"))
    assert before == after


def test_an_export_is_replaced_with_overwrite(tmp_path):
    path = tmp_path / "doubles"
    path.mkdir()
    (path / "saved_model.pb").write_text("old")
    export_doubles(str(path), scale=5.0, overwrite=True)
    loaded = tf.saved_model.load(str(path))
    assert loaded.text(["one"])["y"].numpy().tolist() == [[10.0, 0.0]]
    assert os.listdir(tmp_path) == ["doubles"]


def test_other_folders_are_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(ValueError, match="exists and is not a SavedModel"):
        export_doubles(str(tmp_path), overwrite=True)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_failed_export_leaves_no_files(tmp_path, monkeypatch):
    def save(root, folder, signatures):
        with open(os.path.join(folder, "saved_model.pb"), "w") as file:
            file.write("half of")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(OSError, match="No space left.*run the same command"):
        export_doubles(str(tmp_path / "doubles"))
    assert os.listdir(tmp_path) == []


def test_fingerprints_of_equal_exports_are_the_same_bytes(tmp_path):
    def write(name, **fields):
        """A fingerprint as TensorFlow writes it, with a random UUID."""
        (tmp_path / name).mkdir()
        content = fingerprint_pb2.FingerprintDef(uuid=str(uuid4()), **fields)
        path = tmp_path / name / "fingerprint.pb"
        path.write_bytes(content.SerializeToString())
        before = path.read_bytes()
        saved_model._fix_uuid(str(tmp_path / name))
        assert path.read_bytes() != before
        return path.read_bytes()

    first = write("a", saved_model_checksum=7, checkpoint_hash=8)
    assert write("b", saved_model_checksum=7, checkpoint_hash=8) == first
    other = write("c", saved_model_checksum=7, checkpoint_hash=9)
    read = fingerprint_pb2.FingerprintDef.FromString
    assert read(other).checkpoint_hash == 9
    assert len(read(other).uuid) == 36 and read(other).uuid != read(first).uuid
    (tmp_path / "none").mkdir()  # As with a signature `classify`.
    saved_model._fix_uuid(str(tmp_path / "none"))
    assert not list((tmp_path / "none").iterdir())
