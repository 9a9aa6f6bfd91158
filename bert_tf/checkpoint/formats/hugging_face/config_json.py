"""config.json of a Hugging Face BERT, DistilBERT <-> BertConfig, task, labels.

Settings that our BERT does not support are refused by name.
"""

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents
from bert_tf.checkpoint.formats import renaming
from bert_tf.checkpoint.formats.renaming import (
    MASKED_LM,
    NEXT_SENTENCE,
    PARTS,
    POOLER,
)
from tfrecords.io import json_files
from tfrecords.options import quoted

CONFIG = "config.json"
_MULTI_LABEL = "multi_label_classification"
# Class -> (task, parts of the class). transformers, modeling_bert.py and
# modeling_distilbert.py, where the classifiers have the pooler.
ARCHITECTURES = {
    "BertForPreTraining": ("pretraining", PARTS),
    "BertForMaskedLM": ("pretraining", (MASKED_LM,)),
    "BertForNextSentencePrediction": ("pretraining", (POOLER, NEXT_SENTENCE)),
    "BertModel": ("pretraining", (POOLER,)),
    "BertLMHeadModel": ("pretraining", (MASKED_LM,)),
    "BertForSequenceClassification": ("classification", (POOLER,)),
    "BertForTokenClassification": ("tagging", ()),
    "BertForQuestionAnswering": ("spans", ()),
    "BertForMultipleChoice": ("multiple_choice", (POOLER,)),
    "DistilBertForMaskedLM": ("pretraining", (MASKED_LM,)),
    "DistilBertModel": ("pretraining", ()),
    "DistilBertForSequenceClassification": ("classification", (POOLER,)),
    "DistilBertForTokenClassification": ("tagging", ()),
    "DistilBertForQuestionAnswering": ("spans", ()),
    "DistilBertForMultipleChoice": ("multiple_choice", (POOLER,)),
}
# model_type -> beginning of its classes' names.
_MODEL_TYPES = {"bert": "Bert", "distilbert": "DistilBert"}
# Ours -> key of a DistilBERT. transformers reads the first three as ours, too.
_DISTILBERT = {
    "hidden_size": "dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
# Keys of a BERT's config.json that a DistilBERT's has not.
_BERT_ONLY = ("layer_norm_eps", "position_embedding_type")

# Theirs -> ours. transformers, activations.py: "gelu" is the erf form there.
ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}
# Ours -> the first of theirs.
_THEIR_ACTIVATIONS = {x: n for n, x in reversed(ACTIVATIONS.items())}
_LAYER_NORM_EPSILON = 1e-12  # Fixed in bert_tf/model/layers.py.
_DEFAULT_VOCAB_SIZE = 30522  # Default of transformers.
# Settings that change the outputs -> the only value that we support.
_SUPPORTED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "layer_norm_eps": _LAYER_NORM_EPSILON,
    "pruned_heads": {},
}
# Keys that are true of a source's files alone, or that others replace.
_REPLACED = (
    *("architectures", "_name_or_path", "transformers_version", "auto_map"),
    *("dtype", "quantization_config", "tokenizer_class", "num_labels"),
    *bert_config.BertConfig.__dataclass_fields__,
)


class Metadata(NamedTuple):
    """Fields of Contents that are in config.json.

    `parts` are those of `renaming.PARTS` that must be present.
    """

    config: bert_config.BertConfig
    task: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    notes: tuple[str, ...]


def _named_class(values: dict, path: str) -> str | None:
    """Returns the first of a config.json's architectures, if any."""
    given = values.get("architectures") or [None]
    # transformers writes a list; files edited by hand may have a string.
    first = given[0] if isinstance(given, list) else given
    if not isinstance(first, str | None):
        raise ValueError(
            f"{path}: architectures={quoted(given)} should list the class that "
            'the weights were saved from, such as ["BertModel"].'
        )
    return first


