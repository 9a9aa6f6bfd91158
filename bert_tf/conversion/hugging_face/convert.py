"""Hugging Face folders of a BERT <-> Checkpoint.

Folders of sentence-transformers with a BERT inside are read too. Read and
written is what transformers' modeling_bert.py has, with and without heads.
"""

import os
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert_tf.conversion import checkpoint as checkpoint_lib
from bert_tf.conversion import renaming
from bert_tf.conversion.hugging_face import config as configs
from bert_tf.conversion.hugging_face import names as names
from bert_tf.conversion.hugging_face import peer as peer
from bert_tf.conversion.hugging_face import (
    sentence_transformers as sentences,
)
from bert_tf.conversion.hugging_face import tasks as tasks
from bert_tf.conversion.hugging_face import tokenizer as tokenizers
from bert_tf.conversion.hugging_face import weights as weights
from tfrecords.io import atomic_files

PEER = peer.PEER
WRITES = (configs.CONFIG, *weights.WRITES, *tokenizers.WRITES)
table = names.table

_ENCODER = ("embeddings.", "encoder.")
# Numbers 0, 1, 2 ... that older versions saved with the weights.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def is_there(path: str) -> bool:
    """Returns whether a folder is one of Hugging Face, of whatever model."""
    if sentences.is_there(path):
        return True
    config = os.path.join(path, configs.CONFIG)
    if os.path.isfile(config):
        try:
            values = atomic_files.read_json(config)
        except ValueError:
            return weights.are_there(path)
        # KerasHub's config.json names a Keras class.
        return not isinstance(values, dict) or "registered_name" not in values
    return weights.are_there(path)


def _check_ties(
    tensors: Mapping[str, np.ndarray],
    found: Mapping[str, np.ndarray],
    path: str,
) -> None:
    """Raises ValueError if a head has an output matrix of its own."""
    for theirs, ours in names.TIED.items():
        given = tensors.get(theirs)
        if given is None or "masked_lm/bias" not in found:
            continue
        tied = found[ours]
        if given.tobytes() != tied.tobytes() or given.shape != tied.shape:
            raise ValueError(
                f"{path}: {theirs} {given.shape} is not the same, bit for bit, "
                f"as {ours} {tied.shape}. In BERT they are one (Devlin et al. "
                "2018, as in run_pretraining.py), so this head cannot be read. "
                "If only the encoder is wanted, save the BertModel alone."
            )


def _check_floats(found: Mapping[str, np.ndarray], path: str) -> None:
    others = [
        f"{name} {tensor.dtype}"
        for name, tensor in found.items()
        if tensor.dtype != np.float32
    ]
    if others:
        raise ValueError(
            f"{path}: weights should be floating-point numbers; these are not: "
            f"{', '.join(others)}. A quantised model cannot be read."
        )


def read(path: str) -> checkpoint_lib.Checkpoint:
    """Reads a folder, or the BERT inside one of sentence-transformers.

    Raises:
      ValueError: if it is of another model, asks for what is not computed
        here, lacks files or tensors, or has ones that do not fit.
    """
    folder, notes = path, []
    if is_inside := sentences.is_there(path):
        folder, notes = sentences.find(path)
    values = configs.read_values(folder)
    tensors, changes = weights.as_float32(weights.read(folder))
    beside, step, stale = weights.read_beside(folder)
    config_path = os.path.join(folder, configs.CONFIG)
    papers = configs.parse(values, tensors, config_path)
    shapes = checkpoint_lib.shapes(
        papers.config, papers.task, len(papers.labels)
    )
    rows = table(papers.config, papers.task)
    parts = {
        row.theirs: row.to_theirs(beside[row.ours])
        for row in rows
        if row.ours in beside
    }
    tensors = parts | tensors
    rows = [names.as_named(row, tensors) for row in rows]
    # Vectors of sentences take the encoder alone, whatever class is named.
    may_miss = renaming.absent_parts(
        rows,
        tensors,
        [part for part in tasks.PARTS if is_inside or part not in papers.parts],
    )
    source = f"hugging_face {path}"
    found, unused = renaming.to_ours(
        rows, tensors, shapes, source=source, may_miss=may_miss
    )
    _check_floats(found, path)
    _check_ties(tensors, found, path)
    unused = [
        name
        for name in unused
        if not name.endswith(_BUFFERS)
        and not (name in names.TIED and "masked_lm/bias" in found)
    ]
    renaming.refuse_more(
        {
            name: tensors[name]
            for name in unused
            if name.removeprefix("bert.").startswith(_ENCODER)
        },
        source=source,
        config=config_path,
    )
    text = tokenizers.read(folder, papers.config)
    return checkpoint_lib.Checkpoint(
        source=source,
        config=papers.config,
        task=papers.task,
        tensors=found,
        labels=papers.labels,
        slots={n: x for n, x in beside.items() if n.startswith(("m/", "v/"))},
        step=step,
        vocabulary=text.vocabulary,
        do_lower_case=text.do_lower_case,
        unused=tuple(unused),
        notes=(*notes, *papers.notes, *text.notes, *changes, *stale),
    )


