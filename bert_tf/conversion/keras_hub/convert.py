"""KerasHub presets of BERT <-> Checkpoint.

A preset is a folder with config.json, model.weights.h5 and the tokenizer's
tokenizer.json and assets; with a head task.json and task.weights.h5 besides.
Presets of KerasNLP, as it was called, are the same.

What KerasHub has no place for (the next-sentence head, Adam's slots, the step,
names of classes) is written to bert_tf.safetensors and bert_tf.json, which it
ignores. They are read back while they belong to the weights beside them.
"""

import importlib.util
import os

import numpy as np

from bert_tf.conversion import checkpoint as checkpoint_lib
from bert_tf.conversion import renaming, vocabularies
from bert_tf.conversion.keras_hub import files as files
from bert_tf.conversion.keras_hub import metadata as papers
from bert_tf.conversion.keras_hub import names as names
from bert_tf.training import model_folders
from tfrecords.io import atomic_files

PEER = "keras_hub (pip install keras-hub)"
EXTRA_JSON = "bert_tf.json"
WRITES = (
    papers.CONFIG,
    papers.TASK,
    papers.TOKENIZER,
    papers.PREPROCESSOR,
    papers.VOCABULARY,
    files.MODEL,
    files.TASK,
    names.EXTRA,
    EXTRA_JSON,
)

table = names.table
is_there = papers.is_there

# saving_lib.py: state of a compiled task, which is not trained by its weights.
_STATE = f"{files.TASK}/optimizer/"
# KerasHub loads no preset without a pooler.
_HEADS = ("masked_lm/", "next_sentence/")


def _sha256(folder: str) -> dict[str, str]:
    """Returns weight file -> sha256, of those that are there."""
    paths = {x: os.path.join(folder, x) for x in (files.MODEL, files.TASK)}
    return {
        name: atomic_files.digest(path)
        for name, path in paths.items()
        if os.path.isfile(path)
    }


def _read_extra(folder: str) -> tuple[dict[str, np.ndarray], dict, list[str]]:
    """Returns tensors, values and notes of the files that KerasHub ignores."""
    path = os.path.join(folder, EXTRA_JSON)
    if not os.path.isfile(path):
        return {}, {}, []
    values = atomic_files.read_json(path)
    given = values.get("weights_sha256") if isinstance(values, dict) else None
    found = _sha256(folder)
    if given != found:
        note = (
            f"{EXTRA_JSON} belongs to other weights than "
            f"{' and '.join(found)}, and is not read"
        )
        return {}, {}, [note]
    tensors_path = os.path.join(folder, names.EXTRA)
    tensors = {}
    if os.path.isfile(tensors_path):
        tensors = model_folders.read_tensors(tensors_path)
    return tensors, values, []


def _labels(count: int, given: list[str], task: str) -> tuple[str, ...]:
    if task != "classification":
        return ()
    return tuple(given or (str(label) for label in range(count)))


def read(path: str) -> checkpoint_lib.Checkpoint:
    """Reads a preset, with the weights of a head that is known here.

    Args:
      path: its folder.

    Raises:
      ValueError: if it is of another model, which is named, if files are
        missing or damaged, or if weights and config do not fit; then it lists
        both sides in full.
    """
    source = f"keras_hub {path}"
    found = papers.read(path)
    files.path_of(path, files.MODEL)
    extra, values, notes = _read_extra(path)
    labels = _labels(found.num_classes, values.get("labels"), found.task)
    rows = table(found.config, found.task, len(labels))
    theirs = {row.theirs for row in rows}
    tensors = files.read(path, files.MODEL, theirs)
    if os.path.isfile(os.path.join(path, files.TASK)):
        tensors |= files.read(path, files.TASK, theirs)
    elif found.task != "pretraining":
        raise ValueError(
            f"{os.path.join(path, files.TASK)} is missing, which has the "
            "weights of the head. Copy every file of the preset."
        )
    slots = {n: x for n, x in extra.items() if n.startswith(("m/", "v/"))}
    tensors |= {
        f"{names.EXTRA}/{n}": x for n, x in extra.items() if n not in slots
    }
    ours, unused = renaming.to_ours(
        rows,
        {n: x for n, x in tensors.items() if not n.startswith(_STATE)},
        checkpoint_lib.shapes(found.config, found.task, len(labels)),
        source=source,
        may_miss=renaming.absent_parts(rows, tensors, _HEADS),
    )
    renaming.refuse_more(
        {n: tensors[n] for n in unused if n.startswith(f"{files.MODEL}/")},
        source=source,
        config=os.path.join(path, papers.CONFIG),
    )
    for name in values.get("not_in_source", ()):
        ours.pop(name, None)
    is_case_inferred = bool(values.get(checkpoint_lib.INFERRED_CASE))
    if is_case_inferred:
        notes = [*notes, vocabularies.case_note(found.do_lower_case)]
    return checkpoint_lib.Checkpoint(
        source=source,
        config=found.config,
        task=found.task,
        tensors=ours,
        labels=labels,
        slots=slots,
        step=values.get("step", 0),
        vocabulary=vocabularies.read(os.path.join(path, papers.VOCABULARY)),
        do_lower_case=found.do_lower_case,
        is_case_inferred=is_case_inferred,
        unused=tuple(unused),
        notes=(*found.notes, *notes),
    )


