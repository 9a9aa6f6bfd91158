"""Task or kind of export -> a tiny model, its folder and its exports."""

import dataclasses
import importlib.util
import json
import pathlib
import subprocess
import sys
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from tfrecords.io import atomic_files

VOCAB_FILE = str(pathlib.Path(__file__).parent / "data" / "vocab.txt")
MAX_SEQ_LENGTH = 16
LABELS = ["bad", "good", "so so"]
# Kind -> task of its model, if that has another name.
TASKS = {
    "question_answering": "spans",
    "fill_mask": "pretraining",
    "pseudo_log_likelihood": "pretraining",
    "encoder": "regression",
    "ranking": "regression",
    "sentence_embedding": "pretraining",
    "token_vectors": "tagging",
}
# Of the model of vectors: entries of its model.json.
PROMPTS = {
    "prompts": {"query": "the ", "a passage": "old bread:", "text": ""},
    "default_prompt_name": "query",
}
# Kinds whose model does not split "[SEP]" in a text.
KEEPING = (
    *("classification", "question_answering", "sentence_embedding"),
    "pseudo_log_likelihood",
)
# Of the model of several labels; each label has its own.
THRESHOLDS = [0.3, 0.5, 0.7]
# Kind -> settings that are not in model.json.
SETTINGS = {
    "fill_mask": {"top_k": 3},
    "pseudo_log_likelihood": {"within_word_masking": True},
    "sentence_embedding": {"layers": ("-1", "-2")},
    # n_best_size is the number of tokens in a window, so every span is
    # considered.
    "question_answering": {
        "doc_stride": 4,
        "max_query_length": 4,
        "n_best_size": 16,
    },
}
_PASSAGE = (
    "The cat sat on the warm stone. It rained, and old bread was told. " * 2
)
_PAIRS = [
    {"text_a": "The cat sat on the warm stone."},
    {"text_a": "It was told.", "text_b": "caf\u00e9 ship \u6f22\u5b57"},
    {"text_a": "old bread " * 20, "text_b": "a ship"},
]
_OF_WORDS = [
    {"text": "The cat (old) sat on U.N. bread, told\u3000it. " * 3},
    {"text": "a ship"},
    {"words": ["The", "cat", "sat."]},
]
# Kind -> some texts, also of the reports of its exports.
TEXTS = {
    "classification": _PAIRS,
    "multi_label": _PAIRS,
    "regression": _PAIRS,
    "encoder": _PAIRS,
    "question_answering": [
        {"question": "Who sat?", "context": _PASSAGE},
        {"question": "Why?", "context": "The cat."},
        {"question": "Why?", "context": ""},
    ],
    "tagging": _OF_WORDS,
    "token_vectors": _OF_WORDS,
    "multiple_choice": [
        {"context": "The cat sat.", "endings": ["on bread", "a ship", "it"]},
        {"context": "It rained.", "endings": ["all day", "old"]},
    ],
    "ranking": [
        {
            "query": "Who sat?",
            "passages": ["It rained.", "The cat sat.", "It rained.", "a ship"],
        },
        {"query": "caf\u00e9 \u6f22", "passages": ["old bread " * 20, "a"]},
        {"query": "a", "passages": ["bread"]},
    ],
    "fill_mask": [
        {"text": "the [MASK] sat on [MASK]."},
        {"text": "a [MASK] ship"},
        {"text": "no mask"},
    ],
    "pseudo_log_likelihood": [
        {"text": "The cat sat on bread."},
        {"text": "caf\u00e9 told"},
        {"text": "a"},
    ],
    "sentence_embedding": [{"text": "The cat sat."}, {"text": "a"}],
}
# A graph may sum in another order than eager operations.
ROUNDING = dict(atol=1e-5, rtol=1e-5)


def strings(values) -> list[str]:
    """Returns the elements of a string tensor as a flat list of str."""
    return [value.decode() for value in np.ravel(values)]


def make_model(
    task: str,
    num_hidden_layers: int = 1,
    dtype: str | None = None,
    **settings: Any,
) -> keras.Model:
    """Returns a model with weights large enough for answers to differ.

    `settings` are further fields of its BertConfig.
    """
    from bert_tf import config
    from bert_tf.model import models

    with open(VOCAB_FILE, encoding="utf-8") as file:
        vocab_size = sum(1 for _ in file)
    sizes = config.BertConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        num_hidden_layers=num_hidden_layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        initializer_range=0.5,
        **settings,
    )
    keras.utils.set_random_seed(1)
    return models.for_task(task, sizes, len(LABELS), dtype=dtype)


def save_model(
    model: keras.Model,
    task: str,
    folder: pathlib.Path,
    vocab_file: str = VOCAB_FILE,
    **more,
):
    """Writes a model folder like training does; `more` is added to metadata."""
    from bert_tf.checkpoint import model_folders

    metadata = {
        "task": task,
        "do_lower_case": True,
        "max_seq_length": MAX_SEQ_LENGTH,
        "labels": LABELS,
    }
    if task == "multi_label":
        metadata["thresholds"] = THRESHOLDS
    metadata |= more
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(
            aside,
            model,
            metadata=metadata,
            vocabulary=vocab_file and pathlib.Path(vocab_file).read_bytes(),
        )