def _whole_parts(checkpoint: checkpoint_lib.Checkpoint) -> list[str]:
    """Returns the parts of which no tensor is missing."""
    missing = checkpoint.missing()
    return [
        part
        for part in tasks.PARTS
        if not any(name.startswith(part) for name in missing)
    ]


def architecture(checkpoint: checkpoint_lib.Checkpoint) -> str:
    """Returns the class of transformers that holds most of a checkpoint."""
    return tasks.architecture_for(checkpoint.task, _whole_parts(checkpoint))


def _check_whole(
    checkpoint: checkpoint_lib.Checkpoint, name: str, parts: tuple[str, ...]
) -> None:
    """Raises ValueError if a class would lack weights; a pooler may."""
    missing = [
        weight
        for weight in checkpoint.missing()
        if weight.startswith(parts) or not weight.startswith(tasks.PARTS)
    ]
    if not missing:
        return
    if name == "BertModel" and all(x.startswith(tasks.POOLER) for x in missing):
        logging.warning(
            "%s has no pooler; to load it without one being drawn: "
            "BertModel.from_pretrained(folder, add_pooling_layer=False)",
            checkpoint.source,
        )
        return
    raise ValueError(
        f"{checkpoint.source} has no {', '.join(missing)}; a {name} needs all "
        "of its weights. Train the model first, or give one that has them."
    )


def write(checkpoint: checkpoint_lib.Checkpoint, folder: str) -> None:
    """Fills a folder of `atomic_files.atomic_folder`, for transformers to load.

    The class is the one with a place for most of the weights. What it has no
    place for, such as the pooler of a tagger and Adam's slots, goes to a file
    beside, which `read` looks at and transformers does not.

    Raises:
      ValueError: if the encoder or the task's head is not whole.
    """
    name = architecture(checkpoint)
    _, parts = tasks.ARCHITECTURES[name]
    _check_whole(checkpoint, name, parts)
    beside = {
        weight: tensor
        for weight, tensor in checkpoint.tensors.items()
        if weight.startswith(tasks.PARTS) and not weight.startswith(parts)
    }
    theirs = renaming.to_theirs(
        table(checkpoint.config, checkpoint.task),
        {n: x for n, x in checkpoint.tensors.items() if n not in beside},
        source=checkpoint.source,
    )
    if name == "BertModel":
        theirs = {x.removeprefix("bert."): t for x, t in theirs.items()}
    weights.write(theirs, folder)
    _write_beside(checkpoint, name, beside, folder)
    task_values = tasks.values_for(checkpoint.task, checkpoint.labels, name)
    configs.write(checkpoint.config, task_values, folder)
    _write_text(checkpoint, folder)


def _write_beside(
    checkpoint: checkpoint_lib.Checkpoint,
    name: str,
    beside: Mapping[str, np.ndarray],
    folder: str,
) -> None:
    """Writes what a class has no place for, if there is any, and says so."""
    if not (beside or checkpoint.slots or checkpoint.step):
        return
    weights.write_beside(beside | checkpoint.slots, checkpoint.step, folder)
    homeless = [*beside, f"{len(checkpoint.slots)} optimizer slots"]
    logging.warning(
        "%s has no place for %s, step %d: these are in %s, which transformers "
        "does not read",
        name,
        ", ".join(homeless),
        checkpoint.step,
        weights.BESIDE,
    )


def _write_text(checkpoint: checkpoint_lib.Checkpoint, folder: str) -> None:
    if checkpoint.vocabulary is None:
        logging.warning(
            "%s has no vocabulary, so no tokenizer is written; add its "
            "vocab.txt",
            checkpoint.source,
        )
        return
    if checkpoint.do_lower_case is None:
        logging.warning(
            "%s does not say whether text is lower-cased; transformers will "
            "do so. Add do_lower_case to %s if not",
            checkpoint.source,
            tokenizers.SETTINGS,
        )
    tokenizers.write(
        checkpoint.vocabulary,
        checkpoint.do_lower_case,
        checkpoint.config.max_position_embeddings,
        folder,
    )


def reference_outputs(
    path: str, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """Returns what transformers computes, None where it is not installed.

    Args:
      path: as for `read`.
      batch: see `parity.batch`.

    Raises:
      ValueError: as `read`.
    """
    found = read(path)
    inside = sentences.is_there(path)
    return peer.outputs(
        sentences.find(path)[0] if inside else path,
        architecture(found),
        found.task,
        tasks.POOLER in _whole_parts(found),
        batch,
    )
