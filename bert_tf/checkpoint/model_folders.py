"""Model <-> folder with its weights and metadata.

A model folder contains `model.safetensors` (weights by name),
`bert_config.json`, `model.json` and `vocab.txt`: everything an export needs.
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

from bert_tf.checkpoint import checksums, run_models
from bert_tf.config import BertConfig
from bert_tf.model import lora, sentence_embedding
from tfrecords.io import json_files
from tfrecords.options import quoted, some

WEIGHTS = run_models.WEIGHTS
CONFIG = "bert_config.json"
METADATA = "model.json"
VOCABULARY = "vocab.txt"

POOLER = "encoder/pooler/"  # Prefix of the names of its weights.
# Keys in model.json.
_NEWLY_INITIALIZED = "untrained"
SENTENCE_EMBEDDING = "sentence_embedding"


_MAX_FLOAT = 3e38  # Of float32.
_SIZE = range(1, 2**31)
# Kinds of the entries of model.json, see `json_files.check`.
_ENTRIES = {
    "task?": str,
    "task_name?": str,
    "num_texts?": int,
    "pairs?": str,
    "precision?": str,
    "source?": str,
    "source_files?": str,
    "source_path_sha256?": str,
    "do_lower_case?": bool,
    "do_lower_case_inferred?": bool,
    "strip_accents?": bool,
    "tokenize_chinese_chars?": bool,
    "version_2_with_negative?": bool,
    "max_seq_length?": _SIZE,
    "doc_stride?": _SIZE,
    "max_query_length?": _SIZE,
    "n_best_size?": _SIZE,
    "max_answer_length?": _SIZE,
    "lstm_units?": _SIZE,
    "step?": range(2**63),
    "null_score_diff_threshold?": float,
    "score_range?": [float],
    "labels?": [str],
    "tag_scheme?": str,
    "not_in_source?": [str],
    f"{SENTENCE_EMBEDDING}?": sentence_embedding.SETTINGS,
    f"{_NEWLY_INITIALIZED}?": [str],
}


# Names of dtypes in .safetensors files, and their sizes in bytes.
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
    """Returns path -> weight; paths omit the leading name of the model.

    Adapters are left out: files have ordinary weights, see `merged_weights`.
    """
    own = f"{model.name}/"
    return {
        weight.path.removeprefix(own): weight
        for weight in model.weights
        if not lora.is_factor(weight)
    }


def merged_weights(model: keras.Model) -> dict:
    """Returns path -> weight, to be written: adapters are merged (LoRA)."""
    return lora.merged(model, weight_names(model))


def digest(model: keras.Model) -> str:
    """Returns the sha256 of names, types, shapes and bytes of all weights."""
    return digest_of(merged_weights(model))


def digest_of(tensors: Mapping) -> str:
    """Returns the same for tensors by name, as for `write_tensors`."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        array = _array(tensor)
        sha256.update(f"{name} {array.dtype} {array.shape}\n".encode())
        sha256.update(_bytes(array))
    return sha256.hexdigest()