def read_object(folder: str, name: str, layout=dict) -> dict:
    """Returns the JSON object in a file, empty if the file is missing."""
    path = os.path.join(folder, name)
    return json_files.read(path, layout) if os.path.isfile(path) else {}


def class_start(config: bert_config.BertConfig) -> str:
    """Returns how the names of transformers' classes for a config begin."""
    return _MODEL_TYPES["distilbert" if config.is_distilbert else "bert"]


def _as_bert(values: dict) -> dict:
    """Returns a DistilBERT's values with the keys of BertConfig."""
    read = {n: values[x] for n, x in _DISTILBERT.items() if x in values}
    ignored = {*list(_DISTILBERT)[3:], *_DISTILBERT.values(), *_BERT_ONLY}
    kept = {n: x for n, x in values.items() if n not in ignored}
    return {"num_hidden_layers": 6, **kept, **read, **bert_config.DISTILBERT}


def read_values(folder: str) -> dict:
    """Reads config.json; the keys of a DistilBERT become those of BertConfig.

    Raises:
      ValueError: if it is missing, is not a JSON object, or is not of a BERT.
    """
    path = os.path.join(folder, CONFIG)
    if not os.path.isfile(path):
        raise ValueError(
            f"{path} is missing; it has the sizes of a Hugging Face model. "
            "Copy it from the source of the weights."
        )
    values = read_object(folder, CONFIG)
    model_type = values.get("model_type")
    if model_type is None:
        # Files from old versions have at most the class.
        named = _named_class(values, path) or "Bert"
        starts = {x: n for n, x in _MODEL_TYPES.items() if named.startswith(x)}
        model_type = next(iter(starts.values()), named)
    if model_type not in _MODEL_TYPES:
        raise ValueError(
            f"{folder} is not a BERT: {CONFIG} has model_type "
            f"{quoted(model_type)}. Only folders with model_type 'bert' or "
            "'distilbert' can be read."
        )
    return _as_bert(values) if model_type == "distilbert" else values


def _refuse(values: dict, path: str) -> None:
    """Raises ValueError for settings that our BERT does not support."""
    if (quantized := values.get("quantization_config")) is not None:
        method = quantized
        if isinstance(quantized, dict):
            method = quantized.get("quant_method", quantized)
        raise ValueError(
            f"{path}: quantization_config is of {quoted(method)}; quantized "
            "weights are not read. Load the model with transformers, and write "
            "its dequantize() with save_pretrained, or give the folder that it "
            "was made from."
        )
    for key, ours in _SUPPORTED.items():
        value = values.get(key)
        if value is not None and value != ours:
            raise ValueError(
                f"{path}: {key}={quoted(value)}; bert_tf supports only "
                f"{ours!r}, so the outputs would differ. This model cannot be "
                "read."
            )
    act = values.get("hidden_act", "gelu")
    if not isinstance(act, str) or act not in ACTIVATIONS:
        raise ValueError(
            f"{path}: hidden_act={quoted(act)} is not one of "
            f"{', '.join(ACTIVATIONS)}. This model cannot be read."
        )


def _notes(values: dict, config: bert_config.BertConfig, task: str) -> list:
    """Returns notes on settings that differ in our model."""
    notes, ours = [], config.hidden_act
    if config.is_distilbert:
        notes.append(
            "in training, dropout is BERT's: also of the attention's output, "
            f"and with hidden_dropout_prob={config.hidden_dropout_prob} in "
            "heads; seq_classif_dropout and qa_dropout are not used"
        )
    if ours in ("gelu", "gelu_erf"):
        form = "tanh" if ours == "gelu" else "erf"
        notes.append(
            contents.Detail(
                f"hidden_act {values.get('hidden_act', 'gelu')!r} of "
                f"transformers is GELU by {form}, called {ours!r} here"
            )
        )
    dropout, rate = values.get("classifier_dropout"), config.hidden_dropout_prob
    if task not in ("pretraining", "spans") and dropout not in (None, rate):
        notes.append(
            f"classifier_dropout={dropout} is not used; here the classifier's "
            f"dropout is hidden_dropout_prob={rate}"
        )
    if values.get("auto_map"):
        notes.append(
            f"{CONFIG} refers to custom code (auto_map), which is not run: the "
            "model is read as the class in its architectures"
        )
    return notes


