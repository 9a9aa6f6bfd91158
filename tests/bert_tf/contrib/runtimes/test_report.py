"""The report of a stand-in for an exported model, in its own process."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.contrib.runtimes import report

SETTINGS = {
    "kind": "regression",
    "format": "onnx",
    "inputs": ["input_word_ids", "input_mask", "input_type_ids"],
    "max_seq_length": 8,
    "vocab_size": 20,
}
# Its score is the number of tokens, as that of the network below.
PREDICT = """
import numpy as np
class Model:
    def __init__(self, folder):
        pass
    def run(self, inputs):
        return {{"score": {score}}}
    def encode(self, fields):
        return [[1] * len(fields["text_a"])]
def to_arrays(rows):
    ids = np.zeros([len(rows), 8], np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    names = ["input_word_ids", "input_mask", "input_type_ids"]
    return {{name: ids for name in names}}
"""
TEXTS = [
    {"text_a": "a" * n, "label": str(label)}
    for n, label in [(1, 2), (2, 4), (5, 10), (3, 6)]
]


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """SavedModel whose score is the number of tokens."""
    specs = [
        tf.TensorSpec([None, None], tf.int32, name)
        for name in SETTINGS["inputs"]
    ]

    @tf.function(input_signature=specs)
    def network(input_word_ids, input_mask, input_type_ids):
        return {"score": tf.cast(tf.reduce_sum(input_mask, 1), tf.float32)}

    module = tf.Module()
    module.network = network
    path = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(module, path, signatures={"serving_default": network})
    return path


@pytest.fixture
def make(tmp_path, saved_model):
    """Expression of the score in predict.py, texts -> report."""

    def make(score, texts=(), settings=SETTINGS):
        folder, work = tmp_path / "export", tmp_path / "work"
        folder.mkdir()
        work.mkdir()
        source = PREDICT.format(score=score)
        (folder / "predict.py").write_text(source)
        return report.make(
            str(folder),
            saved_model,
            settings,
            str(work),
            config=BertConfig(vocab_size=20),
            texts=texts,
        )

    return make


COUNT = "inputs['input_mask'].sum(1).astype(np.float32)"


def test_equal_outputs(make):
    found = make(COUNT)
    assert found["largest_difference"] == {"random": {"score": 0.0}}
    assert found["bytes"]["onnx"] == 0  # predict.py does not count.
    assert found["bytes"]["savedmodel"] > 1000
    assert list(found["milliseconds"]) == [
        "batch 1, 8 tokens",
        "batch 16, 8 tokens",
    ]


def test_differences_and_scores_of_texts(make):
    # A random row has from 3 to 8 tokens, a text at most 5.
    found = make(f"{COUNT} * 1.5", TEXTS)
    assert found["largest_difference"] == {
        "random": {"score": 4.0},
        "texts": {"score": 2.5},
    }
    assert found["pearson"] == {
        "onnx": pytest.approx(1.0),
        "savedmodel": pytest.approx(1.0),
    }
    lines = report.lines(found)
    assert "  score                  2.50e+00" in lines
    assert any(line.startswith("pearson: onnx ") for line in lines)


def test_nan_is_a_difference(make):
    found = make(f"{COUNT} * np.float32('nan')")
    assert np.isnan(found["largest_difference"]["random"]["score"])


def test_texts_without_labels_have_no_score(make):
    found = make(COUNT, [{"text_a": "abc"}])
    assert found["largest_difference"]["texts"] == {"score": 0.0}
    assert "pearson" not in found and "accuracy" not in found


def test_another_shape_is_refused(make):
    with pytest.raises(RuntimeError, match=r"score has shape \(4, 1\) and in"):
        make(f"{COUNT}[:, None]")


def test_a_model_that_does_not_run_is_refused(make):
    with pytest.raises(RuntimeError, match="does not run: (?s:.*)NameError"):
        make("no_such_name")


def test_a_process_with_tensorflow_is_refused(make):
    # A module of this name, as importing TensorFlow takes seconds.
    score = f"({COUNT}, __import__('sys').modules.update(tensorflow=np))[0]"
    with pytest.raises(RuntimeError, match="has loaded TensorFlow: tensorflow"):
        make(score)


@pytest.mark.parametrize("types", [1, 2])
def test_random_inputs_have_the_segments_of_the_model(types):
    config = BertConfig(vocab_size=20, type_vocab_size=types)
    found = report._random_inputs(SETTINGS, 8, config)
    assert found["input_type_ids"].max() == types - 1


def test_packages_of_pythonpath_are_found_and_its_own_folder_is_not(tmp_path):
    script = tmp_path / "own" / "script.py"
    (tmp_path / "installed").mkdir()
    script.parent.mkdir()
    (tmp_path / "installed" / "only_there.py").write_text("number = 3\n")
    (script.parent / "colorsys.py").write_text("raise SystemExit('hidden')\n")
    script.write_text(
        "import colorsys, only_there, sys\nprint(only_there.number, *sys.argv)"
    )
    output = subprocess.run(
        [sys.executable, "-B", "-c", report._RUN, str(script), "a"],
        cwd=script.parent,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert output == f"3 {script} a\n"
