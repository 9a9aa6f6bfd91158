"""Random Contents of any task -> folders of each format, Adam's moments."""

import dataclasses

import h5py
import numpy as np
import safetensors.numpy
import tensorflow as tf

from bert_tf.checkpoint import contents, detection
from bert_tf.checkpoint.formats import h5_files
from tfrecords.io import atomic_files

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nof\n"
LABELS = ("no", "maybe", "yes")


def contents_of(config, task, lacking=(), **settings):
    """Returns Contents with random weights; `lacking` are their prefixes."""
    labels = LABELS if task in contents.WITH_LABELS else ()
    rng = np.random.default_rng(3)
    tensors = {
        name: rng.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in contents.shapes(config, task, len(labels)).items()
    }
    return contents.Contents(
        source="test",
        config=config,
        task=task,
        labels=labels,
        tensors={
            name: tensor
            for name, tensor in tensors.items()
            if not name.startswith(tuple(lacking))
        },
        **settings,
    )


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


def to_h5(folder):
    """Writes the weights as the TF classes of transformers 4 did."""
    path = folder / "model.safetensors"
    with h5py.File(folder / "tf_model.h5", "w") as file:
        file.create_group("top_level_model_weights")
        for name, tensor in safetensors.numpy.load_file(path).items():
            *parts, last = name.split(".")
            if "LayerNorm" in parts:
                last = {"weight": "gamma", "bias": "beta"}[last]
            elif last == "weight" and "embeddings" not in parts:
                last, tensor = "kernel", tensor.T
            name = "/".join([*parts, last]).replace("/layer/", "/layer_._")
            if parts[0] == "cls":
                name = ("mlm___" if "predictions" in parts else "nsp___") + name
            file[f"{name.split('/')[0]}/tf_bert_model/{name}:0"] = tensor
    for file in (path, *folder.glob("bert_tf.*")):
        file.unlink()


def to_saved_model(folder, target):
    """Writes the weights of its tf_model.h5 as TF classes exported them."""
    module = tf.__internal__.tracking.AutoTrackable()  # Not a tf.Module.
    tensors = h5_files.read(str(folder / "tf_model.h5"))
    module.variables = [
        tf.Variable(
            np.array(tensor),
            name=path.partition("/")[2].removesuffix(":0"),
        )
        for path, tensor in tensors.items()
    ]
    tf.saved_model.save(module, str(target))
