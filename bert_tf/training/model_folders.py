"""Model <-> folder with its weights and metadata, whole or absent.

A model folder holds `model.safetensors` (weights by name), `bert_config.json`,
`model.json` and `vocab.txt`: all that export needs.
"""

import hashlib
import json
import math
import os
import shutil
import struct
from collections.abc import Collection, Mapping

import keras
import numpy as np
import safetensors
from safetensors import numpy as safetensors_numpy

from bert_tf.config import BertConfig
from bert_tf.training import checksums
from tfrecords.io import atomic_files

WEIGHTS = "model.safetensors"
CONFIG = "bert_config.json"
METADATA = "model.json"
VOCABULARY = "vocab.txt"

POOLER = "encoder/pooler/"  # Its weights' names begin so.
_NEWLY_INITIALIZED = "untrained"  # The key in model.json.

# What a .safetensors file calls the types, and their bytes.
_TYPES = {
    "float64": ("F64", 8),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
    "float32": ("F32", 4),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}


def weight_names(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights by path, without the model's own name before it."""
    own = f"{model.name}/"
    return {weight.path.removeprefix(own): weight for weight in model.weights}


def digest(model: keras.Model) -> str:
    """Returns the sha256 of names, types, shapes and bytes of all weights."""
    sha256 = hashlib.sha256()
    for name, weight in sorted(weight_names(model).items()):
        array = np.ascontiguousarray(weight.numpy())
        sha256.update(f"{name} {array.dtype} {array.shape}\n".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()


def write_tensors(tensors: Mapping, path: str) -> None:
    """Writes tensors by name as a .safetensors file, one after the other.

    By hand, since safetensors' own writer needs two more copies of everything
    in memory, and a full disk kills it with a panic on some file systems.
    Format: https://github.com/huggingface/safetensors, "Format".

    Args:
      tensors: name -> array, `keras.Variable` or `tf.Variable`; of variables
        one at a time is copied.
      path: of the file.

    Raises:
      ValueError: that names a tensor of a type that the format does not have.
      OSError: of a full disk, among others.
    """
    header = _header(tensors, path)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    line = text.encode()
    line += b" " * (-len(line) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(line)) + line)
        for name in header:
            file.write(_bytes(tensors[name]))


def _header(tensors: Mapping, path: str) -> dict[str, dict]:
    """Returns name -> type, shape and offsets, in the order of the file."""
    kinds = {}
    for name, tensor in tensors.items():
        kinds[name] = str(getattr(tensor.dtype, "name", tensor.dtype))
        if kinds[name] not in _TYPES:
            raise ValueError(
                f"{name} is {kinds[name]}, which {path} cannot hold. Expected "
                f"one of {', '.join(_TYPES)}."
            )
    # Wide types first, so that each begins at a multiple of its size.
    header, end = {}, 0
    for name in sorted(kinds, key=lambda name: (-_TYPES[kinds[name]][1], name)):
        letters, size = _TYPES[kinds[name]]
        shape = [int(length) for length in tensors[name].shape]
        begin, end = end, end + math.prod(shape) * size
        header[name] = {
            "dtype": letters,
            "shape": shape,
            "data_offsets": [begin, end],
        }
    return header


def _bytes(tensor) -> np.ndarray:
    """Returns a tensor's bytes in the order of the file, uint8 [N]."""
    array = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    if array.dtype.str.startswith(">"):
        array = array.byteswap()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads a .safetensors file, which must be what state.json says of it.

    Raises:
      DamagedError: a ValueError that names the file, if it is missing or
        damaged.
    """
    folder, name = os.path.split(path)
    checksums.check(folder, [name])
    try:
        return safetensors_numpy.load_file(path)
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise checksums.DamagedError(
            f"{path} is missing or damaged ({error}). Take another checkpoint."
        ) from error


def save_model(
    folder: str,
    model: keras.Model,
    *,
    metadata: Mapping,
    vocab_file: str | None = None,
) -> None:
    """Fills `folder`, which must exist, with a model's weights and metadata.

    Args:
      folder: a folder from `atomic_files.atomic_folder`.
      model: a model with a BertConfig as `.config`.
      metadata: task, labels and tokeniser, for `model.json`.
      vocab_file: vocabulary to copy, if any.
    """
    model.config.to_json_file(os.path.join(folder, CONFIG))
    atomic_files.write_json(os.path.join(folder, METADATA), metadata)
    if vocab_file:
        shutil.copyfile(vocab_file, os.path.join(folder, VOCABULARY))
    write_tensors(weight_names(model), os.path.join(folder, WEIGHTS))


def read_metadata(folder: str) -> dict:
    """Returns model.json of a model folder, which has a task at least.

    Raises:
      ValueError: that names the file, if it is missing or says no task.
    """
    path = os.path.join(folder, METADATA)
    values = atomic_files.read_json(path) if os.path.isfile(path) else None
    if not isinstance(values, dict) or not isinstance(values.get("task"), str):
        raise ValueError(
            f"{path} says no task: it is missing, or lacks a line such as "
            '"task": "classification". Take it from where the model was '
            "written, or add the task that the model was trained for."
        )
    return values


def check_partners(
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Raises ValueError, listing all that does not fit, and `source`.

    Args:
      shapes: name -> shape of what the model has.
      tensors: what the checkpoint has.
      source: path of the checkpoint.
    """
    misfits = [
        f"  + in the checkpoint only: {name} {tensors[name].shape}"
        for name in sorted(set(tensors) - set(shapes))
    ]
    misfits += [
        f"  - in the model only:      {name} {tuple(shapes[name])}"
        for name in sorted(set(shapes) - set(tensors))
    ]
    misfits += [
        f"  ! of another size:        {name} {tensors[name].shape} in the "
        f"checkpoint, {tuple(shapes[name])} in the model"
        for name in sorted(set(shapes) & set(tensors))
        if tensors[name].shape != tuple(shapes[name])
    ]
    if misfits:
        raise ValueError(
            f"{len(misfits)} weights have no partner ({source}).\n"
            + "\n".join(misfits)
            + "\nUse the bert_config.json that belongs to the checkpoint."
        )


def assign(
    variables: Mapping,
    tensors: Mapping[str, np.ndarray],
    source: str,
    kept: Collection[str] = (),
) -> None:
    """Gives each variable its tensor, but for the names in `kept`.

    Raises:
      ValueError: that lists all that does not fit, and names `source`.
    """
    shapes = {name: variable.shape for name, variable in variables.items()}
    check_partners(shapes, tensors, source)
    for name, variable in variables.items():
        if name not in kept:
            variable.assign(tensors[name])


def load_weights(model: keras.Model, folder: str) -> None:
    """Loads all weights of a model folder into a model of the same kind.

    Weights that the folder only has since its source lacked them keep their
    first values, which the run's own seed has drawn.

    Raises:
      ValueError: that lists every weight without a partner of its size, or
        names a missing or damaged file.
    """
    path = os.path.join(folder, WEIGHTS)
    assign(
        weight_names(model), read_tensors(path), path, _not_in_source(folder)
    )


def _not_in_source(folder: str) -> set[str]:
    """Returns the weights that were drawn when the folder was converted."""
    path = os.path.join(folder, METADATA)
    metadata = atomic_files.read_json(path) if os.path.exists(path) else {}
    return set(metadata.get("not_in_source", ()))


def load_encoder(model: keras.Model, folder: str) -> None:
    """Loads the encoder's weights alone; heads keep their first weights.

    Args:
      model: a task model, with its encoder as `.encoder`.
      folder: a model folder, of any task.

    Raises:
      ValueError: as `load_weights`.
    """
    _load_encoder(model.encoder, folder)


def _load_encoder(encoder: keras.Model, folder: str) -> None:
    path = os.path.join(folder, WEIGHTS)
    prefix = "encoder/"
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in read_tensors(path).items()
        if name.startswith(prefix)
    }
    kept = {name.removeprefix(prefix) for name in _not_in_source(folder)}
    assign(weight_names(encoder), tensors, path, kept)


