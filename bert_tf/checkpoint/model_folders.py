"""Model folder <-> Contents; Keras model -> model folder.

A model folder contains `model.safetensors` (weights by name),
`bert_config.json`, `model.json` and `vocab.txt`: everything an export needs.
"""

import contextlib
import dataclasses
import functools
import os
import random
from collections.abc import Iterator, Mapping

import keras
import numpy as np
from absl import logging

from bert_tf.checkpoint import checksums, contents, run_models, tensor_files
from bert_tf.checkpoint.contents import Contents
from bert_tf.config import EXPERIMENTS, BertConfig
from bert_tf.model import encoder, lora, models, sentence_embedding
from tfrecords.io import json_files
from tfrecords.options import LONG_TEXT, quoted, some
from tfrecords.text import vocab

WEIGHTS = run_models.WEIGHTS
CONFIG = "bert_config.json"
METADATA = "model.json"
VOCABULARY = "vocab.txt"
# Only in a checkpoint of a run.
OPTIMIZER = run_models.OPTIMIZER
LORA = run_models.LORA
# What `write` creates.
WRITES = (WEIGHTS, METADATA, CONFIG, VOCABULARY, OPTIMIZER, checksums.STATE)

_SIZE = range(1, 2**31)
# Forms of the entries of model.json, see `json_files.check`.
_ENTRIES = {
    "task?": str,
    "task_name?": str,
    "num_texts?": int,
    "pairs?": str,
    "precision?": str,
    "source?": str,
    "do_lower_case?": bool,
    "do_lower_case_inferred?": bool,
    "strip_accents?": bool,
    "tokenize_chinese_chars?": bool,
    "split_special_tokens?": bool,
    "version_2_with_negative?": bool,
    "max_seq_length?": _SIZE,
    "doc_stride?": _SIZE,
    "max_query_length?": _SIZE,
    "n_best_size?": _SIZE,
    "max_answer_length?": _SIZE,
    "step?": range(2**63),
    "null_score_diff_threshold?": float,
    "score_range?": [float],
    "temperature?": json_files.Finite,
    "ranking_loss?": str,
    "long_text?": LONG_TEXT,
    f"{contents.SCORE_ACTIVATION}?": str,
    f"{contents.SOURCE_SETTINGS}?": dict,
    f"{contents.SIMILARITY}?": str,
    "labels?": [str],
    "tag_scheme?": str,
    f"{contents.UNTRAINED}?": [str],
    f"{contents.SENTENCE_EMBEDDING}?": sentence_embedding.SETTINGS,
}