def write_tensors(tensors: Mapping, path: str) -> None:
    """Writes tensors by name to a .safetensors file, one after the other.

    The writer of the safetensors package is not used: it needs two more copies
    of all tensors in memory, and on some file systems it panics if the disk is
    full. Format: https://github.com/huggingface/safetensors, "Format".

    Args:
      tensors: name -> array, `keras.Variable` or `tf.Variable`; variables are
        copied one at a time.
      path: path of the file.

    Raises:
      ValueError: if the format does not support the dtype of a tensor.
      OSError: if the disk is full, for example.
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
    """Returns name -> dtype, shape and offsets, in the order of the file."""
    kinds = {}
    for name, tensor in tensors.items():
        kinds[name] = str(getattr(tensor.dtype, "name", tensor.dtype))
        if kinds[name] not in _TYPES:
            raise ValueError(
                f"{name} is {kinds[name]}, which {path} cannot store. Expected "
                f"one of {', '.join(_TYPES)}."
            )
    # Wide types first, so that each tensor is aligned to the size of its type.
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


def _array(tensor) -> np.ndarray:
    """Returns the value of an array, `keras.Variable` or `tf.Variable`."""
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor


def _bytes(tensor) -> np.ndarray:
    """Returns a tensor's bytes, little-endian, as uint8 [N]."""
    array = _array(tensor)
    if array.dtype.str.startswith(">"):
        array = array.byteswap()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads a .safetensors file, and checks it against state.json if any.

    Raises:
      DamagedError: a ValueError, if the file is missing or damaged.
    """
    folder, name = os.path.split(path)
    checksums.check(folder, [name])
    try:
        return safetensors_numpy.load_file(path)
    # The last is of shapes that NumPy does not support.
    except (
        safetensors.SafetensorError,
        FileNotFoundError,
        ValueError,
    ) as error:
        raise checksums.DamagedError(
            f"{path} is missing or damaged ({error}). Use another checkpoint."
        ) from error
    # Which of the three is raised depends on the dtype.
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has tensors of a dtype that NumPy lacks ({error}), as in "
            "quantised models. Save the model in float32."
        ) from error


def save_model(
    folder: str,
    model: keras.Model,
    *,
    metadata: Mapping,
    vocab_file: str | None = None,
) -> None:
    """Writes a model's weights and metadata to an existing folder.

    Args:
      folder: a folder from `atomic_files.atomic_folder`.
      model: a model with a BertConfig as `.config`.
      metadata: task, labels and tokenizer, for `model.json`.
      vocab_file: vocabulary to copy, if any.
    """
    save_weights(folder, merged_weights(model), model.config, metadata)
    if vocab_file:
        shutil.copyfile(vocab_file, os.path.join(folder, VOCABULARY))


def save_weights(
    folder: str, weights: Mapping, config: BertConfig, metadata: Mapping
) -> None:
    """Writes weights by name, their config and metadata; see `save_model`."""
    config.to_json_file(os.path.join(folder, CONFIG))
    json_files.write(os.path.join(folder, METADATA), metadata)
    write_tensors(weights, os.path.join(folder, WEIGHTS))


def _read_entries(folder: str) -> dict:
    """Returns the content of model.json without null; {} if it is missing."""
    path = os.path.join(folder, METADATA)
    values = json_files.read(path) if os.path.isfile(path) else {}
    check_entries(values, path)
    return {name: x for name, x in values.items() if x is not None}


def read_metadata(folder: str) -> dict:
    """Returns the content of model.json, which has at least a task.

    Raises:
      ValueError: if the file is missing or has no task.
    """
    values = _read_entries(folder)
    if not values.get("task"):
        path = os.path.join(folder, METADATA)
        raise ValueError(
            f"{path} has no task: the file is missing, or lacks a line such as "
            '"task": "classification". Copy it from the original model folder, '
            "or add the task that the model was trained for."
        )
    return values


def check_entries(values: Mapping, path: str) -> None:
    """Checks the entries of a model.json, which may be missing or null.

    Raises:
      ValueError: naming `path` and the entry, for example for
        `"do_lower_case": "false"`, which Python takes for true.
    """
    json_files.check(values, _ENTRIES, path)
    bounds = values.get("score_range")
    threshold = values.get("null_score_diff_threshold") or 0
    is_pair = bounds is None or len(bounds) == 2
    # NaN is not below anything.
    are_finite = all(abs(x) < _MAX_FLOAT for x in (*(bounds or ()), threshold))
    if not is_pair or not are_finite:
        raise ValueError(
            f"{path}: score_range {quoted(bounds)} should be two numbers, and "
            f"null_score_diff_threshold {quoted(threshold)} one, all finite. "
            "Correct them."
        )


def check_finite(
    tensors: Mapping[str, np.ndarray], source: str, *, allow_nan: bool = False
) -> None:
    """Raises ValueError naming the weights that have NaN or infinite values.

    Args:
      tensors: weights, and Adam's moments if any, by name.
      source: path of the checkpoint.
      allow_nan: whether to check only that weights are floats.
    """
    wrong = {}
    for name, tensor in tensors.items():
        # bfloat16 is not a float of NumPy's own.
        if tensor.dtype.kind != "f" and tensor.dtype.name != "bfloat16":
            raise ValueError(
                f"{source}: {name} is {tensor.dtype.name}; weights are floats. "
                "Save the model in float32."
            )
        num_wrong = tensor.size - np.count_nonzero(np.isfinite(tensor))
        if num_wrong and not allow_nan:
            wrong[name] = f"{name} ({num_wrong:,} of {tensor.size:,} values)"
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(
            f"{source}: {len(wrong)} of {len(tensors)} tensors have NaN or "
            f"infinite values: {', '.join(list(wrong.values())[:3])}{more}. "
            "Outputs can be NaN. Its training diverged, or the file is "
            "damaged; use an earlier checkpoint. To inspect it nevertheless, "
            "convert it with convert_checkpoint --allow_nan_weights."
        )


def check_partners(
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Raises ValueError with the differences in names and shapes, if any.

    Args:
      shapes: name -> shape of the model's weights.
      tensors: weights of the checkpoint.
      source: path of the checkpoint.
    """
    unexpected = [
        f"+ in the checkpoint only: {name} {tensors[name].shape}"
        for name in sorted(set(tensors) - set(shapes))
    ]
    missing = [
        f"- in the model only:      {name} {tuple(shapes[name])}"
        for name in sorted(set(shapes) - set(tensors))
    ]
    misfits = [
        f"! different shapes:       {name} {tensors[name].shape} in the "
        f"checkpoint, {tuple(shapes[name])} in the model"
        for name in sorted(set(shapes) & set(tensors))
        if tensors[name].shape != tuple(shapes[name])
    ]
    groups = [group for group in (unexpected, missing, misfits) if group]
    if groups:
        raise ValueError(
            f"{sum(map(len, groups))} weights do not match ({source}).\n  "
            + "\n  ".join(some(group, "\n  ") for group in groups)
            + "\nUse the bert_config.json that belongs to the checkpoint."
        )