def build_encoder(folder: str, dtype: str = "float32") -> keras.Model:
    """Returns the encoder of a model folder, of any task, with its weights.

    Args:
      folder: a model folder.
      dtype: a Keras dtype policy.

    Raises:
      ValueError: as `load_weights`.
    """
    from bert_tf.model import encoder

    config = BertConfig.from_json_file(os.path.join(folder, CONFIG))
    model = encoder.BertEncoder(config, name="encoder", dtype=dtype)
    _load_encoder(model, folder)
    return model


def find_newly_initialized(
    metadata: Mapping, config: BertConfig
) -> tuple[str, ...]:
    """Returns the starts of names of weights that no loss has trained.

    Newly initialized weights must not be served: an export leaves out what is
    computed with them.

    Args:
      metadata: model.json of the model.
      config: its sizes.
    """
    missing = metadata.get("not_in_source", ())
    missing = (*missing, *metadata.get(_NEWLY_INITIALIZED, ()))
    has_pairs = metadata.get("pairs") != "none" and not config.is_causal
    if metadata["task"] == "pretraining" and not has_pairs:
        # Only the loss of next sentences, or of their order, reaches it.
        missing += (POOLER,)
    return missing


def has_pooler(missing: tuple[str, ...]) -> bool:
    """Returns whether the pooler is trained, by `find_newly_initialized`."""
    return not any(name.startswith(POOLER) for name in missing)


def reads_pooler(task: str, config: BertConfig) -> bool:
    """Returns whether the head of a fine-tuned model reads the pooler."""
    tasks = ("classification", "regression", "multiple_choice")
    return task in tasks and not config.bilstm_units


def newly_initialized_metadata(
    task: str, config: BertConfig, source: str | None
) -> dict[str, list[str]]:
    """Returns the part of a fine-tuned model's model.json on such weights.

    Args:
      task: that is trained, a key of `models.TASK_MODELS`.
      config: of the model that is trained.
      source: model folder that it begins with; None for none.

    Raises:
      ValueError: as `read_metadata`.
    """
    if reads_pooler(task, config):
        return {}
    if source:
        metadata = read_metadata(source)
        config = BertConfig.from_json_file(os.path.join(source, CONFIG))
        if has_pooler(find_newly_initialized(metadata, config)):
            return {}
    return {_NEWLY_INITIALIZED: [POOLER]}