def _architecture(
    values: dict, names: Collection[str], start: str, path: str
) -> str:
    """Returns the class that a folder was saved from."""
    given = _named_class(values, path)
    known = [name for name in ARCHITECTURES if name.startswith(start)]
    if given in known:
        return given
    if given is not None:
        raise ValueError(
            f"{path}: architectures={[given]}; expected one of "
            f"{', '.join(known)}. If the model wraps one of these, "
            "save the wrapped model."
        )
    if any(name.startswith("classifier.") for name in names):
        raise ValueError(
            f"{path} has no architectures, and a classifier may be for texts, "
            'tokens or choices. Add the class, such as "architectures": '
            f'["{start}ForSequenceClassification"].'
        )
    is_for_spans = "qa_outputs.weight" in names
    return start + ("ForQuestionAnswering" if is_for_spans else "Model")


def _labels(
    values: dict, tensors: Mapping[str, np.ndarray], path: str
) -> tuple[tuple[str, ...], list[str]]:
    """Returns the class names in order, and a note if the file has none.

    Like transformers, they are then LABEL_0, LABEL_1 and so on; but as many as
    the weights have, where transformers takes 2.
    """
    forms = {"num_labels?": range(1, 10**6 + 1), "id2label?": dict}
    json_files.check(values, forms, path)
    given, count = values.get("id2label"), values.get("num_labels")
    if given is None:
        notes, weight = [], tensors.get("classifier.weight")
        if count is None and weight is not None and weight.shape:
            count = weight.shape[0]
            notes = [
                f"{CONFIG} has neither id2label nor num_labels: {count} labels "
                "without names, by classifier.weight"
            ]
        return tuple(f"LABEL_{i}" for i in range(count or 2)), notes
    ids = [str(i) for i in range(len(given))]
    if not ids or set(given) != set(ids):
        raise ValueError(
            f"{path}: id2label={quoted(given)} should name every class once, "
            "with ids counting from 0."
        )
    return tuple(str(given[i]) for i in ids), []


def _task_of(
    architecture: str, values: dict, tensors: Mapping, path: str
) -> tuple[str, tuple[str, ...], list[str]]:
    """Returns the task, its labels, and notes on differences in our model."""
    task, _ = ARCHITECTURES[architecture]
    if task not in contents.WITH_LABELS:
        return task, (), []
    labels, notes = _labels(values, tensors, path)
    problem = values.get("problem_type")
    if len(labels) == 1 and task == "tagging":
        raise ValueError(
            f"{path}: one class, {labels[0]!r}; a tagging model needs at least "
            "2. This model cannot be read."
        )
    if len(labels) == 1:
        note = f"one logit, with problem_type {problem!r}: read as a regression"
        is_score = problem in (None, "regression")
        return "regression", (), notes if is_score else [*notes, note]
    if task == "tagging":
        return task, labels, notes
    if problem == "regression":
        raise ValueError(
            f"{path}: problem_type='regression' with {len(labels)} labels; our "
            "regression has one score. This model cannot be read."
        )
    is_multi_label = problem == _MULTI_LABEL
    return "multi_label" if is_multi_label else task, labels, notes


