"""Path of a checkpoint -> the name of its format."""

import fnmatch
import importlib
import os
import re
import types
from typing import NoReturn

from bert_tf.checkpoint import checksums, model_folders, run_models
from bert_tf.checkpoint.options import EXPECTED_FILES, OURS
from tfrecords.io import json_files

# Imported on first use, as some need libraries that others do not.
_MODULES = {
    OURS: "bert_tf.checkpoint.model_folders",
    "google": "bert_tf.checkpoint.formats.google.tf1_checkpoint",
    "hugging_face": "bert_tf.checkpoint.formats.hugging_face.pretrained",
    "model_garden": "bert_tf.contrib.formats.model_garden.tf2_checkpoint",
    "keras_hub": "bert_tf.contrib.formats.keras_hub.preset",
}
# Names in a folder without a model, or of a file -> what it is, and what to do.
_NO_MODELS = {
    "*.zip *.tar *.tar.* *.tgz": "an archive: unpack it, and give the folder "
    "in it",
    "*.csv *.tsv *.jsonl *.parquet *.txt.gz": "a table or text, not a model: "
    "it is what a model is trained on, or predicts",
    "*.tfrecord *.tfrecord-*": "a file of records, not a model: a run that "
    "trains on them writes models to its output_dir",
    "models--* snapshots": "part of the cache of Hugging Face's hub: give the "
    "folder in models--*/snapshots that has the model's config.json",
    "run.json": "of a run that has saved no model yet: wait for its first "
    "checkpoint, or run its command again",
    "tokenizer*.json vocab.txt": "part of a tokenizer, which has no weights: "
    "copy the model's config.json and weights beside it",
}
# A name on Hugging Face's hub: `name` or `owner/name`.
_HUB_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*")
_MAX_NAMES = 5  # Of a folder's content, in messages.


def is_ours(path: str) -> bool:
    """Returns whether `path` is a bert_tf model folder or run folder.

    Raises:
      DamagedError: (a ValueError) if it is one, but damaged.
    """
    try:
        folder = run_models.find(path)
    except checksums.DamagedError:
        raise
    except ValueError:
        return False
    # Other formats have a model.safetensors too.
    return os.path.isfile(os.path.join(folder, model_folders.METADATA))


def is_hugging_face(path: str) -> bool:
    """Returns whether a folder is a Hugging Face model, BERT or not."""
    # sentence-transformers.
    if os.path.isfile(os.path.join(path, "modules.json")):
        return True
    if _read_config(path) is not None:
        return not is_keras_hub(path)
    from bert_tf.checkpoint.formats.hugging_face import weight_files

    return os.path.isdir(path) and any(
        map(weight_files.is_weights, os.listdir(path))
    )


def _read_config(folder: str) -> dict | None:
    """Returns the content of config.json, or None if missing or damaged."""
    path = os.path.join(folder, "config.json")
    try:
        return json_files.read(path) if os.path.isfile(path) else None
    except ValueError:
        return None


def is_keras_hub(path: str) -> bool:
    """Returns whether a folder is a KerasHub preset, BERT or not."""
    # The name of a Keras class; Hugging Face's config.json has none.
    return "registered_name" in (_read_config(path) or {})


def detect_all(path: str) -> list[str]:
    """Returns the names of all formats that the files at `path` match.

    Raises:
      DamagedError: as in `is_ours`.
    """
    if is_ours(path):
        return [OURS]
    # Not for a folder of ours.
    from bert_tf.checkpoint.formats.google import tf_files

    matches = {
        "google": tf_files.prefixes(path, "TF1"),
        "hugging_face": is_hugging_face(path),
        "model_garden": tf_files.prefixes(path, "TF2"),
        "keras_hub": is_keras_hub(path),
    }
    return [name for name, is_match in matches.items() if is_match]


