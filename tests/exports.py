"""Task -> a tiny model folder, for export tests."""

import pathlib
from typing import Any, NamedTuple

import keras
import numpy as np

from tfrecords.io import atomic_files

VOCAB_FILE = str(pathlib.Path(__file__).parent / "data" / "vocab.txt")
MAX_SEQ_LENGTH = 16
LABELS = ["bad", "good", "so so"]
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
    } | more
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(
            aside,
            model,
            metadata=metadata,
            vocabulary=vocab_file and pathlib.Path(vocab_file).read_bytes(),
        )


class Export(NamedTuple):
    """A Keras model, the folder of its SavedModel, and that SavedModel."""

    model: keras.Model
    path: str
    loaded: Any
