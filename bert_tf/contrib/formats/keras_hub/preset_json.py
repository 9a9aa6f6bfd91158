"""JSON files of a KerasHub preset <-> BertConfig, task and rules for text.

They are serialized Keras objects, as keras_hub 0.32 writes them. Only BERT's
classes are read.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from bert_tf import config as bert_config
from bert_tf.model.sentence_embedding import ACTIVATIONS
from tfrecords.io import json_files
from tfrecords.text import vocab

CONFIG = "config.json"
TASK = "task.json"
TOKENIZER = "tokenizer.json"
PREPROCESSOR = "preprocessor.json"
VOCABULARY = "assets/tokenizer/vocabulary.txt"
WRITES = (CONFIG, TASK, TOKENIZER, PREPROCESSOR, VOCABULARY)

MASKED_LM = "BertMaskedLM"
CLASSIFIER = "BertTextClassifier"
_BACKBONE = "BertBackbone"
# BertBackbone's argument -> our name.
_SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
# Kinds of a tokenizer's settings, and BERT's values of some.
_TOKENIZER = {
    "lowercase?": bool,
    "strip_accents?": bool,
    "split_on_cjk?": bool,
    "special_tokens_in_strings?": bool,
    "split?": bool,
    "suffix_indicator?": str,
    "oov_token?": str,
    "sequence_length?": int,
}
_BERT_TOKENIZER = {
    "split": True,
    "suffix_indicator": "##",
    "oov_token": "[UNK]",
    "sequence_length": None,  # The preprocessor's, which pads and packs.
}
_TRUNCATE = "round_robin"  # Of pairs: the longer text is cut.
_MODE = re.compile('"mode": "(.*?)"')  # Of a QuantizedDTypePolicy.
_MASKING = {
    "mask_selection_rate": 0.15,
    "mask_selection_length": 20,  # The original's max_predictions_per_seq.
}


class Metadata(NamedTuple):
    """Fields of Contents that are in a preset's JSON files.

    Without a head `task` is "pretraining". `num_classes` is 0 unless the head
    is a classifier. `max_seq_length` is None if there is no preprocessor,
    or it takes as many tokens as the model.
    """

    config: bert_config.BertConfig
    task: str
    num_classes: int
    rules: dict[str, bool]  # See `vocab.rules_of`.
    max_seq_length: int | None
    notes: tuple[str, ...]
    tokenizer_differences: tuple[str, ...]
    score_activation: str | None  # Of a regression, if it is not linear.
    masking: dict[str, object]  # The preprocessor's, if they are not ours.


def _read(folder: str, file: str, entries=dict) -> dict | None:
    """Returns the serialized object in a file, or None if missing.

    `entries` are those of its config, see `json_files.check`.
    """
    path = os.path.join(folder, file)
    if not os.path.isfile(path):
        return None
    return json_files.read(path, {"class_name?": str, "config": entries})


def _read_config(folder: str) -> bert_config.BertConfig:
    path = os.path.join(folder, CONFIG)
    values = _read(folder, CONFIG)
    if values is None:
        raise ValueError(f"{path} is missing. Copy every file of the preset.")
    name = values.get("class_name")
    # Of its name until 2024, keras_nlp, too.
    packages = "keras_hub>", "keras_nlp>"
    if not str(values.get("registered_name")).startswith(packages):
        raise ValueError(
            f"{path} is of a model of Keras, {name}, which is no preset of "
            "KerasHub: import bert_tf, and load its folder with "
            "keras.models.load_model."
        )
    if name != _BACKBONE:
        raise ValueError(
            f"{path} has the class {name}, which is not BERT. Only presets of "
            f"a {_BACKBONE} can be read."
        )
    given = values["config"]
    if mode := _MODE.search(json.dumps(given.get("dtype"))):
        raise ValueError(
            f"{path}: dtype has layers that are quantized ({mode[1]}), whose "
            "weights are not read. Give the preset from before quantize()."
        )
    missing = sorted(set(_SIZES) - set(given))
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)} in its config.")
    sizes = {ours: given[theirs] for theirs, ours in _SIZES.items()}
    rate = given.get("dropout", 0.1)
    try:
        return bert_config.BertConfig(
            hidden_act="gelu",  # bert_backbone.py: gelu_approximate.
            hidden_dropout_prob=rate,
            attention_probs_dropout_prob=rate,
            **sizes,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def head(folder: str) -> str | None:
    """Returns the class of the head if it is supported, else None."""
    values = _read(folder, TASK)
    name = values.get("class_name") if values else None
    return name if name in (MASKED_LM, CLASSIFIER) else None


def _read_task(folder: str) -> tuple[str, int, str | None, list[str]]:
    """Returns task, number of classes, activation and notes from task.json.

    The activation is one that is followed.
    """
    values = _read(folder, TASK)
    if values is None:
        return "pretraining", 0, None, []
    name = values.get("class_name")
    if name == MASKED_LM:
        note = (
            "KerasHub's masked-LM head uses GELU by erf and LayerNorm epsilon "
            "1e-5, BERT's uses GELU by tanh and 1e-12: the weights are the "
            "same, but masked_lm_logits differ slightly"
        )
        return "pretraining", 0, None, [note]
    if name != CLASSIFIER:
        note = f"task.json has the class {name}, whose head is not read"
        return "pretraining", 0, None, [note]
    path = os.path.join(folder, TASK)
    entries = {"num_classes": range(1, 10**6 + 1)}
    json_files.check(values["config"], entries, path, "config")
    classes = values["config"]["num_classes"]
    task = "regression" if classes == 1 else "classification"
    activation = _activation(values)
    if classes > 1 and activation == "sigmoid":
        return "multi_label", classes, None, []
    if activation in ("linear", None):
        return task, classes, None, []
    if classes == 1 and activation in ACTIVATIONS:
        return task, classes, activation, []
    note = f"the classifier ends in {activation}; our logits are its input"
    return task, classes, None, [note]


def _activation(task: dict) -> str | None:
    """Returns the name of the activation that a classifier ends in."""
    value = task["config"].get("activation")
    return value if isinstance(value, str | None) else str(value)


def ends_in_sigmoid(folder: str) -> bool:
    """Returns whether a classifier returns a probability for each label."""
    return _activation(_read(folder, TASK)) == "sigmoid"


def read(folder: str) -> Metadata:
    """Reads the JSON files of a preset.

    Raises:
      ValueError: if the model is not BERT, or sizes are missing.
    """
    config = _read_config(folder)
    task, num_classes, activation, notes = _read_task(folder)
    tokenizer = _read(folder, TOKENIZER, _TOKENIZER)
    rules, differences = {}, []
    if tokenizer is not None:
        given = tokenizer["config"]
        rules = vocab.rules_of(
            {
                "do_lower_case": bool(given.get("lowercase")),
                "strip_accents": bool(given.get("strip_accents")),
                "tokenize_chinese_chars": given.get("split_on_cjk"),
                # [UNK] in a text is split there even so.
                vocab.SPLIT: not given.get("special_tokens_in_strings"),
            }
        )
        if "strip_accents" in rules:
            notes += [
                f"strip_accents={rules['strip_accents']}, as in KerasHub's "
                "tokenizer; BERT strips accents if and only if it lower-cases"
            ]
        if given.get("lowercase"):
            notes += [
                "lowercase=true of KerasHub folds case and composes characters "
                "(NFKC_Casefold), and BERT lower-cases: words with others than "
                "Latin letters, and with \u00df, can have other ids there"
            ]
        differences = [
            f"KerasHub's tokenizer has {name}={given[name]}; BERT's {value}"
            for name, value in _BERT_TOKENIZER.items()
            if given.get(name) not in (None, value)
        ]
    entries = {"sequence_length?": range(1, 2**31), "truncate?": str}
    preprocessor = _read(folder, PREPROCESSOR, entries) or {"config": {}}
    packing = preprocessor["config"]
    length = packing.get("sequence_length")
    if packing.get("truncate") not in (None, _TRUNCATE):
        differences += [
            f"KerasHub's preprocessor has truncate={packing['truncate']}; "
            f"BERT's {_TRUNCATE}"
        ]
    # Otherwise it is no limit of the training.
    is_limit = length and length < config.max_position_embeddings
    return Metadata(
        config,
        task,
        num_classes,
        rules,
        length if is_limit else None,
        tuple(notes),
        tuple(differences),
        activation if task == "regression" else None,
        {
            name: x
            for name, x in packing.items()
            if name.startswith("mask_") and _MASKING.get(name) != x
        },
    )


def _layer(
    module: str, name: str, values: dict, dtype: str = "float32"
) -> dict:
    """Returns a layer of keras_hub.src.models.bert as Keras saves it."""
    policy = {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": dtype},
        "registered_name": None,
    }
    own = {"name": module, "trainable": True, "dtype": policy}
    return {
        "module": f"keras_hub.src.models.bert.{module}",
        "class_name": name,
        "config": own | values,
        "registered_name": f"keras_hub>{name}",
    }


def _text_files(
    max_seq_length: int,
    task: str | None,
    rules: dict[str, bool],
    masking: Mapping[str, object],
) -> dict[str, dict]:
    """Returns the JSON files of a tokenizer and its preprocessor."""
    tokenizer = {
        "config_file": TOKENIZER,
        "vocabulary": None,
        "lowercase": rules["do_lower_case"],
        # KerasHub's default keeps accents; BERT strips them.
        "strip_accents": rules.get("strip_accents", rules["do_lower_case"]),
    }
    if "tokenize_chinese_chars" in rules:
        tokenizer["split_on_cjk"] = rules["tokenize_chinese_chars"]
    if vocab.SPLIT in rules:
        tokenizer["special_tokens_in_strings"] = not rules[vocab.SPLIT]
    tokenizer = _layer("bert_tokenizer", "BertTokenizer", tokenizer, "int32")
    values = {
        "tokenizer": tokenizer,
        "config_file": PREPROCESSOR,
        "sequence_length": max_seq_length,
        "truncate": _TRUNCATE,
    }
    module = "bert_text_classifier_preprocessor"
    name = "BertTextClassifierPreprocessor"
    if task == "pretraining":
        module = "bert_masked_lm_preprocessor"
        name = "BertMaskedLMPreprocessor"
        values |= _MASKING | masking
    return {TOKENIZER: tokenizer, PREPROCESSOR: _layer(module, name, values)}


def write(
    folder: str,
    config: bert_config.BertConfig,
    task: str | None,
    num_classes: int,
    rules: dict[str, bool] | None,
    max_seq_length: int | None = None,
    activation: str = "linear",
    masking: Mapping[str, object] = {},
) -> None:
    """Writes config.json, and the files of the head and the tokenizer if any.

    Args:
      folder: folder to write to.
      config: sizes; KerasHub has a single dropout rate.
      task: None for a backbone without a head.
      num_classes: number of classes of a classifier.
      rules: of the tokenizer, with `do_lower_case`; None for no tokenizer.
      max_seq_length: None for `max_position_embeddings`.
      activation: of the score of a regression.
      masking: settings of the preprocessor of a masked LM.
    """
    ours = config.to_dict()
    sizes = {theirs: ours[name] for theirs, name in _SIZES.items()}
    dropout = {"dropout": config.hidden_dropout_prob}
    backbone = _layer("bert_backbone", _BACKBONE, sizes | dropout)
    files = {CONFIG: backbone}
    if rules is not None:
        length = max_seq_length or config.max_position_embeddings
        files |= _text_files(length, task, rules, masking)
    parts = {"backbone": backbone, "preprocessor": files.get(PREPROCESSOR)}
    if task == "pretraining":
        files[TASK] = _layer("bert_masked_lm", MASKED_LM, parts)
    elif task is not None:
        if task == "multi_label":
            activation = "sigmoid"
        parts |= {"num_classes": num_classes, "activation": activation}
        parts |= dropout
        files[TASK] = _layer("bert_text_classifier", CLASSIFIER, parts)
    for file, values in files.items():
        json_files.write(os.path.join(folder, file), values)
