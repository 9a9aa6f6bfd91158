"""Hugging Face folders of a BERT or DistilBERT <-> Contents.

The classes in `config_json.ARCHITECTURES` are read; all but BertLMHeadModel are
written. So are folders of sentence-transformers, with their modules.
"""

import os
import re
from collections.abc import Collection, Mapping

import numpy as np
from absl import logging

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, tensor_files
from bert_tf.checkpoint.formats import renaming, sidecar
from bert_tf.checkpoint.formats.hugging_face import (
    config_json,
    cross_encoder,
    sentence_transformers,
    tokenizer_files,
    weight_files,
)
from tfrecords.io import json_files
from tfrecords.options import some
from tfrecords.text import vocab

WRITES = (
    config_json.CONFIG,
    weight_files.SAFETENSORS,
    *sidecar.WRITES,
    *tokenizer_files.WRITES,
    *sentence_transformers.WRITES,
)

# modeling_bert.py: BertModel.
_EMBEDDINGS = {
    "word_embeddings": "bert.embeddings.word_embeddings.weight",
    "position_embeddings": "bert.embeddings.position_embeddings.weight",
    "type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "norm": "bert.embeddings.LayerNorm",
}
_LAYER = {
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output_dense": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output_dense": "output.dense",
    "output_norm": "output.LayerNorm",
}
_PRETRAINING = {
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.LayerNorm",
    "next_sentence/dense": "cls.seq_relationship",
}
# Part of a BERT's name -> of a DistilBERT's, replaced in this order.
# modeling_distilbert.py.
_DISTILBERT = {
    "bert.pooler.dense": "pre_classifier",
    "bert.encoder": "distilbert.transformer",
    "bert.embeddings": "distilbert.embeddings",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
    "cls.predictions.transform.dense": "vocab_transform",
    "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
    "cls.predictions": "vocab_projector",
}
_SUFFIXES = {
    "kernel": ".weight",
    "bias": ".bias",
    "gamma": ".weight",
    "beta": ".bias",
}
# Tied weight of transformers -> our name of the weight it is tied to.
_TIED = {
    "cls.predictions.decoder.weight": "encoder/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "masked_lm/bias",
    "vocab_projector.weight": "encoder/embeddings/word_embeddings",
}
_ENCODER = ("embeddings.", "encoder.", "transformer.")
_WORDS = "embeddings.word_embeddings.weight"
# Constants (position ids 0, 1, 2 ...) that older versions saved too.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# Modules of torch.compile, FSDP and activation checkpointing around others.
_WRAPPERS = re.compile(
    r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
# Modules of PEFT in a model whose adapter is not merged.
_ADAPTER = re.compile(r"\.(lora_\w+|base_layer|modules_to_save)\.")
# Tasks of a BertForSequenceClassification, which a CrossEncoder scores with.
_SCORED = ("classification", "multi_label", "regression")
# Tasks of heads that may read two texts.
_OF_PAIRS = (*_SCORED, "multiple_choice", "spans")
# Weight files that the sidecar belongs to.
_WEIGHTS = (weight_files.SAFETENSORS,)


def table(config: bert_config.BertConfig, task: str) -> list[renaming.Rename]:
    """Returns the rename table of a task, with transformers' current names."""
    layers = [
        f"bert.encoder.layer.{i}." for i in range(config.num_hidden_layers)
    ]
    rows = renaming.encoder_rows(
        _EMBEDDINGS,
        layers,
        _LAYER,
        "bert.pooler.dense",
        _SUFFIXES,
        is_transposed=True,
    )
    heads = {f"{task}/dense": "qa_outputs" if task == "spans" else "classifier"}
    if task == "pretraining":
        rows += [renaming.Rename("masked_lm/bias", "cls.predictions.bias")]
        heads = _PRETRAINING
    rows += renaming.rows(heads, _SUFFIXES, is_transposed=True)
    if not config.is_distilbert:
        return rows
    return [row._replace(theirs=_of_distilbert(row.theirs)) for row in rows]


def _of_distilbert(name: str) -> str:
    for part, theirs in _DISTILBERT.items():
        name = name.replace(part, theirs)
    return name


def _bare(name: str) -> str:
    """Returns a weight's name without the `bert.` of a model with a head."""
    return re.sub(r"^(distil)?bert\.", "", name)


def _as_named(row: renaming.Rename, names: Collection[str]) -> renaming.Rename:
    """Returns a row of the table with the tensor's name as found in `names`.

    In older folders, the weights of a LayerNorm are gamma and beta. A model
    without a head (BertModel) has names without the prefix `bert.`.
    """
    known = [row.theirs]
    part = row.ours.rpartition("/")[2]
    if part in ("gamma", "beta"):
        known += [f"{row.theirs.rpartition('.')[0]}.{part}"]
    known += [_bare(name) for name in known]
    known += [theirs for theirs, ours in _TIED.items() if ours == row.ours]
    theirs = next((name for name in known if name in names), row.theirs)
    return row._replace(theirs=theirs)


def _tensors(folder: str) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """Returns tensors in float32; notes on a prefix; these and on dtypes."""
    tensors, notes = _unwrapped(weight_files.read(folder), folder)
    tensors, changes = weight_files.with_float32(tensors)
    return tensors, notes, [*notes, *map(contents.Detail, changes)]


def _unwrapped(
    tensors: Mapping[str, np.ndarray], path: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Removes the prefix of a module that wraps the model.

      module.bert.embeddings...     DataParallel
      model.bert.embeddings...      a module with an attribute `model`
      bert._orig_mod.embeddings...  torch.compile, anywhere in a name

    Returns:
      Tensors by the names without a prefix that all have, and notes that say
      so, or that not all have it.

    Raises:
      ValueError: if the model has the modules of an adapter, or two weights
        have one name without their wrappers.
    """
    for name in tensors:
        if _ADAPTER.search(name):
            raise ValueError(
                f"{path}: {name} is of an adapter of PEFT inside the model. "
                "Load it with peft, and write the result of its "
                "merge_and_unload() with save_pretrained."
            )
    wrappers = {x for name in tensors for x in _WRAPPERS.findall(name)}
    bare = {_WRAPPERS.sub("", n): x for n, x in tensors.items()}
    if len(bare) < len(tensors):
        raise ValueError(
            f"{path}: weights are there twice, with and without the part "
            f"{' or '.join(sorted(wrappers))} of a module that wraps another. "
            "Save the model inside of it again."
        )
    tensors = bare
    notes = [
        f"names have the part {wrapper!r} of a module that wraps another, "
        "which is ignored"
        for wrapper in sorted(wrappers)
    ]
    prefixes = [n.partition(_WORDS)[0] for n in tensors if n.endswith(_WORDS)]
    prefix = re.sub(r"(distil)?bert\.$", "", min(prefixes, default=""))
    others = [name for name in tensors if not name.startswith(prefix)]
    if not prefix:
        return tensors, notes
    if others:
        notes += [
            f"names have the prefix {prefix!r}, which is not ignored since "
            f"others lack it: {some(others)}"
        ]
        return tensors, notes
    notes += [f"all names have the prefix {prefix!r}, which is ignored"]
    return {n.removeprefix(prefix): x for n, x in tensors.items()}, notes


def _check_ties(
    tensors: Mapping[str, np.ndarray],
    renamed: Mapping[str, np.ndarray],
    path: str,
) -> None:
    """Raises ValueError if the masked-LM head's output weights are not tied."""
    for theirs, ours in _TIED.items():
        given = tensors.get(theirs)
        if given is None or "masked_lm/bias" not in renamed:
            continue
        tied = renamed[ours]
        if (
            given.shape != tied.shape
            or np.asarray(given).tobytes() != tied.tobytes()
        ):
            raise ValueError(
                f"{path}: {theirs} {given.shape} differs from {ours} "
                f"{tied.shape}. In BERT these weights are tied "
                "(run_pretraining.py), so this head cannot be read. If you "
                "need only the encoder, save its BertModel."
            )


def _check_floats(tensors: Mapping[str, np.ndarray], path: str) -> None:
    stored = tensor_files.stored(tensors)
    others = [
        f"{n} {x.dtype}" for n, x in stored.items() if x.dtype != np.float32
    ]
    if others:
        types = some(others)
        raise ValueError(
            f"{path}: weights should be floating-point numbers; these are not: "
            f"{types}. A quantised model cannot be read."
        )


def _unread(unused: list[str], weights: Collection[str]) -> list[str]:
    """Returns unused tensors that are no constants and not tied to others."""
    return [
        name
        for name in unused
        if not name.endswith(_BUFFERS)
        and not (name in _TIED and "masked_lm/bias" in weights)
    ]


def read(path: str) -> contents.Contents:
    """Reads a folder, of sentence-transformers or not.

    Raises:
      ValueError: if the model is not BERT or has unsupported settings or
        modules, or if files or tensors are missing or do not match the config.
    """
    modules = sentence_transformers.read(path)
    folder = modules.folder
    is_inside = modules.embedding is not None
    values = config_json.read_values(folder)
    tensors, prefix_notes, changes = _tensors(folder)
    extra = sidecar.read(folder, _WEIGHTS)
    config_path = os.path.join(folder, config_json.CONFIG)
    metadata = config_json.parse(values, tensors, config_path)
    settings_path = os.path.join(folder, sidecar.SETTINGS)
    num_labels = len(metadata.labels)
    json_files.check_thresholds(extra.settings, num_labels, settings_path)
    rows = table(metadata.config, metadata.task)
    tensors = {
        row.theirs: row.to_theirs(extra.tensors[row.ours])
        for row in rows
        if row.ours in extra.tensors
    } | tensors
    rows = [_as_named(row, tensors) for row in rows]
    # Sentence embeddings use only the encoder, whatever the class.
    needed = () if is_inside else metadata.parts
    source = f"hugging_face {path}"
    where = "; ".join([source, *prefix_notes])
    sizes = (metadata.config, metadata.task, num_labels)
    weights, _, unused = renaming.to_ours(
        rows,
        tensors,
        contents.shapes(*sizes),
        source=where,
        optional=[part for part in renaming.PARTS if part not in needed],
    )
    _check_floats(weights, path)
    _check_ties(tensors, weights, path)
    unused = _unread(unused, weights)
    renaming.refuse_more(
        {
            name: tensors[name]
            for name in unused
            if _bare(name).startswith(_ENCODER)
        },
        source=where,
        config=config_path,
    )
    if is_inside:
        modules.embedding.check_width(metadata.config.hidden_size)
    has_pairs = not is_inside and metadata.task in _OF_PAIRS
    text = tokenizer_files.read(folder, metadata.config, has_pairs)
    settings = _text_settings(modules, text, metadata.config)
    settings |= _source_settings(modules, text, values, metadata)
    score_notes = []
    if metadata.task in _SCORED and not is_inside:
        score_notes = _read_scores(path, folder, values, metadata, settings)
    return contents.Contents(
        source=source,
        config=metadata.config,
        task=metadata.task,
        tensors=weights,
        labels=metadata.labels,
        slots=extra.slots,
        step=extra.settings.get("step") or 0,
        vocabulary=text.vocabulary,
        do_lower_case=settings.pop("do_lower_case", None),
        metadata=settings | modules.texts | sidecar.metadata_of(extra),
        sentence_embedding=modules.embedding,
        unused=tuple(unused),
        notes=(
            *modules.notes,
            *metadata.notes,
            *score_notes,
            *text.notes,
            *changes,
            *extra.notes,
        ),
        tokenizer_differences=text.differences,
    )


def _source_settings(
    modules: sentence_transformers.Modules,
    text: tokenizer_files.Metadata,
    values: Mapping,
    metadata: config_json.Metadata,
) -> dict[str, object]:
    """Returns the entry of model.json on keys that nothing here reads."""
    more = cross_encoder.keys_of(metadata.task, {})
    found = {
        config_json.CONFIG: config_json.others(values, metadata, more),
        tokenizer_files.SETTINGS: text.settings,
        **modules.settings,
    }
    kept = {file: keys for file, keys in found.items() if keys}
    return {contents.SOURCE_SETTINGS: kept} if kept else {}


def _read_scores(
    path: str,
    folder: str,
    values: Mapping,
    metadata: config_json.Metadata,
    settings: dict[str, object],
) -> list[str]:
    """Adds the activation of the score to `settings`; returns notes."""
    num_labels = len(metadata.labels) or 1
    found, notes = cross_encoder.read(path, folder, values, num_labels)
    is_score = metadata.task == "regression"
    # A regression of ours is linear without saying so.
    kept = settings.get(contents.SOURCE_SETTINGS, {})
    if is_score and (found != "linear" or config_json.CONFIG in kept):
        settings |= {contents.SCORE_ACTIVATION: found} if found else {}
    if found:
        _follow_library(settings)
    elif is_score and settings.get(vocab.SPLIT):
        del settings[vocab.SPLIT]  # `write` has it always.
    return notes


def _follow_library(settings: dict[str, object]) -> None:
    """Keeps special tokens in texts, as sentence-transformers does.

    If the files say so, they are split, which is the default of model.json.
    """
    if settings.setdefault(vocab.SPLIT, False):
        del settings[vocab.SPLIT]


def _text_settings(
    modules: sentence_transformers.Modules,
    text: tokenizer_files.Metadata,
    config: bert_config.BertConfig,
) -> dict[str, object]:
    """Returns the entries of model.json on texts: rules and length."""
    settings: dict[str, object] = dict(text.rules)
    if modules.do_lower_case and settings.get("do_lower_case") is False:
        strips = vocab.all_rules_of(settings)["strip_accents"]
        lower = {"do_lower_case": True, "strip_accents": strips}
        settings = vocab.rules_of(settings | lower)
    if modules.embedding:
        _follow_library(settings)
    if length := modules.max_seq_length or text.max_seq_length:
        length = min(length, config.max_position_embeddings)
        settings["max_seq_length"] = length
    return settings


def _complete_parts(checkpoint: contents.Contents) -> list[str]:
    """Returns the parts of which the checkpoint lacks no weight.

    A part that the task's model does not have counts as complete.
    """
    missing = checkpoint.missing()
    return [
        part
        for part in renaming.PARTS
        if not any(name.startswith(part) for name in missing)
    ]


def _check_complete(
    checkpoint: contents.Contents, name: str, parts: tuple[str, ...]
) -> None:
    """Raises ValueError if weights of the class are missing.

    For a BertModel without a pooler, logs a warning instead.
    """
    missing = [
        weight
        for weight in checkpoint.missing()
        if weight.startswith(parts) or not weight.startswith(renaming.PARTS)
    ]
    others = [x for x in missing if not x.startswith(renaming.POOLER)]
    if missing and name == "BertModel" and not others:
        logging.warning(
            "%s has no pooler; to load it without newly initializing one, use "
            "BertModel.from_pretrained(folder, add_pooling_layer=False)",
            checkpoint.source,
        )
    elif missing:
        raise ValueError(
            f"{checkpoint.source} has no {some(missing)}; a {name} needs "
            "all of its weights. Train the model first, or use a model that "
            "has them."
        )


def write(checkpoint: contents.Contents, folder: str) -> None:
    """Writes a transformers model to a folder from `atomic_folder`.

    The class is the one that holds the most weights. The other weights, such as
    the pooler of a tagging model, Adam's slots and the step go to the sidecar.

    Raises:
      ValueError: if weights of the encoder or the task's head are missing.
    """
    name = config_json.architecture_for(
        checkpoint.task,
        _complete_parts(checkpoint),
        config_json.class_start(checkpoint.config),
    )
    _, parts = config_json.ARCHITECTURES[name]
    _check_complete(checkpoint, name, parts)
    others = [
        weight
        for weight in checkpoint.tensors
        if weight.startswith(renaming.PARTS) and not weight.startswith(parts)
    ]
    tensors = checkpoint.tensors
    extra = tensor_files.only(tensors, others)
    theirs = renaming.to_theirs(
        table(checkpoint.config, checkpoint.task),
        tensor_files.only(tensors, [n for n in tensors if n not in extra]),
        source=checkpoint.source,
    )
    if name.endswith("Model"):
        stored = tensor_files.stored(theirs)
        theirs = {_bare(x): t for x, t in stored.items()}
    weight_files.write(theirs, folder)
    settings = sidecar.settings_of(checkpoint)
    if extra or checkpoint.slots or settings:
        more = tensor_files.merged(extra, checkpoint.slots)
        sidecar.write(folder, _WEIGHTS, more, settings)
        if checkpoint.slots:
            others.append(f"{len(checkpoint.slots)} optimizer slots")
        if checkpoint.step:
            others.append(f"step {checkpoint.step}")
        others += [x for x in settings if x != "step"]
        logging.warning(
            "%s cannot hold %s; this is written to %s, which transformers does "
            "not read",
            name,
            ", ".join(others),
            " and ".join(sidecar.WRITES),
        )
    more = cross_encoder.keys_of(checkpoint.task, checkpoint.metadata)
    config_json.write(
        *(checkpoint.config, checkpoint.task, checkpoint.labels, name, folder),
        checkpoint.source_settings(config_json.CONFIG) | more,
    )
    _write_text(checkpoint, folder)
    if checkpoint.sentence_embedding:
        sentence_transformers.write(
            checkpoint.sentence_embedding,
            checkpoint.metadata,
            checkpoint.config,
            folder,
        )


def _write_text(checkpoint: contents.Contents, folder: str) -> None:
    if checkpoint.vocabulary is None:
        logging.warning(
            "%s has no vocabulary, so no tokenizer is written; add its "
            "vocab.txt",
            checkpoint.source,
        )
        return
    if checkpoint.do_lower_case is None:
        logging.warning(
            "%s does not specify do_lower_case; transformers will lower-case "
            "text. If that is wrong, add do_lower_case to %s",
            checkpoint.source,
            tokenizer_files.SETTINGS,
        )
    rules = checkpoint.rules()
    # Without the key they are kept by transformers, and here by the reader of
    # vectors and scores of sentence-transformers.
    is_of_library = checkpoint.sentence_embedding or (
        checkpoint.task == "regression"
    )
    if is_of_library or vocab.SPLIT in checkpoint.metadata:
        rules[vocab.SPLIT] = checkpoint.metadata.get(vocab.SPLIT, True)
    tokenizer_files.write(
        checkpoint.vocabulary,
        rules,
        checkpoint.metadata.get(
            "max_seq_length", checkpoint.config.max_position_embeddings
        ),
        folder,
        checkpoint.source_settings(tokenizer_files.SETTINGS),
        f"{config_json.class_start(checkpoint.config)}Tokenizer",
    )
