"""TF1 checkpoints of google-research/bert <-> Contents.

`bert_config.json` and `vocab.txt` are in the same folder. For a fine-tuned
checkpoint they have to be copied there from the pre-trained model. A released
checkpoint has the prefix `bert_model.ckpt`; a fine-tuned one has a prefix such
as `model.ckpt-1000`.
"""

import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, model_folders, tensor_files
from bert_tf.checkpoint.formats import renaming, vocabularies
from bert_tf.checkpoint.formats.google import tf_files

WRITES = tf_files.WRITES
_STEP = "global_step"
# optimization.py: AdamWeightDecayOptimizer.apply_gradients.
_SLOTS = {"m": "/adam_m", "v": "/adam_v"}

# Names that occur only in other models.
_OTHERS = {
    "ELECTRA": re.compile("^(electra|generator|discriminator_predictions)/"),
    "ALBERT": re.compile("^bert/encoder/(transformer/|embedding_hidden_)"),
}
_ENCODER_NAMES = re.compile("bert/.*(kernel|bias|gamma|beta|embeddings)$")

# modeling.py: BertModel.
_EMBEDDINGS = {
    "word_embeddings": "bert/embeddings/word_embeddings",
    "position_embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings": "bert/embeddings/token_type_embeddings",
    "norm": "bert/embeddings/LayerNorm",
}
_LAYER = {
    "attention/query": "attention/self/query",
    "attention/key": "attention/self/key",
    "attention/value": "attention/self/value",
    "attention/output_dense": "attention/output/dense",
    "attention_norm": "attention/output/LayerNorm",
    "intermediate": "intermediate/dense",
    "output_dense": "output/dense",
    "output_norm": "output/LayerNorm",
}
_MASKED_LM = {
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
}


def _output(ours: str, theirs: str) -> list[renaming.Rename]:
    """Returns the rows of an output layer; TF1 stores its kernel as [C, H]."""
    suffixes = {"kernel": "output_weights", "bias": "output_bias"}
    layers = {f"{ours}/dense": theirs}
    return renaming.rows(layers, suffixes, is_transposed=True)


def table(config: bert_config.BertConfig, task: str) -> list[renaming.Rename]:
    """Returns the rename table of a task, with a row for each weight.

    The heads get their names in get_masked_lm_output and
    get_next_sentence_output of run_pretraining.py, and in create_model of
    run_classifier.py and run_squad.py.

    Raises:
      ValueError: if google-research/bert has no such head.
    """
    layers = [
        f"bert/encoder/layer_{i}/" for i in range(config.num_hidden_layers)
    ]
    rows = renaming.encoder_rows(
        _EMBEDDINGS, layers, _LAYER, "bert/pooler/dense"
    )
    if task == "pretraining":
        bias = renaming.Rename("masked_lm/bias", "cls/predictions/output_bias")
        rows += [bias, *renaming.rows(_MASKED_LM)]
        return rows + _output("next_sentence", "cls/seq_relationship/")
    heads = {"classification": "", "regression": "", "spans": "cls/squad/"}
    if task not in heads:
        raise ValueError(
            f"google-research/bert has no head for {task}; it has those of "
            f"pretraining, {', '.join(heads)}. Choose another format."
        )
    return rows + _output(task, heads[task])


def read_tensors(prefix: str) -> dict[str, tensor_files.StoredTensor]:
    """Returns every tensor of a checkpoint.

    Raises:
      ValueError: if files are missing or damaged, or the model is ELECTRA or
        ALBERT.
    """
    tensors = tf_files.read_tensors(prefix)
    for model, pattern in _OTHERS.items():
        if any(pattern.match(name) for name in tensors):
            raise ValueError(
                f"{prefix} is an {model} checkpoint, whose layers are not "
                "BERT's; it cannot be read."
            )
    return tensors


def write_tensors(tensors: Mapping[str, np.ndarray], folder: str) -> None:
    """Writes `bert_model.ckpt.*` and the `checkpoint` file that points to it.

    Raises:
      OSError: if the disk is full.
    """
    names = sorted(tensors)
    with tf_files.writing(folder) as prefix:
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            # A constant would keep the array too, and all be in memory twice.
            tensors=[tf.Variable(tensors[name]).value() for name in names],
        )


def _detect_task(
    tensors: Mapping[str, tensor_files.StoredTensor],
) -> tuple[str, tuple[str, ...], list[str]]:
    """Returns the task and labels implied by the head, and notes."""
    if "cls/squad/output_weights" in tensors:
        return "spans", (), []
    if "output_weights" not in tensors:
        return "pretraining", (), []
    classes = tensors["output_weights"].shape[0]
    if classes == 1:
        note = "output_weights has one row, so the task is regression"
        return "regression", (), [note]
    note = (
        "a TF1 checkpoint does not name its classes; they are called 0 to "
        f"{classes - 1}"
    )
    return "classification", tuple(map(str, range(classes))), [note]


def read(path: str) -> contents.Contents:
    """Reads a TF1 checkpoint, with Adam's slots and the step if it has them.

    Args:
      path: a folder, or a prefix such as `folder/model.ckpt-1000`.

    Raises:
      ValueError: if files are missing or damaged, or if variables and config
        do not match; the message lists every mismatch.
    """
    prefix = tf_files.find(path, "TF1")
    tensors = read_tensors(prefix)
    folder = os.path.dirname(prefix)
    config_path = os.path.join(folder, model_folders.CONFIG)
    if not os.path.isfile(config_path):
        raise ValueError(
            f"{config_path} is missing; it specifies the sizes of {prefix}. "
            "Copy it there from the release, or for a fine-tuned checkpoint "
            "from the pre-trained model that it was initialized from."
        )
    config = bert_config.BertConfig.from_json_file(config_path)
    renaming.refuse_norm_first(config, config_path)
    task, labels, notes = _detect_task(tensors)
    source, step = f"google {prefix}", int(np.asarray(tensors.pop(_STEP, 0)))
    weights, slots, unused = renaming.to_ours(
        renaming.with_slots(table(config, task), _SLOTS),
        tensors,
        contents.shapes(config, task, len(labels)),
        source=source,
    )
    renaming.refuse_more(
        {name: tensors[name] for name in unused if _ENCODER_NAMES.match(name)},
        source=source,
        config=config_path,
    )
    text = vocabularies.read_inferred(folder)
    case_note = vocabularies.case_note(text["do_lower_case"])
    return contents.Contents(
        source=source,
        config=config,
        task=task,
        tensors=weights,
        labels=labels,
        slots=slots,
        step=step,
        metadata=contents.read_settings(
            os.path.join(folder, model_folders.CONFIG)
        ),
        unused=tuple(unused),
        notes=(*notes, contents.Detail(case_note)),
        **text,
    )


def write(checkpoint: contents.Contents, folder: str) -> None:
    """Writes a TF1 checkpoint, its config and vocabulary to a folder.

    Adam's slots and the step are written if the checkpoint has them. Weights
    are float32, as the original code expects.

    Raises:
      ValueError: if the original has no such head or hidden_act.
    """
    rows = table(checkpoint.config, checkpoint.task)
    tensors = tf_files.to_theirs(checkpoint, rows, _SLOTS, "the original")
    if checkpoint.step or checkpoint.slots:
        step = {_STEP: np.int64(checkpoint.step)}
        tensors = tensor_files.merged(tensors, step)
    write_tensors(tensors, folder)
    tf_files.write_text(checkpoint, folder)
