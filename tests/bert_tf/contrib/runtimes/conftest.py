"""Exports for other runtimes: of every kind, and one without weights."""

import functools
import hashlib
import json
import pathlib
import shutil

import exports
import pytest


@pytest.fixture
def model_of(made_once):
    """Kind -> folder of a tiny model with random weights for it."""
    return functools.partial(exports.model_folder, made_once)


@pytest.fixture
def shipped(made_once):
    """Kind, format, more flags -> Shipped."""
    return functools.partial(exports.ship, made_once)


ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "fine"]
# Logits of class 1 for each text; the number of classes is in the "model".
RUNTIME = """
import numpy as np

class SessionOptions:
    pass

class InferenceSession:
    def __init__(self, path, options, providers):
        with open(path) as file:
            self.num_classes = int(file.read())

    def get_outputs(self):
        class Output:
            def __init__(self, name):
                self.name = name
        return [Output("logits"), Output("probabilities")]

    def run(self, names, inputs):
        rows = len(inputs["input_word_ids"])
        logits = np.eye(self.num_classes, dtype=np.float32)[[1] * rows]
        return [logits, logits]
"""


@pytest.fixture
def folder(tmp_path):
    """An export of a classifier, without weights, with a runtime of its own.

    This is a module with the functions of onnxruntime, which is imported from
    the folder.
    """
    from bert_tf.contrib.runtimes import tokenizer

    own = pathlib.Path(tokenizer.__file__).parent
    for name in ("predict.py", "tokenizer.py"):
        shutil.copy(own / name, tmp_path)
    content = "".join(f"{entry}\n" for entry in ENTRIES).encode()
    (tmp_path / "vocab.txt").write_bytes(content)
    (tmp_path / "onnxruntime.py").write_text(RUNTIME)
    (tmp_path / "model.onnx").write_text("2")
    settings = {
        "kind": "classification",
        "format": "onnx",
        "file": "model.onnx",
        "inputs": ["input_word_ids", "input_mask", "input_type_ids"],
        "do_lower_case": True,
        "max_seq_length": 8,
        "labels": ["bad", "good"],
        "num_classes": 2,
        "vocab_size": 8,
        "vocab_sha256": hashlib.sha256(content).hexdigest(),
        "outputs": ["logits", "probabilities"],
    }
    (tmp_path / "model.json").write_text(json.dumps(settings))
    return tmp_path
