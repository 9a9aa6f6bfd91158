"""Names of our weights <-> files and paths of a KerasHub preset.

keras_hub 0.32: models/bert/bert_backbone.py, bert_masked_lm.py and
bert_text_classifier.py, layers/modeling/transformer_encoder.py and
masked_lm_head.py, saved by Keras 3.15. A layer's path is its class, numbered
from the second on.
"""

import functools

from bert_tf import config as bert_config
from bert_tf.conversion import renaming
from bert_tf.conversion.keras_hub import files as keras_hub_files

# What KerasHub has no place for lies in files of our own, which it ignores.
EXTRA = "bert_tf.safetensors"

_BACKBONE = f"{keras_hub_files.MODEL}/layers"
_HEAD = f"{keras_hub_files.TASK}/layers"
_NUMBERS = ("vars/0", "vars/1")
_dense = functools.partial(renaming.dense, names=_NUMBERS)
_norm = functools.partial(renaming.norm, names=_NUMBERS)


def _backbone(config: bert_config.BertConfig) -> list[renaming.Rename]:
    rows = [
        renaming.Rename(
            f"encoder/embeddings/{ours}", f"{_BACKBONE}/{theirs}/vars/0"
        )
        for ours, theirs in (
            ("word_embeddings", "reversible_embedding"),
            ("position_embeddings", "position_embedding"),
            ("type_embeddings", "embedding"),
        )
    ]
    rows += _norm("encoder/embeddings/norm", f"{_BACKBONE}/layer_normalization")
    for i in range(config.num_hidden_layers):
        ours = f"encoder/layer_{i}"
        theirs = f"{_BACKBONE}/transformer_encoder" + (f"_{i}" if i else "")
        rows += renaming.keras_attention(
            config,
            f"{ours}/attention",
            f"{theirs}/_self_attention_layer",
            names=_NUMBERS,
        )
        rows += _norm(
            f"{ours}/attention_norm", f"{theirs}/_self_attention_layer_norm"
        )
        rows += _dense(
            f"{ours}/intermediate", f"{theirs}/_feedforward_intermediate_dense"
        )
        rows += _dense(
            f"{ours}/output_dense", f"{theirs}/_feedforward_output_dense"
        )
        rows += _norm(
            f"{ours}/output_norm", f"{theirs}/_feedforward_layer_norm"
        )
    return rows + _dense("encoder/pooler", f"{_BACKBONE}/dense")


def table(
    config: bert_config.BertConfig, task: str, num_labels: int = 0
) -> list[renaming.Rename]:
    """Returns our names and KerasHub's, a row for each weight.

    Raises:
      ValueError: if KerasHub has no such head.
    """
    rows = _backbone(config)
    if task == "pretraining":
        head = f"{_HEAD}/masked_lm_head"
        rows += [renaming.Rename("masked_lm/bias", f"{head}/vars/0")]
        rows += _dense("masked_lm/transform", f"{head}/_intermediate_dense")
        rows += _norm("masked_lm/norm", f"{head}/_intermediate_layer_norm")
        return rows + [
            renaming.Rename(name, f"{EXTRA}/{name}")
            for name in (
                "next_sentence/dense/kernel",
                "next_sentence/dense/bias",
            )
        ]
    if task in ("classification", "regression"):
        return rows + _dense(f"{task}/dense", f"{_HEAD}/dense")
    raise ValueError(
        f"KerasHub has no head of BERT for {task}; it has BertMaskedLM and "
        "BertTextClassifier. Choose another format."
    )
