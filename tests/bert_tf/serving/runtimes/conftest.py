"""Kinds of export, formats -> tiny models in the folders of their exports."""

import dataclasses
import functools
import hashlib
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from bert_tf.checkpoint import model_folders

# Kind -> task of its model.
TASKS = {
    "classification": "classification",
    "regression": "regression",
    "question_answering": "spans",
    "tagging": "tagging",
    "multiple_choice": "multiple_choice",
    "fill_mask": "pretraining",
    "sentence_embedding": "pretraining",
    "encoder": "regression",
}
# Settings that are not in model.json.
WORDS = {
    "fill_mask": ["--top_k=3"],
    "sentence_embedding": ["--layers=-1,-2"],
    "question_answering": [
        "--doc_stride=4",
        "--max_query_length=4",
        "--n_best_size=8",
    ],
}
PASSAGE = (
    "The cat sat on the warm stone. It rained, and old bread was told. " * 2
)
_PAIRS = [
    {"text_a": "The cat sat on the warm stone."},
    {"text_a": "It was told.", "text_b": "caf\u00e9 ship \u6f22\u5b57"},
    {"text_a": "old bread " * 20, "text_b": "a ship"},
]
TEXTS = {
    "classification": _PAIRS,
    "regression": _PAIRS,
    "encoder": _PAIRS,
    "question_answering": [
        {"question": "Who sat?", "context": PASSAGE},
        {"question": "Why?", "context": "The cat."},
        {"question": "Why?", "context": ""},
    ],
    "tagging": [
        {"text": "The cat (old) sat on U.N. bread, told\u3000it. " * 3},
        {"text": "a ship"},
        {"words": ["The", "cat", "sat."]},
    ],
    "multiple_choice": [
        {"context": "The cat sat.", "endings": ["on bread", "a ship", "it"]},
        {"context": "It rained.", "endings": ["all day", "old"]},
    ],
    "fill_mask": [
        {"text": "the [MASK] sat on [MASK]."},
        {"text": "a [MASK] ship"},
        {"text": "no mask"},
    ],
    "sentence_embedding": [{"text": "The cat sat."}, {"text": "a"}],
}


def add_modules(folder, width):
    """Gives a model folder pooling, a dense layer and normalization."""
    from bert_tf.model import sentence_embedding
    from tfrecords.io import atomic_files

    rng = np.random.default_rng(3)
    kernel = rng.normal(size=(width, 3)).astype(np.float32)
    dense = sentence_embedding.Dense(kernel, kernel[0], "tanh")
    embedding = sentence_embedding.SentenceEmbedding(
        ("mean", "max"), (dense, sentence_embedding.Normalize())
    )
    given = dataclasses.replace(
        model_folders.read(str(folder)), sentence_embedding=embedding
    )
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.write(given, aside)


class Exported(NamedTuple):
    """Model folder, the folder of its export, the report of the export."""

    model_dir: pathlib.Path
    folder: pathlib.Path
    report: dict

    def predict(self, texts) -> list[dict]:
        """Answers of the shipped predict.py, in a process of its own."""
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        process = subprocess.run(
            # -I: neither this folder nor PYTHONPATH is searched.
            [sys.executable, "-IB", "-c", _RUN, str(self.folder)],
            input=lines,
            capture_output=True,
            check=True,
            text=True,
        )
        return [json.loads(line) for line in process.stdout.splitlines()]


_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import predict
predict.main(["--input_format=jsonl"])
forbidden = ("tensorflow", "keras", "bert_tf", "tfrecords")
assert not set(sys.modules) & set(forbidden), "it imports TensorFlow"
"""


def export(model_dir, folder, *words):
    from run_scripts import export_savedmodel

    export_savedmodel.main(
        [
            "export_savedmodel",
            f"--model_dir={model_dir}",
            f"--export_dir={folder}",
            *words,
        ]
    )


@pytest.fixture(scope="session", name="export")
def export_fixture():
    """`export`, for tests that cannot import this file."""
    return export


@pytest.fixture
def need_format():
    """Returns a function that skips the test if a format's extra is missing."""
    from bert_tf.serving.runtimes import config

    def check(name):
        modules = (*config.MODULES[name], *config.QUANTIZERS.get(name, ()))
        for module in modules:
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"{module} is not installed; run make parity")

    return check


@pytest.fixture(scope="session")
def model_of(made_once):
    """Kind -> folder of a tiny model with random weights for it."""

    @functools.cache
    def make(kind, **settings):
        import exports

        def write(folder):
            task = TASKS[kind]
            two = kind in ("encoder", "sentence_embedding")
            model = exports.make_model(task, num_hidden_layers=1 + two)
            # Biases that are not zero, as after training.
            rng = np.random.default_rng(2)
            for weight in model.trainable_variables:
                weight.assign_add(rng.normal(0.0, 0.1, weight.shape))
            exports.save_model(model, task, folder / "model", **settings)
            if kind == "sentence_embedding":
                add_modules(folder / "model", 2 * 2 * model.config.hidden_size)

        name = "_".join(["runtime_model", kind, *settings])
        return made_once(name, write) / "model"

    return make


@pytest.fixture
def exported(need_format, model_of, made_once):
    """Kind, format, more flags -> Exported, made once a session."""

    def make(kind, name, *words):  # TEXTS in words is the path of texts.
        need_format(name)
        model_dir = model_of(kind)

        def write(folder):
            lines = [json.dumps(text) + "\n" for text in TEXTS[kind]]
            texts = folder / "texts.jsonl"
            texts.write_text("".join(lines))
            export(
                model_dir,
                folder / "export",
                f"--format={name}",
                f"--kind={kind}",
                f"--report_file={texts}",
                *WORDS.get(kind, ()),
                *(word.replace("TEXTS", str(texts)) for word in words),
            )

        title = "_".join(["runtime", kind, name, *words])
        folder = made_once(title, write) / "export"
        report = json.loads((folder / "report.json").read_text())
        return Exported(model_dir, folder, report)

    return make


@pytest.fixture(scope="session")
def texts_of():
    """Kind -> some texts of it."""
    return TEXTS


@pytest.fixture(scope="session")
def words_of():
    """Kind -> flags for settings that are not in model.json."""
    return WORDS


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
    from bert_tf.serving.runtimes import tokenizer

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
