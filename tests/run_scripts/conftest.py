"""Tiny model folders -> SavedModels, each made once for all tests here."""

import functools
import pathlib
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from tfrecords.io import atomic_files

from . import c_loader

VOCAB_FILE = str(pathlib.Path(__file__).parents[1] / "data" / "vocab.txt")
MAX_SEQ_LENGTH = 16
LABELS = ["bad", "good", "so so"]
# A graph may add in another order than one operation after the other does.
ROUNDING = dict(atol=1e-5, rtol=1e-5)


def strings(values) -> list[str]:
    """Bytes of any shape -> a list of text."""
    return [value.decode() for value in np.ravel(values)]


def make_model(
    task: str, num_hidden_layers: int = 1, dtype: str | None = None
) -> keras.Model:
    """A model whose weights are large enough for answers to differ."""
    from bert_tf import config
    from bert_tf.model import task_models

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
    )
    keras.utils.set_random_seed(1)
    return task_models.for_task(task, sizes, len(LABELS), dtype=dtype)


def save_model(model: keras.Model, task: str, folder: pathlib.Path, **papers):
    """A model folder, as training leaves it."""
    from bert_tf.training import model_folders

    description = {
        "task": task,
        "do_lower_case": True,
        "max_seq_length": MAX_SEQ_LENGTH,
        "labels": LABELS,
    } | papers
    with atomic_files.whole_folder(str(folder)) as aside:
        model_folders.save_model(
            aside, model, description=description, vocab_file=VOCAB_FILE
        )


@pytest.fixture(scope="session")
def tiny_model_flags(tmp_path_factory, tiny_config, tiny_vocab_file):
    """Flags of every runner that begins from scratch, with `tiny_config`."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    tiny_config.to_json_file(path)
    return [f"--vocab_file={tiny_vocab_file}", f"--bert_config_file={path}"]


class Export(NamedTuple):
    """A Keras model, the folder of its SavedModel, and what loads from it."""

    model: keras.Model
    path: str
    loaded: Any


@pytest.fixture(scope="session")
def c_program(tmp_path_factory):
    """The C program of c_loader, compiled once."""
    return c_loader.compile_program(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Kind of export, further flags -> Export."""
    root = tmp_path_factory.mktemp("exports")
    tasks = {
        "fill_mask": "pretraining",
        "encoder": "regression",
        "sentence_embedding": "pretraining",
        "question_answering": "spans",
    }
    # Nothing of these is said in model.json.
    settings = {
        "fill_mask": ("--top_k=3",),
        "question_answering": ("--max_query_length=12",),
    }

    @functools.cache
    def export(kind: str, *words: str):
        import tensorflow as tf

        from run_scripts import export_savedmodel

        task = tasks.get(kind, kind)
        two_layers = kind in ("encoder", "sentence_embedding")
        model = make_model(task, num_hidden_layers=1 + two_layers)
        # Biases that are not zero, as after training.
        rng = np.random.default_rng(2)
        for weight in model.trainable_variables:
            weight.assign_add(rng.normal(0.0, 0.1, weight.shape))
        name = "".join([kind, *words])
        save_model(model, task, root / f"model_{name}")
        export_savedmodel.main(
            [
                "export_savedmodel",
                f"--model_dir={root / f'model_{name}'}",
                f"--export_dir={root / name}",
                f"--kind={kind if two_layers else 'auto'}",
                *settings.get(kind, ()),
                *words,
            ]
        )
        path = str(root / name)
        return Export(model, path, tf.saved_model.load(path))

    return export
