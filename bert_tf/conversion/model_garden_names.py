"""Names of our pre-trainer's weights <-> the Model Garden's attributes.

nlp/modeling of tf-models-official: networks/bert_encoder.py,
layers/transformer_encoder_block.py, models/bert_pretrainer.py,
layers/masked_lm.py and layers/cls_head.py.

Letters: H hidden, A heads, D = H / A.
"""

from bert_tf import config as bert_config
from bert_tf.conversion import renaming

POOLER = "encoder/_pooler_layer"


def _pair(ours: str, theirs: str, parts: str) -> list[renaming.Rename]:
    return [
        renaming.Rename(f"{ours}/{part}", f"{theirs}/{part}")
        for part in parts.split()
    ]


def _dense(ours: str, theirs: str) -> list[renaming.Rename]:
    return _pair(ours, theirs, "kernel bias")


def _norm(ours: str, theirs: str) -> list[renaming.Rename]:
    return _pair(ours, theirs, "gamma beta")


def _attention(
    config: bert_config.BertConfig, ours: str, theirs: str
) -> list[renaming.Rename]:
    """Projections, whose heads are an axis there."""
    width, heads = config.hidden_size, config.num_attention_heads
    size = width // heads
    rows = []
    for part in ("query", "key", "value"):
        kernel, bias = _dense(f"{ours}/{part}", f"{theirs}/_{part}_dense")
        rows += [
            kernel._replace(shape=(width, heads, size)),
            bias._replace(shape=(heads, size)),
        ]
    kernel, bias = _dense(f"{ours}/output_dense", f"{theirs}/_output_dense")
    return [*rows, kernel._replace(shape=(heads, size, width)), bias]


def table(
    config: bert_config.BertConfig, task: str, num_labels: int = 0
) -> list[renaming.Rename]:
    """Returns our names and the Model Garden's, a row for each weight.

    Theirs are the attributes that lead to a weight from the encoder and from
    the heads, with [H, A, D] for [H, H] where a kernel makes heads.

    Raises:
      ValueError: if the task is not pre-training.
    """
    if task != "pretraining":
        raise ValueError(
            "Of the Model Garden's models the encoder and the pre-trainer are "
            f"read and written, without a head for {task}. Choose another "
            "format."
        )
    rows = [
        renaming.Rename(
            f"encoder/embeddings/{ours}", f"encoder/{theirs}/embeddings"
        )
        for ours, theirs in (
            ("word_embeddings", "_embedding_layer"),
            ("position_embeddings", "_position_embedding_layer"),
            ("type_embeddings", "_type_embedding_layer"),
        )
    ]
    rows += _norm("encoder/embeddings/norm", "encoder/_embedding_norm_layer")
    for i in range(config.num_hidden_layers):
        ours, theirs = f"encoder/layer_{i}", f"encoder/_transformer_layers/{i}"
        rows += _attention(
            config, f"{ours}/attention", f"{theirs}/_attention_layer"
        )
        rows += _norm(
            f"{ours}/attention_norm", f"{theirs}/_attention_layer_norm"
        )
        rows += _dense(f"{ours}/intermediate", f"{theirs}/_intermediate_dense")
        rows += _dense(f"{ours}/output_dense", f"{theirs}/_output_dense")
        rows += _norm(f"{ours}/output_norm", f"{theirs}/_output_layer_norm")
    rows += _dense("encoder/pooler", POOLER)
    rows += [renaming.Rename("masked_lm/bias", "masked_lm/bias")]
    rows += _dense("masked_lm/transform", "masked_lm/dense")
    rows += _norm("masked_lm/norm", "masked_lm/layer_norm")
    return rows + _dense("next_sentence/dense", "next_sentence/out_proj")
