"""Effects of `import bert_tf`, in fresh processes."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import bert_tf

ROOT = pathlib.Path(__file__).parents[2]


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.slow
def test_a_keras_file_loads_after_import_bert_tf(tiny_config, tmp_path):
    inputs = {
        name: keras.Input((8,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    outputs = bert_tf.BertEncoder(tiny_config)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(outputs.pooled_output))
    batch = {name: np.ones((2, 8), "int32") for name in inputs}
    model.save(tmp_path / "mine.keras")
    code = """
import sys, bert_tf, keras, numpy as np
model = keras.models.load_model(sys.argv[1])
names = ("input_word_ids", "input_mask", "input_type_ids")
batch = {name: np.ones((2, 8), "int32") for name in names}
print(np.array2string(model(batch).numpy(), precision=9))
"""
    expected = np.array2string(model(batch).numpy(), precision=9)
    assert run(code, tmp_path / "mine.keras").strip() == expected


@pytest.mark.slow
def test_a_script_imports_keras_only_when_a_model_is_needed():
    code = """
import sys
import run_scripts
import bert_tf
print("keras" in sys.modules, "BertEncoder" in dir(bert_tf))
print(bert_tf.BertConfig.__name__, hasattr(bert_tf, "BertCar"))
"""
    assert run(code).split() == ["False", "True", "BertConfig", "False"]
