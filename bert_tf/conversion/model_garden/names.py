"""Names of our pre-trainer's weights <-> the Model Garden's attributes.

nlp/modeling of tf-models-official: networks/bert_encoder.py,
layers/transformer_encoder_block.py, models/bert_pretrainer.py,
layers/masked_lm.py and layers/cls_head.py.
"""

from bert_tf import config as bert_config
from bert_tf.conversion import renaming

POOLER = "encoder/_pooler_layer"


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
    rows += renaming.norm(
        "encoder/embeddings/norm", "encoder/_embedding_norm_layer"
    )
    for i in range(config.num_hidden_layers):
        ours, theirs = f"encoder/layer_{i}", f"encoder/_transformer_layers/{i}"
        rows += renaming.keras_attention(
            config, f"{ours}/attention", f"{theirs}/_attention_layer", start="_"
        )
        rows += renaming.norm(
            f"{ours}/attention_norm", f"{theirs}/_attention_layer_norm"
        )
        rows += renaming.dense(
            f"{ours}/intermediate", f"{theirs}/_intermediate_dense"
        )
        rows += renaming.dense(
            f"{ours}/output_dense", f"{theirs}/_output_dense"
        )
        rows += renaming.norm(
            f"{ours}/output_norm", f"{theirs}/_output_layer_norm"
        )
    rows += renaming.dense("encoder/pooler", POOLER)
    rows += [renaming.Rename("masked_lm/bias", "masked_lm/bias")]
    rows += renaming.dense("masked_lm/transform", "masked_lm/dense")
    rows += renaming.norm("masked_lm/norm", "masked_lm/layer_norm")
    return rows + renaming.dense(
        "next_sentence/dense", "next_sentence/out_proj"
    )
