"""Tensors and settings that another format cannot hold <-> sidecar files.

`bert_tf.safetensors` holds tensors under bert_tf's names of weights, and Adam's
moments under these names with the prefix `m/` or `v/`. `bert_tf.json` holds the
settings, and the sha256 of each weight file that the sidecar belongs to. Other
programs ignore both files.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.checkpoint import contents, model_folders, tensor_files
from tfrecords.io import atomic_files, json_files

TENSORS = "bert_tf.safetensors"
SETTINGS = "bert_tf.json"
WRITES = (TENSORS, SETTINGS)
_DIGESTS = "weights_sha256"
# Entries of model.json that decide answers, and that no other format has.
_ENTRIES = (
    *("thresholds", "score_range", "ranking_loss", "tag_scheme"),
    "long_text",
    *("version_2_with_negative", "null_score_diff_threshold"),
    *("doc_stride", "max_query_length", "n_best_size", "max_answer_length"),
    "temperature",
)


class Sidecar(NamedTuple):
    """Content of the sidecar files; empty if missing, only notes if ignored.

    Attributes:
      tensors: weights by our names.
      slots: Adam's moments.
      settings: the content of bert_tf.json, such as `step`.
      notes: why existing files are ignored.
    """

    tensors: Mapping[str, np.ndarray]
    slots: Mapping[str, np.ndarray]
    settings: dict
    notes: list[str]


def settings_of(checkpoint: contents.Contents) -> dict:
    """Returns the step, and the entries of model.json that decide answers."""
    step = {"step": checkpoint.step} if checkpoint.step else {}
    return step | _entries(checkpoint.metadata)


def metadata_of(extra: Sidecar) -> dict:
    """Returns the settings that are entries of model.json."""
    return _entries(extra.settings)


def _entries(values: Mapping) -> dict:
    return {x: values[x] for x in _ENTRIES if values.get(x) is not None}


def _digests(folder: str, weight_files: Sequence[str]) -> dict[str, str]:
    paths = {name: os.path.join(folder, name) for name in weight_files}
    return {
        name: atomic_files.digest(path)
        for name, path in paths.items()
        if os.path.isfile(path)
    }


def write(
    folder: str,
    weight_files: Sequence[str],
    tensors: Mapping[str, np.ndarray],
    settings: Mapping,
) -> None:
    """Writes the sidecar, unless there are neither tensors nor settings.

    Args:
      folder: already contains the other format's weight files.
      weight_files: names that these files can have.
      tensors: weights and moments, by our names.
      settings: JSON values.
    """
    if not tensors and not settings:
        return
    json_files.write(
        os.path.join(folder, SETTINGS),
        {_DIGESTS: _digests(folder, weight_files)} | dict(settings),
    )
    if tensors:
        tensor_files.write_tensors(tensors, os.path.join(folder, TENSORS))


def read(folder: str, weight_files: Sequence[str]) -> Sidecar:
    """Reads the sidecar; ignores it if weight files changed since `write`."""
    path = os.path.join(folder, SETTINGS)
    if not os.path.isfile(path):
        return Sidecar({}, {}, {}, [])
    settings = json_files.read(path, object)
    digests = settings.get(_DIGESTS) if isinstance(settings, dict) else None
    if digests != _digests(folder, weight_files):
        note = (
            f"{SETTINGS} is ignored: its checksums do not match "
            f"{' and '.join(weight_files)}"
        )
        return Sidecar({}, {}, {}, [note])
    settings = model_folders.checked_entries(settings, path)
    path = os.path.join(folder, TENSORS)
    tensors = tensor_files.TensorFile(path) if os.path.isfile(path) else {}
    slots = [name for name in tensors if name.startswith(("m/", "v/"))]
    return Sidecar(
        tensor_files.only(tensors, [x for x in tensors if x not in slots]),
        tensor_files.only(tensors, slots),
        settings,
        [],
    )
