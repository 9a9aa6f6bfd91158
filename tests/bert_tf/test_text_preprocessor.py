import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.serving import batches
from tfrecords import schema
from tfrecords.tasks import glue_examples
from tfrecords.text.tokenizer import BertTokenizer

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = ["The cat sat.", "", "Café naïve über", "a b c d e f g h i j k l m n"]
OTHERS = ["a dog", "it is", "", "n m l k j i h g"]


@pytest.fixture
def preprocess(tiny_vocab_file):
    return bert_tf.TextPreprocessor(tiny_vocab_file, max_seq_length=12)


def same(ours, theirs):
    assert sorted(ours) == sorted(schema.ENCODER_INPUTS)
    for name, value in ours.items():
        assert value.dtype == tf.int32
        np.testing.assert_array_equal(value, theirs[name], name)


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("texts", [[TEXTS], [TEXTS, OTHERS]], ids=len)
def test_inputs_equal_those_of_records_and_of_exports(
    tiny_vocab_file, texts, do_lower_case
):
    layer = bert_tf.TextPreprocessor(
        tiny_vocab_file, do_lower_case, max_seq_length=12
    )
    inputs = layer(*texts)
    assert {value.shape for value in inputs.values()} == {(4, 12)}
    tokenizer = BertTokenizer(tiny_vocab_file, do_lower_case)
    encode = glue_examples.make_encoder(tokenizer, len(texts), 12)
    texts = [tf.constant(strings) for strings in texts]
    same(inputs, encode(*texts)[0])
    # These are only as long as the longest text, which fills its row here.
    same(inputs, batches.pack_pairs(tokenizer, 12, *texts))


def test_a_list_of_entries_is_a_vocabulary(preprocess, tiny_vocab_file):
    entries = pathlib.Path(tiny_vocab_file).read_text("utf-8").split("\n")[:-1]
    layer = bert_tf.TextPreprocessor(entries, max_seq_length=12)
    same(layer(TEXTS, OTHERS), preprocess(TEXTS, OTHERS))
    # As in manifests of records.
    assert layer.tokenizer.sha256 == preprocess.tokenizer.sha256


def test_config_makes_the_same_layer(tiny_vocab_file):
    rules = {
        "do_lower_case": False,
        "strip_accents": True,
        "tokenize_chinese_chars": False,
        "split_special_tokens": False,
    }
    layer = bert_tf.TextPreprocessor(
        tiny_vocab_file, max_seq_length=9, name="mine", **rules
    )
    config = layer.get_config()
    assert tiny_vocab_file not in str(config)
    copy = bert_tf.TextPreprocessor.from_config(config)
    assert copy.get_config() == config
    assert (copy.name, copy.max_seq_length) == ("mine", 9)
    assert copy.tokenizer.rules == rules
    same(copy(TEXTS, OTHERS), layer(TEXTS, OTHERS))


def test_maps_a_dataset_to_static_shapes(preprocess):
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, OTHERS))
    batches = pairs.batch(2, drop_remainder=True).map(preprocess)
    assert {tuple(spec.shape) for spec in batches.element_spec.values()} == {
        (2, 12)
    }
    first, second = batches
    both = {name: tf.concat([first[name], second[name]], 0) for name in first}
    same(both, preprocess(TEXTS, OTHERS))


def model_of_pairs(preprocess, config):
    text_a, text_b = (
        keras.Input((), dtype="string", name=f"text_{side}") for side in "ab"
    )
    encoder = bert_tf.BertEncoder(config)
    pooled = encoder(preprocess(text_a, text_b)).pooled_output
    return keras.Model([text_a, text_b], keras.layers.Dense(2)(pooled))


@pytest.mark.slow
def test_a_model_of_strings_trains_saves_and_exports(
    tiny_vocab_file, tiny_config, tmp_path
):
    """The saved model and the exported one need no vocabulary file."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_bytes(pathlib.Path(tiny_vocab_file).read_bytes())
    preprocess = bert_tf.TextPreprocessor(str(vocabulary), max_seq_length=12)
    keras.utils.set_random_seed(1)
    model = model_of_pairs(preprocess, tiny_config)
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    assert not model.jit_compile
    inputs = [tf.constant(4 * TEXTS), tf.constant(4 * OTHERS)]
    labels = np.array(4 * [0, 1, 1, 0])
    history = model.fit(inputs, labels, epochs=12, verbose=0).history
    assert history["accuracy"][-1] == 1.0, history
    expected = model.predict(inputs, verbose=0)

    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    np.save(tmp_path / "expected.npy", expected)
    vocabulary.unlink()
    code = f"""
import sys
import keras, numpy as np, tensorflow as tf
import bert_tf
inputs = [tf.constant(4 * {TEXTS!r}), tf.constant(4 * {OTHERS!r})]
expected = np.load("expected.npy")
model = keras.models.load_model("model.keras")
assert np.array_equal(model.predict(inputs, verbose=0), expected)
served = tf.saved_model.load("exported")
np.testing.assert_allclose(served.serve(inputs), expected, atol=1e-6)
print("equal")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "equal\n", done.stderr


@pytest.mark.parametrize("length", [2, 0, -1, "12", None, 8.0])
def test_a_wrong_length_is_named(tiny_vocab_file, length):
    with pytest.raises(ValueError, match=f"max_seq_length={length!r}; expec"):
        bert_tf.TextPreprocessor(tiny_vocab_file, max_seq_length=length)


def test_pairs_need_room_for_two_tokens(tiny_vocab_file):
    layer = bert_tf.TextPreprocessor(tiny_vocab_file, max_seq_length=4)
    assert layer(["a"])["input_word_ids"].shape == (1, 4)
    with pytest.raises(ValueError, match="max_seq_length=4 has no room"):
        layer(["a"], ["b"])
    single = keras.Input((), dtype="string")
    with pytest.raises(ValueError, match="max_seq_length=4 has no room"):
        layer(single, single)


@pytest.mark.parametrize("vocabulary", [["a", 3], None])
def test_a_wrong_vocabulary_is_named(vocabulary):
    message = re.escape(f"vocabulary={vocabulary}; expected the path")
    with pytest.raises(ValueError, match=message):
        bert_tf.TextPreprocessor(vocabulary)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text", r"text_a has shape \(\); .*vector"),
        ([["a"], ["b"]], r"text_a has shape \(2, 1\); .*vector"),
        ([1, 2], "text_a has dtype int32; .*strings"),
    ],
)
def test_inputs_that_are_no_vector_of_strings_are_refused(
    preprocess, inputs, message
):
    with pytest.raises(ValueError, match=message):
        preprocess(inputs)
    with pytest.raises(ValueError, match=message.replace("_a", "_b")):
        preprocess(["a"], inputs)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [((1,), "string", "has shape"), ((), "int32", "has dtype")],
)
def test_symbolic_inputs_are_checked(preprocess, shape, dtype, message):
    with pytest.raises(ValueError, match=f"text_a {message}"):
        preprocess(keras.Input(shape, dtype=dtype))


@pytest.mark.parametrize("name", ["RaggedTensor", "SparseTensor"])
def test_texts_in_no_vector_are_refused(preprocess, name):
    texts = tf.ragged.constant([["a", "b"], ["c"]])
    texts = texts if name == "RaggedTensor" else texts.to_sparse()
    with pytest.raises(ValueError, match=f"text_a is a {name}; .* vector"):
        preprocess(texts)


def test_numbers_of_texts_must_agree(preprocess):
    with pytest.raises(tf.errors.InvalidArgumentError, match="same number"):
        preprocess(["a"], ["b", "c"])
