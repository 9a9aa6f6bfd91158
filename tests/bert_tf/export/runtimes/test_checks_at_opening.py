"""predict.py refuses an export of which some files belong to another.

The runtime is replaced by a module with the same functions, which is imported
from the folder of the export.
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from bert_tf.export.runtimes import tokenizer

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
    """An export of a classifier, without the weights."""
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


def change(folder, **changes):
    """Changes entries of model.json; None removes one."""
    path = folder / "model.json"
    settings = json.loads(path.read_text()) | changes
    settings = {n: x for n, x in settings.items() if x is not None}
    path.write_text(json.dumps(settings))


def predict(folder):
    return subprocess.run(
        [sys.executable, "-B", str(folder / "predict.py")],
        input="a fine film\n",
        capture_output=True,
        text=True,
    )


def refused(folder, *words):
    """Checks that there is one line, with the words, and no answer."""
    process = predict(folder)
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("Copy the whole folder again.")
    assert all(word in line for word in words), line


def test_a_whole_export_answers_without_a_note(folder):
    process = predict(folder)
    assert json.loads(process.stdout)["label"] == "good"
    assert (process.returncode, process.stderr) == (0, "")


def test_a_vocabulary_that_was_copied_in_part_is_refused(folder):
    path = folder / "vocab.txt"
    path.write_bytes(path.read_bytes()[:-6])  # Without most of "film\nfine\n".
    # ... and one of as many entries, in another order.
    refused(folder, str(path), "has 6 entries", "was exported with 8 and")
    path.write_text("".join(f"{entry}\n" for entry in reversed(ENTRIES)))
    refused(folder, str(path), "has 8 entries", "was exported with 8 and")


def test_labels_of_another_model_are_refused(folder):
    change(folder, labels=["bad", "good", "so so"])
    refused(folder, "3 labels in model.json", "with 2 classes")


def test_a_network_with_other_classes_is_refused(folder):
    (folder / "model.onnx").write_text("3")
    refused(folder, "3 outputs of model.onnx", "with 2 classes")


def test_an_export_of_an_earlier_version_opens_with_a_note(folder):
    names = ("vocab_size", "vocab_sha256", "num_classes")
    change(folder, **dict.fromkeys(names))
    process = predict(folder)
    assert json.loads(process.stdout)["label"] == "good"
    (line,) = process.stderr.splitlines()
    assert line.startswith(
        f"note: {folder}/model.json is of an earlier version"
    )
