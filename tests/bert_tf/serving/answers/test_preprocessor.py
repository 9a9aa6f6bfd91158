"""preprocessor.py: TF Hub's interface, in Python and in the C++ loader."""

import json
import os
import subprocess
import sys

import c_loader
import numpy as np
import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH, VOCAB_FILE, make_model, save_model

from bert_tf import text_preprocessor
from bert_tf.serving import export_model, kinds
from tfrecords import schema

TEXTS = ["The cat sat on the warm stone.", "", "old bread " * 40, "Café naïve"]
PAIRS = ["It was told.", "a ship", "", "über"]


def export(folder, **settings):
    config = kinds.ExportConfig(
        model_dir=str(folder / "model"),
        export_dir=str(folder / "preprocessor"),
        kind="preprocessor",
        **settings,
    )
    export_model.export(config)
    return config.export_dir


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preprocessor")
    save_model(make_model("pretraining"), "pretraining", folder / "model")
    return export(folder)


@pytest.fixture(scope="module")
def loaded(path):
    return tf.saved_model.load(path)


def expected(*texts, length=MAX_SEQ_LENGTH):
    return text_preprocessor.TextPreprocessor(VOCAB_FILE, True, length)(*texts)


def test_tokens_are_counted_before_texts_are_cut(loaded):
    lengths = loaded.num_tokens(["old bread " * 40, "old"], ["", "bread"])
    assert lengths.numpy().tolist() == [82, 5]


def check(found, wanted):
    assert set(found) == set(schema.ENCODER_INPUTS)
    for name, value in wanted.items():
        assert found[name].dtype == tf.int32
        np.testing.assert_array_equal(found[name], value, name)


def test_texts_become_encoder_inputs_of_one_length(loaded):
    check(loaded(tf.constant(TEXTS)), expected(TEXTS))
    assert loaded(tf.constant([], tf.string))["input_mask"].shape == (0, 16)


def test_its_signatures_take_pairs(loaded):
    assert set(loaded.signatures) == {"serving_default", "text"}
    for answers in (
        loaded.text(TEXTS, PAIRS),
        loaded.signatures["serving_default"](
            text_a=tf.constant(TEXTS), text_b=tf.constant(PAIRS)
        ),
    ):
        check(answers, expected(TEXTS, PAIRS))
    check(loaded.text(TEXTS), expected(TEXTS))


def test_segments_are_tokenized_and_packed_in_two_steps(loaded, words):
    first, second = (loaded.tokenize(tf.constant(x)) for x in (TEXTS, PAIRS))
    assert first.dtype == tf.int32
    assert first.to_list() == words(tf.constant(TEXTS)).to_list()
    check(loaded.bert_pack_inputs([first]), expected(TEXTS))
    check(loaded.bert_pack_inputs([first, second]), expected(TEXTS, PAIRS))


@pytest.mark.parametrize("length", [5, 11, 40])
def test_a_sequence_length_may_be_given(loaded, length):
    first, second = (loaded.tokenize(tf.constant(x)) for x in (TEXTS, PAIRS))
    check(
        loaded.bert_pack_inputs([first, second], seq_length=length),
        expected(TEXTS, PAIRS, length=length),
    )
    check(
        loaded.bert_pack_inputs([first], seq_length=tf.constant(length)),
        expected(TEXTS, length=length),
    )


def test_a_length_without_room_is_refused(loaded):
    tokens = loaded.tokenize(tf.constant(TEXTS))
    with pytest.raises(tf.errors.InvalidArgumentError, match="use 5 or more"):
        loaded.bert_pack_inputs([tokens, tokens], seq_length=4)


def test_special_tokens_are_named(loaded, words):
    found = loaded.tokenize.get_special_tokens_dict()
    assert {name: int(x) for name, x in found.items()} == {
        "vocab_size": words.vocab_size,
        "start_of_sequence_id": words.cls_id,
        "end_of_segment_id": words.sep_id,
        "padding_id": words.pad_id,
        "mask_id": words.mask_id,
    }


def test_it_runs_in_tf_data_with_a_static_length(loaded):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4).map(loaded)
    assert dataset.element_spec["input_word_ids"].shape[1] == MAX_SEQ_LENGTH
    (batch,) = dataset
    check(batch, expected(TEXTS))


def test_it_feeds_an_exported_encoder(loaded, exported):
    encoder = exported("classification").loaded
    outputs = encoder(loaded(tf.constant(TEXTS)))
    of_text = encoder.preprocess(TEXTS)
    np.testing.assert_allclose(
        outputs["default"],
        encoder.signatures["encoder"](**of_text)["default"],
        atol=1e-5,
    )


FRESH = """
import json, sys
import tensorflow as tf
import tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
inputs = loaded(tf.constant(json.loads(sys.argv[2])))
assert "bert_tf" not in sys.modules and "tfrecords" not in sys.modules
print(json.dumps(inputs["input_word_ids"].numpy().tolist()))
"""


@pytest.mark.slow
def test_a_process_without_this_package_can_use_it(path, tmp_path):
    output = subprocess.run(
        [sys.executable, "-I", "-c", FRESH, path, json.dumps(TEXTS)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    ids = expected(TEXTS)["input_word_ids"]
    assert json.loads(output) == ids.numpy().tolist()


@pytest.mark.slow
def test_it_runs_in_the_loader_of_tensorflow_serving(path, loaded, c_program):
    c_loader.check(c_program, path, {"text_a": TEXTS}, loaded.text(TEXTS))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "bfloat16"}, "--precision=bfloat16.* no weights"),
        ({"weights_dtype": "bfloat16"}, "--weights_dtype=.* no weights"),
        ({"top_k": 3}, "top_k=3 is for kind=fill_mask"),
        ({"max_seq_length": 65}, "max_seq_length=65 exceeds"),
    ],
)
def test_settings_of_a_model_are_refused(tmp_path, settings, message):
    save_model(make_model("regression"), "regression", tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        export(tmp_path, **settings)
    assert os.listdir(tmp_path) == ["model"]
