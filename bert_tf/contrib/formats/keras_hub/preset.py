"""KerasHub presets of BERT <-> Contents.

A preset is a folder with config.json, model.weights.h5 and the tokenizer's
tokenizer.json and assets. If the model has a head, it also has task.json and
task.weights.h5. KerasNLP, as KerasHub was called before, has the same layout.

Data that a preset cannot hold (the next-sentence head, Adam's slots, the step,
class names) is written to the sidecar.
"""

import os

import numpy as np

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, tensor_files
from bert_tf.checkpoint.formats import renaming, sidecar, vocabularies
from bert_tf.contrib.formats.keras_hub import preset_json, weight_files
from tfrecords.text import vocab

WRITES = (*preset_json.WRITES, *weight_files.WRITES, *sidecar.WRITES)

# saving_lib.py: optimizer state of a compiled task, which is not read.
_STATE = f"{weight_files.TASK}/optimizer/"
# A pooler is required: KerasHub does not load presets without one.
_OPTIONAL = (renaming.MASKED_LM, renaming.NEXT_SENTENCE)

# keras_hub 0.32: models/bert/bert_backbone.py, bert_masked_lm.py and
# bert_text_classifier.py, layers/modeling/transformer_encoder.py and
# masked_lm_head.py, saved by Keras 3.15. A layer's path is its class name in
# snake case, with a number for the second and later layers of a class.
_BACKBONE = f"{weight_files.MODEL}/layers"
_HEAD = f"{weight_files.TASK}/layers"
_EMBEDDINGS = {
    "word_embeddings": f"{_BACKBONE}/reversible_embedding/vars/0",
    "position_embeddings": f"{_BACKBONE}/position_embedding/vars/0",
    "type_embeddings": f"{_BACKBONE}/embedding/vars/0",
    "norm": f"{_BACKBONE}/layer_normalization",
}
_LAYER = {
    "attention/query": "_self_attention_layer/query_dense",
    "attention/key": "_self_attention_layer/key_dense",
    "attention/value": "_self_attention_layer/value_dense",
    "attention/output_dense": "_self_attention_layer/output_dense",
    "attention_norm": "_self_attention_layer_norm",
    "intermediate": "_feedforward_intermediate_dense",
    "output_dense": "_feedforward_output_dense",
    "output_norm": "_feedforward_layer_norm",
}
_MASKED_LM = {
    "masked_lm/transform": f"{_HEAD}/masked_lm_head/_intermediate_dense",
    "masked_lm/norm": f"{_HEAD}/masked_lm_head/_intermediate_layer_norm",
}
_SUFFIXES = {
    "kernel": "/vars/0",
    "bias": "/vars/1",
    "gamma": "/vars/0",
    "beta": "/vars/1",
}


def table(config: bert_config.BertConfig, task: str) -> list[renaming.Rename]:
    """Returns the rename table of a task, with a row for each weight.

    Their names are `<file>/<path in it>`; for tensors in the sidecar,
    `<file>/<our name>`.

    Raises:
      ValueError: if KerasHub has no such head.
    """
    layers = [
        f"{_BACKBONE}/transformer_encoder{f'_{i}' if i else ''}/"
        for i in range(config.num_hidden_layers)
    ]
    rows = renaming.encoder_rows(
        _EMBEDDINGS, layers, _LAYER, f"{_BACKBONE}/dense", _SUFFIXES
    )
    rows = renaming.split_heads(rows, config)
    if task == "pretraining":
        bias = f"{_HEAD}/masked_lm_head/vars/0"
        head = "next_sentence/dense"
        rows += [renaming.Rename("masked_lm/bias", bias)]
        rows += renaming.rows(_MASKED_LM, _SUFFIXES)
        return rows + renaming.rows({head: f"{sidecar.TENSORS}/{head}"})
    if task in ("classification", "multi_label", "regression"):
        return rows + renaming.rows(
            {f"{task}/dense": f"{_HEAD}/dense"}, _SUFFIXES
        )
    raise ValueError(
        f"KerasHub's BERT has no head for {task}; it has BertMaskedLM and "
        "BertTextClassifier. Choose another format."
    )