def assign(
    variables: Mapping,
    tensors: Mapping[str, np.ndarray],
    source: str,
    kept: Collection[str] = (),
) -> None:
    """Assigns tensors to the variables, except those named in `kept`.

    Raises:
      ValueError: as in `check_partners`.
    """
    shapes = {name: variable.shape for name, variable in variables.items()}
    check_partners(shapes, tensors, source)
    for name, variable in variables.items():
        if name not in kept:
            variable.assign(tensors[name])


def load_weights(model: keras.Model, folder: str) -> None:
    """Loads all weights of a model folder into a model of the same class.

    Weights that were missing in the source of a converted folder keep their
    initial values, which depend on the seed of the run.

    Raises:
      ValueError: if names or shapes differ, or the file is missing or damaged.
    """
    path = os.path.join(folder, WEIGHTS)
    tensors, kept = read_tensors(path), _not_in_source(folder)
    check_finite(tensors, path)
    if embedding := read_sentence_embedding(folder):
        tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if name not in embedding.tensors()
        }
    assign(weight_names(model), tensors, path, kept)
    lora.reset(model)  # The folder's kernels are merged.


def read_sentence_embedding(
    folder: str,
) -> sentence_embedding.SentenceEmbedding | None:
    """Returns the steps to a vector that a model folder has, if any.

    Raises:
      ValueError: as in `sentence_embedding.of_folder`.
    """
    settings = _read_entries(folder).get(SENTENCE_EMBEDDING)
    if settings is None:
        return None
    tensors = read_tensors(os.path.join(folder, WEIGHTS))
    return sentence_embedding.of_folder(settings, tensors, folder)


def _not_in_source(folder: str) -> set[str]:
    """Returns the weights that were missing when the folder was converted."""
    return set(_read_entries(folder).get("not_in_source", ()))


def load_encoder(model: keras.Model, folder: str) -> None:
    """Loads only the weights of the encoder; heads keep their initial weights.

    Args:
      model: a task model, with its encoder as `.encoder`.
      folder: a model folder, of any task.

    Raises:
      ValueError: as in `load_weights`.
    """
    _load_encoder(model.encoder, folder)


def _load_encoder(encoder: keras.Model, folder: str) -> None:
    path = os.path.join(folder, WEIGHTS)
    prefix = "encoder/"
    tensors = {
        name: tensor
        for name, tensor in read_tensors(path).items()
        if name.startswith(prefix)
    }
    check_finite(tensors, path)
    tensors = {name.removeprefix(prefix): x for name, x in tensors.items()}
    kept = {name.removeprefix(prefix) for name in _not_in_source(folder)}
    assign(weight_names(encoder), tensors, path, kept)
    lora.reset(encoder)


def build_encoder(folder: str, dtype: str = "float32") -> keras.Model:
    """Returns the encoder of a model folder of any task, with its weights.

    Args:
      folder: a model folder.
      dtype: a Keras dtype policy.

    Raises:
      ValueError: as in `load_weights`.
    """
    from bert_tf.model import encoder

    config = BertConfig.from_json_file(os.path.join(folder, CONFIG))
    model = encoder.BertEncoder(config, name="encoder", dtype=dtype)
    _load_encoder(model, folder)
    return model


def find_newly_initialized(
    metadata: Mapping, config: BertConfig
) -> tuple[str, ...]:
    """Returns prefixes of the names of weights that no loss has trained.

    Newly initialized weights must not be served: an export omits outputs that
    are computed with them.

    Args:
      metadata: content of model.json.
      config: config of the model.
    """
    missing = metadata.get("not_in_source", ())
    missing = (*missing, *metadata.get(_NEWLY_INITIALIZED, ()))
    has_pairs = metadata.get("pairs") != "none" and not config.is_causal
    if metadata["task"] == "pretraining" and not has_pairs:
        # Only next-sentence or sentence-order prediction trains the pooler.
        missing += (POOLER,)
    return missing


def has_pooler(missing: tuple[str, ...]) -> bool:
    """Returns whether the pooler is trained; see `find_newly_initialized`."""
    return not any(name.startswith(POOLER) for name in missing)


def reads_pooler(task: str, config: BertConfig) -> bool:
    """Returns whether the head of a fine-tuned model uses the pooler."""
    tasks = ("classification", "regression", "multiple_choice")
    return task in tasks and not config.bilstm_units


def newly_initialized_metadata(
    task: str, config: BertConfig, source: str | None
) -> dict[str, list[str]]:
    """Returns the entries of model.json that list untrained weights.

    Args:
      task: task of the model, a key of `models.TASK_MODELS`.
      config: config of the model.
      source: model folder that it is initialized from, if any.

    Raises:
      ValueError: as in `read_metadata`.
    """
    if reads_pooler(task, config):
        return {}
    if source:
        metadata = read_metadata(source)
        config = BertConfig.from_json_file(os.path.join(source, CONFIG))
        if has_pooler(find_newly_initialized(metadata, config)):
            return {}
    return {_NEWLY_INITIALIZED: [POOLER]}