def weight_names(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns path in the model -> weight.

    Adapters are left out: files have ordinary weights, see `merged_weights`.
    """
    weights = [w for w in model.weights if not lora.is_factor(w)]
    return encoder.by_path(model, weights)


def merged_weights(model: keras.Model) -> dict:
    """Returns path -> weight, to be written: adapters are merged (LoRA)."""
    return lora.merged(model, weight_names(model))


def digest(model: keras.Model) -> str:
    """Returns the sha256 of names, types, shapes and bytes of all weights."""
    return tensor_files.digest_of(merged_weights(model))


def save_model(
    folder: str,
    model: keras.Model,
    *,
    metadata: Mapping,
    vocabulary: bytes | None = None,
) -> None:
    """Writes a model's weights and metadata to an existing folder.

    Args:
      folder: a folder from `atomic_files.atomic_folder`.
      model: a model with a BertConfig as `.config`.
      metadata: task, labels and tokenizer, for `model.json`.
      vocabulary: content of vocab.txt, if any.
    """
    save_weights(folder, merged_weights(model), model.config, metadata)
    if vocabulary is not None:
        with open(os.path.join(folder, VOCABULARY), "wb") as file:
            file.write(vocabulary)


def save_weights(
    folder: str, weights: Mapping, config: BertConfig, metadata: Mapping
) -> None:
    """Writes weights by name, their config and metadata; see `save_model`."""
    config.to_json_file(os.path.join(folder, CONFIG))
    json_files.write(os.path.join(folder, METADATA), metadata)
    tensor_files.write_tensors(weights, os.path.join(folder, WEIGHTS))


def _read_entries(folder: str) -> dict:
    """Returns the content of model.json without null; {} if it is missing."""
    path = os.path.join(folder, METADATA)
    values = json_files.read(path) if os.path.isfile(path) else {}
    return checked_entries(values, path)


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


def checked_entries(values: Mapping, path: str) -> dict:
    """Returns the entries of a model.json without null, by their present names.

    Raises:
      ValueError: naming `path` and the entry, for example for
        `"do_lower_case": "false"`, which Python takes for true.
    """
    json_files.check(values, _ENTRIES, path)
    json_files.check_thresholds(values, len(values.get("labels") or ()), path)
    contents.check_prompts(values, path)
    bounds = values.get("score_range")
    is_pair = bounds is None or len(bounds) == 2 and bounds[0] < bounds[1]
    # Finite as float32; the comparison is false for NaN.
    numbers = *(bounds or ()), values.get("null_score_diff_threshold") or 0
    if not is_pair or not all(abs(x) < 3e38 for x in numbers):
        raise ValueError(
            f"{path}: score_range {quoted(bounds)} should be two numbers, the "
            f"lower one first, and null_score_diff_threshold "
            f"{quoted(numbers[-1])} one, all finite. Correct them."
        )
    contents.check_source(values, path)
    return {name: x for name, x in values.items() if x is not None}


def assign(
    variables: Mapping, tensors: Mapping[str, np.ndarray], source: str
) -> None:
    """Assigns tensors to the variables of the same names, one at a time.

    Raises:
      ValueError: as in `tensor_files.check_partners`.
    """
    shapes = {name: variable.shape for name, variable in variables.items()}
    tensor_files.check_partners(shapes, tensors, source)
    for name, variable in variables.items():
        variable.assign(tensors[name])


def load_weights(model: keras.Model, folder: str) -> None:
    """Assigns the weights of a folder that the same model was saved to.

    Raises:
      ValueError: if they are damaged, NaN or infinite, or another model's.
    """
    path = os.path.join(folder, WEIGHTS)
    tensors = tensor_files.TensorFile(path)
    tensor_files.check_finite(tensors, path)
    assign(weight_names(model), tensors, path)
    lora.reset(model)  # Kernels in files are merged.


def read(folder: str, *, with_slots: bool = True) -> Contents:
    """Reads a model folder; its tensors are read when they are asked for.

    Args:
      folder: the folder, from `run_models.find`.
      with_slots: whether to have Adam's moments too.

    Raises:
      ValueError: if it is damaged, or its weights contradict its metadata.
    """
    metadata = read_metadata(folder)
    given = _described(folder, metadata)
    if given.task not in models.TASK_MODELS:
        advice = f"expected one of {', '.join(models.TASK_MODELS)}. Correct it."
        if given.task in EXPERIMENTS:
            advice = f"such a model is of {EXPERIMENTS[given.task]} alone."
        raise ValueError(
            f"{os.path.join(folder, METADATA)} has task {given.task!r}; "
            f"{advice}"
        )
    path = os.path.join(folder, WEIGHTS)
    tensors = tensor_files.TensorFile(path)
    embedding = given.sentence_embedding
    more = embedding.tensors() if embedding else {}
    names = [name for name in tensors if name not in more]
    num_labels = len(given.labels)
    if not num_labels:
        head = f"{given.task}/dense/bias"
        if head not in tensors:
            contents.check_labels(given)
        num_labels = tensor_files.shapes_of(tensors).get(head, (0,))[-1]
    expected = contents.shapes(given.config, given.task, num_labels)
    tensor_files.check_partners(
        # A run that trains vectors has no heads; others have untrained ones.
        {
            name: shape
            for name, shape in expected.items()
            if name in tensors or name in given.tensors
        },
        tensor_files.only(tensors, names),
        path,
    )
    return dataclasses.replace(
        given,
        # Without those that are newly initialized.
        tensors=tensor_files.only(
            tensors, [name for name in names if name in given.tensors]
        ),
        slots=_read_slots(folder) if with_slots else {},
    )


def read_without_weights(folder: str) -> Contents:
    """Reads all of a model folder but its weights, which may be damaged.

    Their names and shapes are those of the metadata; the file is opened when
    one is read. The task may be of a class that is not ours.

    Raises:
      ValueError: if a file is missing or malformed.
    """
    return _described(folder, read_metadata(folder))


def _described(folder: str, metadata: dict) -> Contents:
    """Returns config and metadata, of the files beside the weights."""
    path = os.path.join(folder, WEIGHTS)
    config = BertConfig.from_json_file(os.path.join(folder, CONFIG))
    labels = tuple(metadata.get("labels") or ())
    expected = contents.shapes(config, metadata["task"], len(labels))
    for name in contents.pop_untrained(metadata):
        expected.pop(name, None)
    return Contents(
        source=f"bert_tf {folder}",
        folder=folder,
        config=config,
        task=metadata["task"],
        tensors=tensor_files.Tensors(
            {
                name: tensor_files.StoredTensor(
                    *(shape, np.float32),
                    functools.partial(tensor_files.read_tensor, path, name),
                )
                for name, shape in expected.items()
            },
            path,
        ),
        labels=labels,
        step=run_models.step_of(folder),
        origin=metadata.get("source"),
        vocabulary=_read_vocabulary(folder),
        do_lower_case=metadata.get("do_lower_case"),
        is_case_inferred=bool(metadata.get(contents.INFERRED_CASE)),
        metadata={
            name: value
            for name, value in metadata.items()
            if name not in contents.OWN_FIELDS
        }
        | contents.read_settings(
            os.path.join(folder, CONFIG),
            metadata.get(contents.SOURCE_SETTINGS, {}),
        ),
        sentence_embedding=_read_embedding(folder, metadata),
    )


def _read_embedding(folder: str, metadata: Mapping):
    """Returns the SentenceEmbedding of a folder; None if it has none."""
    settings, tensors = metadata.get(contents.SENTENCE_EMBEDDING), {}
    if not settings:
        return None
    if any(step["type"] == "Dense" for step in settings["steps"]):
        tensors = tensor_files.TensorFile(os.path.join(folder, WEIGHTS))
    return sentence_embedding.from_settings(settings, tensors, folder)


def _read_slots(folder: str) -> Mapping[str, np.ndarray]:
    """Returns Adam's moments, not other averages of the weights; {} if none."""
    path = os.path.join(folder, OPTIMIZER)
    # Moments of adapters do not belong to the merged kernels.
    has_adapters = os.path.isfile(os.path.join(folder, LORA))
    if has_adapters or not os.path.isfile(path):
        return {}
    slots = tensor_files.TensorFile(path)
    return tensor_files.only(
        slots, [name for name in slots if name.startswith(("m/", "v/"))]
    )


def _read_vocabulary(folder: str) -> bytes | None:
    """Returns the bytes of vocab.txt, by whose sha256 records know it."""
    path = os.path.join(folder, VOCABULARY)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds Keras's initializers, and leaves the caller's random state alone.

    Each takes a seed from Python's generator, and draws with that one only.
    """
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def build_model(given: Contents, seed: int = 12345) -> keras.Model:
    """Returns a model with the weights of its contents.

    Weights missing there are initialized from `seed`; the random state of the
    process stays as it is.
    """
    with _seeded(seed):
        model = models.for_task(given.task, given.config, len(given.labels))
    weights = weight_names(model)
    for name, tensor in given.tensors.items():
        weights[name].assign(tensor)
    return model


def write(
    given: Contents,
    folder: str,
    untrained: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes a model folder to `folder`, which `atomic_folder` made.

    Args:
      given: what to write.
      folder: where to.
      untrained: name -> value of the weights that are missing. Default: they
        are drawn, with a warning.
    """
    weights = tensor_files.as_float32(given.tensors)
    missing = given.missing()
    if untrained:
        weights = tensor_files.merged(untrained, weights)
    elif missing:
        logging.warning(
            "%s has no %s; these weights are newly initialized",
            given.source,
            some(missing),
        )
        weights = weight_names(build_model(given))
    if given.sentence_embedding:
        more = given.sentence_embedding.tensors()
        weights = tensor_files.merged(more, weights)
    save_weights(folder, weights, given.config, given.model_json())
    if given.vocabulary is not None:
        path = os.path.join(folder, VOCABULARY)
        vocab.Vocabulary(given.vocabulary, path).save()
    if given.slots:
        tensor_files.write_tensors(given.slots, os.path.join(folder, OPTIMIZER))
    if given.step:
        state = {
            "step": given.step,
            "weights_sha256": tensor_files.digest_of(weights),
        }
        checksums.write_checksums(folder, state)