def read(path: str) -> contents.Contents:
    """Reads a preset, including the head if it is one of the supported ones.

    Raises:
      ValueError: if the model is not BERT, if files are missing or damaged, or
        if weights and config do not match; the message lists every mismatch.
    """
    source = f"keras_hub {path}"
    metadata = preset_json.read(path)
    config, task = metadata.config, metadata.task
    weight_files.path_of(path, weight_files.MODEL)
    extra = sidecar.read(path, weight_files.WRITES)
    labels = ()
    if task in contents.WITH_LABELS:
        numbers = map(str, range(metadata.num_classes))
        labels = tuple(extra.settings.get("labels") or numbers)
    rows = table(config, task)
    theirs = {row.theirs for row in rows}
    tensors = weight_files.read(path, weight_files.MODEL, theirs)
    if os.path.isfile(os.path.join(path, weight_files.TASK)):
        tensors |= weight_files.read(path, weight_files.TASK, theirs)
    elif task != "pretraining":
        raise ValueError(
            f"{os.path.join(path, weight_files.TASK)} is missing; it contains "
            "the weights of the head. Copy every file of the preset."
        )
    more = tensor_files.stored(extra.tensors)
    tensors |= {f"{sidecar.TENSORS}/{n}": x for n, x in more.items()}
    weights, _, unused = renaming.to_ours(
        rows,
        {n: x for n, x in tensors.items() if not n.startswith(_STATE)},
        contents.shapes(config, task, len(labels)),
        source=source,
        optional=_OPTIONAL,
    )
    renaming.refuse_more(
        {n: tensors[n] for n in unused if n.startswith(weight_files.MODEL)},
        source=source,
        config=os.path.join(path, preset_json.CONFIG),
    )
    untrained = extra.settings.get(contents.UNTRAINED, ())
    weights = tensor_files.only(
        weights, [x for x in weights if x not in untrained]
    )
    notes = [*metadata.notes, *extra.notes]
    settings = {
        "max_seq_length": metadata.max_seq_length,
        contents.SCORE_ACTIVATION: metadata.score_activation,
    }
    if metadata.masking:
        kept = {preset_json.PREPROCESSOR: metadata.masking}
        settings[contents.SOURCE_SETTINGS] = kept
    is_case_inferred = bool(extra.settings.get(contents.INFERRED_CASE))
    case = metadata.rules.pop("do_lower_case", None)
    if is_case_inferred:
        note = vocabularies.case_note(case)
        notes += [contents.Detail(note)]
    return contents.Contents(
        source=source,
        config=config,
        task=task,
        tensors=weights,
        labels=labels,
        slots=extra.slots,
        step=extra.settings.get("step") or 0,
        vocabulary=vocabularies.read(
            os.path.join(path, preset_json.VOCABULARY)
        ),
        do_lower_case=case,
        is_case_inferred=is_case_inferred,
        unused=tuple(unused),
        metadata=metadata.rules
        | {n: x for n, x in settings.items() if x}
        | sidecar.metadata_of(extra),
        notes=tuple(notes),
        tokenizer_differences=metadata.tokenizer_differences,
    )


def write(checkpoint: contents.Contents, folder: str) -> None:
    """Writes a preset and, if needed, its sidecar to a folder.

    Weights are float32. A missing pooler is written as zeros, since KerasHub
    does not load a preset without one.

    Raises:
      ValueError: if KerasHub has no such head or hidden_act.
    """
    config, labels = checkpoint.config, checkpoint.labels
    if config.hidden_act != "gelu":
        raise ValueError(
            f"{checkpoint.source} has hidden_act={config.hidden_act}; "
            "KerasHub's BertBackbone supports only the tanh approximation of "
            "GELU. To convert anyway, with outputs that differ, open it with "
            "hidden_act=gelu."
        )
    rows = table(config, checkpoint.task)
    shapes = checkpoint.shapes()
    missing = [n for n in checkpoint.missing() if n.startswith("encoder/")]
    theirs = renaming.to_theirs(
        rows,
        tensor_files.merged(
            {name: np.zeros(shapes[name]) for name in missing},
            checkpoint.tensors,
        ),
        source=checkpoint.source,
    )
    task = checkpoint.task
    if not any(name.startswith(f"{_HEAD}/") for name in theirs):
        task = None
    rules, is_case_inferred = checkpoint.rules(), False
    if checkpoint.vocabulary is None:
        rules = None
    elif "do_lower_case" in rules:
        is_case_inferred = checkpoint.is_case_inferred
    else:
        # KerasHub's tokenizer requires a value.
        lower = vocab.infer_lower_case(checkpoint.vocabulary)
        rules["do_lower_case"], is_case_inferred = lower, True
    classes = 1 if task == "regression" else len(labels)
    length = checkpoint.metadata.get("max_seq_length")
    metadata = checkpoint.metadata
    preset_json.write(
        *(folder, config, task, classes, rules, length),
        metadata.get(contents.SCORE_ACTIVATION, "linear"),
        checkpoint.source_settings(preset_json.PREPROCESSOR),
    )
    weight_files.write(tensor_files.as_float32(theirs), folder)
    vocabularies.write(
        checkpoint.vocabulary, os.path.join(folder, preset_json.VOCABULARY)
    )
    prefix = f"{sidecar.TENSORS}/"
    extra = {
        name.removeprefix(prefix): theirs[name]
        for name in theirs
        if name.startswith(prefix)
    }
    settings = {
        "labels": list(labels),
        **sidecar.settings_of(checkpoint),
        contents.UNTRAINED: missing,
        contents.INFERRED_CASE: is_case_inferred,
    }
    sidecar.write(
        folder,
        weight_files.WRITES,
        tensor_files.merged(extra, checkpoint.slots),
        {n: x for n, x in settings.items() if x},
    )