def _case(checkpoint: checkpoint_lib.Checkpoint) -> tuple[bool | None, bool]:
    """Returns the case of the tokenizer to write, and whether it is a guess.

    KerasHub's tokenizer has to say one.
    """
    if checkpoint.vocabulary is None:
        return None, False
    if checkpoint.do_lower_case is not None:
        return checkpoint.do_lower_case, checkpoint.is_case_inferred
    return vocabularies.infer_lower_case(checkpoint.vocabulary), True


def write(checkpoint: checkpoint_lib.Checkpoint, folder: str) -> None:
    """Fills a folder with a preset, and with what KerasHub has no place for.

    Weights are float32. A pooler that is missing is written as zeros, since
    KerasHub loads nothing without.

    Args:
      checkpoint: of a task that KerasHub has.
      folder: a folder from `atomic_files.atomic_folder`.

    Raises:
      ValueError: if KerasHub has no such head, or not this hidden_act.
    """
    config, labels = checkpoint.config, checkpoint.labels
    if config.hidden_act != "gelu":
        raise ValueError(
            f"{checkpoint.source} has hidden_act={config.hidden_act}; "
            "KerasHub's BertBackbone has GELU by tanh and no other. To write "
            "it as that, with other outputs, give --hidden_act=gelu."
        )
    rows = table(config, checkpoint.task, len(labels))
    shapes = checkpoint.shapes()
    absent = [n for n in checkpoint.missing() if n.startswith("encoder/")]
    named = renaming.to_theirs(
        rows,
        {name: np.zeros(shapes[name]) for name in absent} | checkpoint.tensors,
        source=checkpoint.source,
    )
    task = checkpoint.task
    if not any(name.startswith(f"{files.TASK}/") for name in named):
        task = None
    lower, is_case_inferred = _case(checkpoint)
    classes = 1 if task == "regression" else len(labels)
    papers.write(folder, config, task, classes, lower)
    files.write({n: x.astype(np.float32) for n, x in named.items()}, folder)
    vocabularies.write(
        checkpoint.vocabulary, os.path.join(folder, papers.VOCABULARY)
    )
    prefix = f"{names.EXTRA}/"
    extra = {
        name.removeprefix(prefix): tensor
        for name, tensor in named.items()
        if name.startswith(prefix)
    } | checkpoint.slots
    values = {
        "labels": list(labels),
        "step": checkpoint.step,
        "not_in_source": absent,
        checkpoint_lib.INFERRED_CASE: is_case_inferred,
    }
    _write_extra(folder, extra, {n: x for n, x in values.items() if x})


def _write_extra(
    folder: str, tensors: dict[str, np.ndarray], values: dict
) -> None:
    """Writes what KerasHub has no place for, if there is any."""
    if not tensors and not values:
        return
    atomic_files.write_json(
        os.path.join(folder, EXTRA_JSON),
        {"weights_sha256": _sha256(folder)} | values,
    )
    if tensors:
        model_folders.write_tensors(tensors, os.path.join(folder, names.EXTRA))


def reference_outputs(path: str, batch: dict) -> dict[str, np.ndarray] | None:
    """Returns what keras_hub computes from a preset.

    Args:
      path: its folder.
      batch: from `parity.batch`.

    Returns:
      As `parity.outputs`; None if keras_hub is not installed.
    """
    if importlib.util.find_spec("keras_hub") is None:
        return None
    from bert_tf.conversion.keras_hub import peer as keras_hub_peer

    return keras_hub_peer.outputs(path, batch)
