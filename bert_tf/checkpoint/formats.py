"""Path of a checkpoint -> its format, or a bert_tf model folder made from it.

Each format has a converter, a module that is imported on first use and defines:

    read(path)                returns a Checkpoint; ValueErrors name the path
    write(checkpoint, folder) writes to `folder`, made by `atomic_folder`
    WRITES                    patterns of the paths that `write` creates

All converters but our own also define:

    table(config, task)       the rename table
    PEER                      name of the reference implementation
    reference_outputs(path, batch)  outputs of the PEER for a `parity.batch`,
                              some or all of those of `parity.outputs`, with the
                              same names; None if the PEER is not installed
"""

import contextlib
import dataclasses
import hashlib
import importlib
import os
import re
import types
from collections.abc import Iterator
from typing import NoReturn

from absl import logging

from tfrecords.io import atomic_files, json_files
from tfrecords.options import Options, option

OURS = "bert_tf"
# Format name, as on the command line -> converter module, expected files.
CONVERTERS = {
    OURS: "bert_tf.checkpoint.checkpoint",
    "google": "bert_tf.checkpoint.google.tf1_checkpoint",
    "hugging_face": "bert_tf.checkpoint.hugging_face.pretrained",
    "model_garden": "bert_tf.checkpoint.model_garden.tf2_checkpoint",
    "keras_hub": "bert_tf.checkpoint.keras_hub.preset",
}
EXPECTED = {
    OURS: "model.safetensors, model.json and bert_config.json, or the "
    "output_dir of a run",
    "google": "bert_model.ckpt.index, bert_model.ckpt.data-00000-of-00001 "
    "(or those of another prefix), bert_config.json and vocab.txt",
    "hugging_face": "config.json, model.safetensors, pytorch_model.bin or "
    "tf_model.h5, and vocab.txt or tokenizer.json",
    "model_garden": "a TensorFlow 2 checkpoint, ckpt-1.index and "
    "ckpt-1.data-00000-of-00001",
    "keras_hub": "config.json, model.weights.h5 and the tokenizer's assets",
}
# Values of hidden_act: "gelu" is not the same function everywhere.
ACTIVATIONS = {
    "gelu": "tanh approximation of GELU, the original's gelu",
    "gelu_erf": "exact GELU by erf, called gelu by Hugging Face",
    "relu": "ReLU",
    "tanh": "tanh",
}
# Weight files of Hugging Face, single or sharded.
_PRETRAINED = re.compile(
    r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)"
    r"|(model\.safetensors|pytorch_model\.bin)(\.index\.json)?"
)
# Subfolders of KerasHub and sentence-transformers folders.
_FOLDERS_INSIDE = re.compile(r"assets|tokenizer|\d+_\w+")
_MOST_NAMES = 5  # Of a folder's content, in messages.


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """How to read a checkpoint of any format."""

    accept_tokenizer_differences: bool = option(
        False,
        "Use a checkpoint although its own tokenizer does what BERT's does "
        "not, such as keeping tokens that were added to the vocabulary.",
    )


