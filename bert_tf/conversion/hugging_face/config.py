"""Config.json of a Hugging Face BERT <-> BertConfig, task and labels.

What a file may ask for and our BERT does not compute is refused by name.
"""

import os
from collections.abc import Collection
from typing import NamedTuple

from bert_tf import config as bert_config
from bert_tf.conversion.hugging_face import tasks as tasks
from tfrecords.io import atomic_files

CONFIG = "config.json"

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
_THEIR_ACTIVATIONS = {
    "gelu_erf": "gelu",
    "gelu": "gelu_new",
    "relu": "relu",
    "tanh": "tanh",
}
_LAYER_NORM_EPSILON = 1e-12  # bert_tf/model/layers.py: the only one.
_DEFAULT_VOCAB_SIZE = 30522  # transformers', where the file is silent.
# What changes the numbers, and the only value of it that we compute.
_COMPUTED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "layer_norm_eps": _LAYER_NORM_EPSILON,
    "pruned_heads": {},
    "quantization_config": None,
}
# How people write what model_type says.
_OTHER_MODELS = {
    "albert": "ALBERT",
    "bert-generation": "BertGeneration",
    "big_bird": "BigBird",
    "camembert": "CamemBERT",
    "deberta": "DeBERTa",
    "deberta-v2": "DeBERTa v2",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "ernie": "ERNIE",
    "mobilebert": "MobileBERT",
    "modernbert": "ModernBERT",
    "mpnet": "MPNet",
    "nomic_bert": "Nomic BERT",
    "roberta": "RoBERTa",
    "roformer": "RoFormer",
    "xlm-roberta": "XLM-RoBERTa",
}


class Papers(NamedTuple):
    """What config.json says, in our words.

    Attributes:
      config: sizes.
      task: a key of `models.TASK_MODELS`.
      labels: names of the classes, of "classification" and "tagging".
      parts: of `hugging_face_tasks.PARTS`, those that must be there.
      notes: choices made in reading.
    """

    config: bert_config.BertConfig
    task: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    notes: tuple[str, ...]


def read_values(folder: str) -> dict:
    """Reads config.json as it is.

    Raises:
      ValueError: if it is missing, no JSON object, or of a model that is no
        BERT, which is named.
    """
    path = os.path.join(folder, CONFIG)
    if not os.path.isfile(path):
        raise ValueError(
            f"{path} is missing; a Hugging Face folder has its sizes there. "
            "Copy it from where the weights are from."
        )
    values = atomic_files.read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} should hold one JSON object.")
    kind = values.get("model_type")
    if kind is None:
        # Files that old name the class at least, if anything.
        named = tasks.named_class(values, path) or "Bert"
        kind = "bert" if named.startswith("Bert") else named
    if kind != "bert":
        raise ValueError(
            f"{folder} is a {_OTHER_MODELS.get(kind, kind)} folder "
            f"({CONFIG} says {kind!r}), which is another model than BERT. Only "
            "folders of model_type 'bert' can be read."
        )
    return values


def _refuse(values: dict, path: str) -> None:
    """Raises ValueError for what would give other numbers here."""
    for key, ours in _COMPUTED.items():
        value = values.get(key)
        if value is not None and value != ours:
            raise ValueError(
                f"{path}: {key}={value!r}; bert_tf computes {ours!r} only, so "
                "the numbers would be others. It cannot be read."
            )
    act = values.get("hidden_act", "gelu")
    if act not in ACTIVATIONS:
        raise ValueError(
            f"{path}: hidden_act={act!r} is none of {', '.join(ACTIVATIONS)}. "
            "It cannot be read."
        )


def _notes(values: dict, config: bert_config.BertConfig, task: str) -> list:
    """Returns what a person should know of how the file was taken."""
    notes, ours = [], config.hidden_act
    if ours in ("gelu", "gelu_erf"):
        form = "tanh" if ours == "gelu" else "erf"
        notes.append(
            f"hidden_act {values.get('hidden_act', 'gelu')!r} is GELU by {form}"
            f" there, which is {ours!r} here"
        )
    dropout, rate = values.get("classifier_dropout"), config.hidden_dropout_prob
    if task not in ("pretraining", "spans") and dropout not in (None, rate):
        notes.append(
            f"classifier_dropout={dropout} is not kept; before the logits "
            f"there is hidden_dropout_prob={rate} here"
        )
    if values.get("auto_map"):
        notes.append(
            f"{CONFIG} names code of its own (auto_map), which is not run: the "
            "model is taken for the BERT that its architectures say"
        )
    return notes


def parse(values: dict, names: Collection[str], path: str) -> Papers:
    """Returns what a config.json says.

    Args:
      values: as `read_values` gives them.
      names: of the folder's tensors; they tell the task if `values` do not.
      path: of the file, for messages.

    Raises:
      ValueError: that names path and key, if it asks for what is not read.
    """
    _refuse(values, path)
    architecture = tasks.architecture(values, names, path)
    task, labels, notes = tasks.task_of(architecture, values, path)
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
    _, parts = tasks.ARCHITECTURES[architecture]
    if architecture == "BertModel":
        parts = ()  # add_pooling_layer=False saves it without a pooler.
    notes = tuple(_notes(values, config, task) + notes)
    return Papers(config, task, labels, parts, notes)


def write(
    config: bert_config.BertConfig, task_values: dict, folder: str
) -> None:
    """Writes a config.json that transformers reads.

    Args:
      config: sizes.
      task_values: of `hugging_face_tasks.values_for`.
      folder: where it goes.
    """
    values = task_values | config.to_dict()
    values |= {
        "hidden_act": _THEIR_ACTIVATIONS[config.hidden_act],
        "layer_norm_eps": _LAYER_NORM_EPSILON,
        "pad_token_id": 0,
        "torch_dtype": "float32",
    }
    atomic_files.write_json(os.path.join(folder, CONFIG), values)