def parse(
    values: dict, tensors: Mapping[str, np.ndarray], path: str
) -> Metadata:
    """Returns the fields of Contents in a config.json.

    Args:
      values: from `read_values`.
      tensors: of the folder, to infer the task and the number of labels if
        they are not in `values`.
      path: path of the file, for messages.

    Raises:
      ValueError: if a setting is not supported. The message names path and key.
    """
    _refuse(values, path)
    sizes = {
        name: values[name]
        for name in bert_config.BertConfig.__dataclass_fields__
        if name in values
    }
    sizes["hidden_act"] = ACTIVATIONS[values.get("hidden_act", "gelu")]
    sizes.setdefault("vocab_size", _DEFAULT_VOCAB_SIZE)
    try:
        config = bert_config.BertConfig.from_dict(sizes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    renaming.refuse_norm_first(config, path)
    architecture = _architecture(values, tensors, class_start(config), path)
    task, labels, notes = _task_of(architecture, values, tensors, path)
    _, parts = ARCHITECTURES[architecture]
    if architecture == "BertModel":
        parts = ()  # Saved without a pooler if add_pooling_layer=False.
    notes = tuple(_notes(values, config, task) + notes)
    return Metadata(config, task, labels, parts, notes)


def architecture_for(task: str, parts: Collection[str], start: str) -> str:
    """Returns the task's class that uses the most of `parts`.

    Its name begins with `start`, see `class_start`.
    """
    if task in ("regression", "multi_label"):
        task = "classification"
    of_task = {
        name: set(wanted)
        for name, (own, wanted) in ARCHITECTURES.items()
        if own == task and name.startswith(start)
    }
    for name, wanted in of_task.items():
        if wanted <= set(parts):
            return name
    return "BertModel" if task == "pretraining" else next(iter(of_task))


def _own(
    config: bert_config.BertConfig, task: str, labels: Collection[str]
) -> dict[str, object]:
    """Returns the keys that `write` has, all but `architectures`."""
    values: dict = {"model_type": "bert"}
    if task == "regression":
        labels, values["problem_type"] = ("LABEL_0",), "regression"
    if task == "classification":
        values["problem_type"] = "single_label_classification"
    if task == "multi_label":
        values["problem_type"] = _MULTI_LABEL
    if labels:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    values |= {
        **config.to_dict(),
        "hidden_act": _THEIR_ACTIVATIONS[config.hidden_act],
        "layer_norm_eps": _LAYER_NORM_EPSILON,
        "pad_token_id": 0,
        # A default of transformers, which CTranslate2 reads from the file.
        "position_embedding_type": _SUPPORTED["position_embedding_type"],
        "torch_dtype": "float32",
    }
    if not config.is_distilbert:
        return values
    left_out = (*_BERT_ONLY, *bert_config.DISTILBERT)
    return {
        _DISTILBERT.get(name, name): value
        for name, value in (values | {"model_type": "distilbert"}).items()
        if name not in left_out
    }


def others(
    values: Mapping, metadata: Metadata, more: Collection[str] = ()
) -> dict[str, object]:
    """Returns the keys of a source's config.json that are written again.

    They are neither among those of `write`, unless only the source has the
    value (the label of a score, the padding), nor about the source's files.

    Args:
      values: of the file.
      metadata: from `parse`.
      more: further keys that are written anew.
    """
    own = dict.fromkeys(more) | _own(
        metadata.config, metadata.task, metadata.labels
    )
    kept = ("pad_token_id", "problem_type")
    if not metadata.labels:
        kept += ("id2label", "label2id")
    return {
        name: value
        for name, value in values.items()
        if name not in (*_REPLACED, *own)
        or (name in kept and own.get(name) != value)
    }


def write(
    config: bert_config.BertConfig,
    task: str,
    labels: Collection[str],
    architecture: str,
    folder: str,
    more: Mapping = {},
) -> None:
    """Writes a config.json for transformers.

    Args:
      config: sizes.
      task: of the model.
      labels: its classes; may be empty.
      architecture: class of transformers.
      folder: where to.
      more: further keys, such as those of a source, see `others`.
    """
    own = _own(config, task, labels)
    values = {"architectures": [architecture], **own, **more}
    json_files.write(os.path.join(folder, CONFIG), values)