def is_ours(path: str) -> bool:
    """Returns whether `path` is a bert_tf model folder or run folder.

    Raises:
      DamagedError: (a ValueError) if it is one, but damaged.
    """
    from bert_tf.checkpoint import checksums, model_folders, run_models

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
    return os.path.isdir(path) and any(
        map(_PRETRAINED.fullmatch, os.listdir(path))
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


def find_all(path: str) -> list[str]:
    """Returns the names of all formats that the files at `path` match.

    Raises:
      DamagedError: as in `is_ours`.
    """
    if is_ours(path):
        return [OURS]
    from bert_tf.checkpoint.google import tf_files

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
    found = find_all(path)
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
        raise ValueError(
            f"{path} does not exist. Give the folder of a model; models are "
            "not downloaded by name."
        )
    if os.path.isfile(path):
        raise ValueError(f"{path} is a file. Give the folder of its model.")
    names = sorted(os.listdir(path))
    if "config.json" in names:
        json_files.read(os.path.join(path, "config.json"))  # Is it damaged?
    inside = [name for name in names if _is_model(os.path.join(path, name))]
    if inside:
        advice = (
            f"Give one of the models in it: {', '.join(inside[:_MOST_NAMES])}."
        )
    elif "saved_model.pb" in names:
        advice = (
            "It is a SavedModel; tf.saved_model.load loads it. Give the folder "
            "that it was exported from."
        )
    else:
        files = (f"{EXPECTED[name]} ({name})" for name in EXPECTED)
        advice = f"Give a folder with {'; or '.join(files)}."
    more = ", ..." if len(names) > _MOST_NAMES else ""
    raise ValueError(
        f"{path} contains no model; found: "
        f"{', '.join(names[:_MOST_NAMES]) or 'nothing'}{more}. {advice}"
    )


def _is_model(folder: str) -> bool:
    from bert_tf.checkpoint import checksums

    try:
        return os.path.isdir(folder) and bool(find_all(folder))
    except checksums.DamagedError:
        return False


def converter(name: str) -> types.ModuleType:
    """Imports the converter of the format `name`, a key of `CONVERTERS`."""
    return importlib.import_module(CONVERTERS[name])


def source_digest(path: str) -> str | None:
    """Returns a sha256 of the names, sizes and mtimes of a checkpoint's files.

    None if the checkpoint no longer exists. If `path` is the prefix of a
    TensorFlow checkpoint, all files of its folder are included, since config
    and vocabulary are among them.
    """
    is_folder = os.path.isdir(path)
    top = path if is_folder else os.path.dirname(os.path.abspath(path))
    prefix = "" if is_folder else os.path.basename(path)
    lines, is_there = [], False
    for inside, folders, names in os.walk(top):
        known = filter(_FOLDERS_INSIDE.fullmatch, folders)
        folders[:] = known if is_folder else ()
        for name in names:
            file = os.path.join(inside, name)
            # isfile is False for broken links, which are ignored.
            if name.startswith(".") or not os.path.isfile(file):
                continue
            is_there |= name.startswith(prefix)
            state = os.stat(file)
            relative = os.path.relpath(file, top)
            lines.append(f"{relative} {state.st_size} {state.st_mtime_ns}\n")
    if not is_there:
        return None
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _was_converted(path: str, folder: str, *, again: bool) -> bool:
    """Returns whether `folder` was converted from `path`; logs the result."""
    from bert_tf.checkpoint import checkpoint, model_folders
    from tfrecords.io import stored_folders

    if not os.path.isfile(os.path.join(folder, model_folders.METADATA)):
        return False
    metadata = model_folders.read_metadata(folder)
    given = stored_folders.address(os.path.abspath(path))
    # Older folders have the path itself.
    if metadata.get("source", "").partition(" ")[2] != given and metadata.get(
        checkpoint.SOURCE_PATH
    ) != checkpoint.digest_of_path(given):
        return False
    digest = source_digest(path)
    has_changed = digest not in (None, metadata.get(checkpoint.SOURCE_FILES))
    if has_changed and again:
        logging.info("%s has changed since its conversion; converting", path)
        return False
    logging.info(
        "Using %s, converted earlier from %s%s; remove it to convert again",
        folder,
        path,
        ", which has changed since" if has_changed else "",
    )
    return True


def as_model_folder(
    path: str,
    folder: str,
    *,
    again: bool = True,
    accept_tokenizer_differences: bool = False,
) -> str:
    """Returns a bert_tf model folder for a checkpoint of any format.

    Args:
      path: a bert_tf run or model folder, for which the model folder itself is
        returned, or a checkpoint of another format.
      folder: where to keep the converted model. The folder is reused if an
        earlier call converted the same path, and its files have not changed
        or were deleted since.
      again: whether to convert again if the files have changed. False for a
        run that has started, whose vocabulary and config are in `folder`.
      accept_tokenizer_differences: as for `convert.read`.

    Raises:
      ValueError: as in `convert.convert`.
    """
    if os.path.isdir(folder) and _was_converted(path, folder, again=again):
        return folder
    from bert_tf.checkpoint import run_models

    if detect(path) == OURS:
        return run_models.find(path)
    from bert_tf.checkpoint import convert

    report = convert.convert(
        path,
        OURS,
        folder,
        overwrite=True,
        compare=False,
        accept_tokenizer_differences=accept_tokenizer_differences,
    )
    for line in report:
        logging.info("%s", line)
    return folder


@contextlib.contextmanager
def open_model_folder(
    path: str, accept_tokenizer_differences: bool = False
) -> Iterator[str]:
    """Yields a bert_tf model folder for a checkpoint of any format.

    A model of another format is converted to a temporary folder; a ValueError
    that names a file there is given the source's folder instead.

    Raises:
      ValueError: as in `convert.convert`.
    """
    source = path if os.path.isdir(path) else os.path.dirname(path)
    with atomic_files.temporary_folder() as parent:
        converted = os.path.join(parent, "model")
        try:
            yield as_model_folder(
                path,
                converted,
                accept_tokenizer_differences=accept_tokenizer_differences,
            )
        except ValueError as error:
            if converted in str(error):
                error.args = (str(error).replace(converted, source or "."),)
            raise
