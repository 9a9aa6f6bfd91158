"""Answers of SavedModels as JSON."""

import dataclasses
import json

import pytest
import tensorflow as tf

from bert_tf.serving import predictions
from bert_tf.serving.answers.kind import Kind


@pytest.mark.parametrize(
    "error, raised, message",
    [
        (MemoryError("many bytes"), None, "many bytes"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), None, "OOM"),
        (
            KeyError("NewOp"),
            ValueError,
            r"TensorFlow .* cannot load it .'N",
        ),
    ],
)
def test_only_a_file_is_called_damaged(monkeypatch, error, raised, message):
    def load(path):
        raise error

    module = "tensorflow.saved_model."
    monkeypatch.setattr(f"{module}contains_saved_model", lambda path: True)
    monkeypatch.setattr(f"{module}load", load)
    with pytest.raises(raised or type(error), match=message):
        predictions.load("export", "text")


@pytest.mark.slow
def test_predict_can_be_called_without_flags(exported, tmp_path):
    (tmp_path / "input").write_text("the cat\nold\n")
    config = predictions.PredictConfig(
        export_dir=exported("regression").path,
        input_file=str(tmp_path / "input"),
        output_file=str(tmp_path / "answers"),
        outputs=("score",),
    )
    assert predictions.predict(config) == 2
    first, second = (tmp_path / "answers").read_text().splitlines()
    assert json.loads(first).keys() == {"line", "text_a", "score"}
    assert json.loads(second)["text_a"] == "old"


def test_a_model_without_outputs_to_write_is_refused():
    outputs = ("encoder_outputs_0", "input_mask", "sequence_output")
    model = predictions.Model(
        "served", Kind, None, {"text_a": 1}, outputs, None
    )
    config = predictions.PredictConfig(export_dir="served")
    with pytest.raises(ValueError, match="served has only outputs with values"):
        predictions.choose_outputs(config, model)
    config = dataclasses.replace(config, outputs=("sequence_output",))
    assert predictions.choose_outputs(config, model) == {"sequence_output"}
