"""predictions.py without a model: settings, columns and outputs."""

import dataclasses
import json

import pytest
import tensorflow as tf

from bert_tf.serving import predictions
from bert_tf.serving.answers.kind import Kind

OOM = tf.errors.ResourceExhaustedError(None, None, "OOM")


@pytest.mark.parametrize(
    "error, raised, message",
    [
        (MemoryError("many bytes"), MemoryError, "many bytes"),
        (OOM, tf.errors.ResourceExhaustedError, "OOM"),
        (KeyError("NewOp"), ValueError, r"TensorFlow .* cannot load it .'N"),
    ],
)
def test_only_a_file_is_called_damaged(monkeypatch, error, raised, message):
    def load(path):
        raise error

    module = "tensorflow.saved_model."
    monkeypatch.setattr(f"{module}contains_saved_model", lambda path: True)
    monkeypatch.setattr(f"{module}load", load)
    with pytest.raises(raised, match=message):
        predictions.load("export", "text")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Give either --export_dir"),
        ({"export_dir": "a", "model_dir": "b"}, "Give either --export_dir"),
        ({"export_dir": "a", "uncalibrated": True}, "--uncal.* is for --model"),
        ({"export_dir": "a", "signature": "classify"}, "one of text, words"),
        ({"export_dir": "a", "signature": "encoder"}, "one of text, words"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        predictions.PredictConfig(**settings)


def test_a_prompt_is_for_vectors():
    config = predictions.PredictConfig(export_dir="e", prompt_name="query")
    message = "--prompt_name=query is for .* e is of the kind encoder. Omit"
    with pytest.raises(ValueError, match=message):
        predictions._choose_signature(config, {"kind": "encoder"})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"prompt": 1}, "prompt is 1; it should be a string"),
        ({"prompts": {"query": 1}}, "prompts.query is 1; it should be a str"),
    ],
)
def test_wrong_prompts_of_an_export_are_named(tmp_path, entries, message):
    path = tmp_path / predictions._METADATA
    path.parent.mkdir()
    path.write_text(json.dumps({"kind": "sentence_embedding"} | entries))
    with pytest.raises(ValueError, match=f"model.json: {message}"):
        predictions._read_metadata(str(tmp_path))


def model_of(ranks, outputs=()):
    return predictions.Model("served", Kind, None, ranks, outputs, None)


def test_outputs_are_those_that_are_named_or_all_without_values_per_token():
    outputs = ("encoder_outputs_0", "input_mask", "label", "sequence_output")
    model = model_of({"text_a": 1}, outputs)
    config = predictions.PredictConfig(export_dir="served")
    assert predictions.choose_outputs(config, model) == {"label"}
    with pytest.raises(ValueError, match="served has only outputs with values"):
        predictions.choose_outputs(config, model._replace(outputs=outputs[:2]))
    config = dataclasses.replace(config, outputs=("sequence_output",))
    assert predictions.choose_outputs(config, model) == {"sequence_output"}
    config = dataclasses.replace(config, outputs=("mood",))
    with pytest.raises(ValueError, match="--outputs=mood is not an output of"):
        predictions.choose_outputs(config, model)


def test_a_folder_without_such_a_signature_is_refused(tmp_path):
    with pytest.raises(ValueError, match="contains no SavedModel"):
        predictions.load(str(tmp_path), "text")
    tf.saved_model.save(tf.train.Checkpoint(), str(tmp_path))
    with pytest.raises(ValueError, match="but not 'text'"):
        predictions.load(str(tmp_path), "text")