def detect(path: str) -> str:
    """Returns the name of a checkpoint's format.

    Raises:
      ValueError: if there is no checkpoint of a known format, or there are
        checkpoints of several formats.
    """
    found = detect_all(path)
    if found[1:] and found[0] == "google" and not _has_weights(path):
        found = found[:1]  # The config.json is of another release of it.
    if len(found) > 1:
        raise ValueError(
            f"{path} has models of {len(found)} formats: {', '.join(found)}. "
            "Keep one of them in a folder of its own; a TensorFlow checkpoint "
            "can also be given by its prefix, such as "
            f"{os.path.join(path, 'bert_model.ckpt')}."
        )
    if not found:
        _raise_no_model(path)
    return found[0]


def _has_weights(folder: str) -> bool:
    """Returns whether a folder has weights in a file of Hugging Face."""
    return any(
        name.endswith((".safetensors", ".bin", ".h5"))
        for name in os.listdir(folder)
    )


def _raise_no_model(path: str) -> NoReturn:
    """Raises ValueError: says what was found instead, and what would work."""
    if not os.path.exists(path):
        folder, name = os.path.split(path.rstrip("/"))
        advice, own = "", f"models/{name}"  # As the command below writes it.
        if name and os.path.isdir(own):
            advice = f" There is {own}."
        # Not of a mistyped folder in one that is there.
        elif _HUB_NAME.fullmatch(path) and not (
            folder and os.path.exists(folder)
        ):
            advice = (
                " A model of this name on Hugging Face's hub is downloaded by: "
                f"hf download {path} --local-dir {own}"
            )
        raise ValueError(
            f"{path} does not exist. Give the folder of a model.{advice}"
        )
    from bert_tf.checkpoint.formats.hugging_face import weight_files

    is_file = os.path.isfile(path)
    names = [os.path.basename(path)] if is_file else sorted(os.listdir(path))
    other = weight_files.describe(path)
    if not {"config.json", "bert_config.json"}.intersection(names):
        other = other or _describe(names)  # With one, files are missing.
    if is_file:
        folder = os.path.dirname(path)
        raise ValueError(
            os.path.join(folder, other)
            if other
            else f"{path} is a file. Give the folder of its model."
        )
    if "config.json" in names:
        json_files.read(os.path.join(path, "config.json"))  # Is it damaged?
    inside = [name for name in names if _is_model(os.path.join(path, name))]
    if "saved_model.pb" in names:  # Its variables look like a checkpoint.
        advice = (
            "It is a SavedModel: predict takes it as --export_dir, and "
            "tf.saved_model.load loads it. Give the folder that it was "
            "exported from."
        )
    elif inside:
        advice = (
            f"Give one of the models in it: {', '.join(inside[:_MAX_NAMES])}."
        )
    elif other:
        advice = other
    else:
        files = (f"{EXPECTED_FILES[name]} ({name})" for name in EXPECTED_FILES)
        advice = f"Give a folder with {'; or '.join(files)}."
    more = ", ..." if len(names) > _MAX_NAMES else ""
    raise ValueError(
        f"{path} contains no model; found: "
        f"{', '.join(names[:_MAX_NAMES]) or 'nothing'}{more}. {advice}"
    )


def _describe(names: list[str]) -> str | None:
    """Returns which of the files in a folder is no model, and what to do."""
    for patterns, text in _NO_MODELS.items():
        for pattern in patterns.split():
            for name in fnmatch.filter(names, pattern):
                return f"{name} is {text}."
    return None


def _is_model(folder: str) -> bool:
    try:
        return os.path.isdir(folder) and bool(detect_all(folder))
    except checksums.DamagedError:
        return False


def format_module(name: str) -> types.ModuleType:
    """Imports the module that reads and writes a format, one with these names.

        read(path)                returns Contents; ValueErrors name the path
        write(contents, folder)   writes to `folder`, made by `atomic_folder`
        WRITES                    patterns of the paths that `write` creates

    All but our own have this, too:

        table(config, task)       the rename table
    """
    return importlib.import_module(_MODULES[name])
