"""Checkpoints -> folders of each format, Adam's slots; equality of tensors."""

import dataclasses

from bert_tf.checkpoint import detection
from tfrecords.io import atomic_files

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nof\n"


def write(given, folder, name="bert_tf"):
    """Writes a Checkpoint in a format and returns the folder's path."""
    with atomic_files.atomic_folder(str(folder)) as aside:
        detection.format_module(name).write(given, aside)
    return str(folder)


def pretraining(given):
    """Returns only a Checkpoint's encoder, which every format can hold."""
    return dataclasses.replace(
        given,
        task="pretraining",
        labels=(),
        tensors={
            n: t for n, t in given.tensors.items() if n.startswith("encoder/")
        },
    )


def moments(given):
    """Returns slots of Adam for all weights of a Checkpoint."""
    return {
        f"{kind}/{name}": tensor + number
        for number, kind in enumerate("mv")
        for name, tensor in given.tensors.items()
    }


def assert_same_bits(found, expected):
    """Checks that tensors have the same names, dtypes, shapes and bytes."""
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert found[name].tobytes() == tensor.tobytes(), name