def inputs(rows: list[dict[str, Any]]) -> list:
    """Returns rows of `TEXTS` as inputs of a Predictor."""
    return [
        tuple(row["words"]) if "words" in row else row.get("text", row)
        for row in rows
    ]


def make_for(kind: str) -> keras.Model:
    """Returns a model for a kind, with biases as after training: not zero."""
    two = kind in ("encoder", "sentence_embedding", "token_vectors")
    model = make_model(TASKS.get(kind, kind), num_hidden_layers=1 + two)
    rng = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign_add(rng.normal(0.0, 0.1, weight.shape))
    return model


def model_folder(made_once, kind: str) -> pathlib.Path:
    """Returns the folder of `make_for`, made once a session."""

    def make(folder):
        model = make_for(kind)
        more = dict(PROMPTS) if kind == "sentence_embedding" else {}
        if kind in KEEPING:
            more["split_special_tokens"] = False
        save_model(model, TASKS.get(kind, kind), folder / "model", **more)
        if kind == "sentence_embedding":
            layers = len(SETTINGS[kind]["layers"])
            _add_modules(
                folder / "model", 2 * layers * model.config.hidden_size
            )

    return made_once(f"model_{kind}", make) / "model"


def _add_modules(folder, width):
    """Gives a model folder pooling, a dense layer and normalization."""
    from bert_tf.checkpoint import model_folders
    from bert_tf.model import sentence_embedding

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


def write(model_dir, export_dir, *words: str) -> None:
    """Runs export_savedmodel; `words` are more of its flags."""
    from run_scripts import export_savedmodel

    paths = f"--model_dir={model_dir}", f"--export_dir={export_dir}"
    export_savedmodel.main(["export_savedmodel", *paths, *words])


def write_kind(made_once, kind: str, *words: str) -> pathlib.Path:
    """Returns the folder of a kind's export, made once a session.

    Args:
      made_once: the fixture.
      kind: name of the kind.
      *words: more flags; TEXTS in them is the path of `TEXTS[kind]`.
    """
    source = model_folder(made_once, kind)
    settings = {
        name: ",".join(value) if isinstance(value, tuple) else value
        for name, value in SETTINGS.get(kind, {}).items()
    }
    flags = [f"--{name}={value}" for name, value in settings.items()]
    kinds = "encoder", "token_vectors", "sentence_embedding"
    if kind in (*kinds, "pseudo_log_likelihood", "ranking"):
        flags.append(f"--kind={kind}")

    def make(folder):
        # Layers have the names of a new process, and files their sizes.
        keras.backend.clear_session()
        texts = folder / "texts.jsonl"
        lines = [json.dumps(text) + "\n" for text in TEXTS[kind]]
        texts.write_text("".join(lines))
        more = [word.replace("TEXTS", str(texts)) for word in words]
        write(source, folder / "export", *flags, *more)

    return made_once("_".join(["export", kind, *words]), make) / "export"


class Export(NamedTuple):
    """A Keras model, the folder of its SavedModel, and that SavedModel."""

    model: keras.Model
    path: str
    loaded: Any


class Shipped(NamedTuple):
    """An export for another runtime: its folder, and its report."""

    folder: pathlib.Path
    report: dict

    def run(self, lines: bytes, *words: str) -> subprocess.CompletedProcess:
        """Runs the shipped predict.py with JSON lines, in its own process."""
        return subprocess.run(
            # -I: neither this folder nor PYTHONPATH is searched.
            [sys.executable, "-IB", "-c", _RUN, str(self.folder), *words],
            input=lines,
            capture_output=True,
        )

    def predict(self, texts) -> list[dict]:
        """Returns its answers to texts, each a dict of fields."""
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        process = self.run(lines.encode())
        assert process.returncode == 0, process.stderr
        return [json.loads(line) for line in process.stdout.splitlines()]


_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import predict
try:
    predict.main(["--input_format=jsonl", *sys.argv[2:]])
finally:
    forbidden = ("tensorflow", "keras", "bert_tf", "tfrecords")
    assert not set(sys.modules) & set(forbidden), "it imports TensorFlow"
"""


def need_format(name: str) -> None:
    """Skips the test if a package of the format is missing."""
    from bert_tf.contrib.runtimes import config

    for module in (*config.MODULES[name], *config.QUANTIZERS.get(name, ())):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; run make parity")


def ship(made_once, kind: str, name: str, *words: str) -> Shipped:
    """Returns the export of a kind for a format, made once a session."""
    need_format(name)
    words = (f"--format={name}", "--report_file=TEXTS", *words)
    folder = write_kind(made_once, kind, *words)
    report = json.loads((folder / "report.json").read_text())
    return Shipped(folder, report)
