"""Model and kind of export -> function from token ids to numbers.

Other runtimes have no string operations. So a network begins at token ids and
ends at numbers; predict.py, which is copied beside it, does the rest.

    kind                inputs                outputs, float32
    classification      ids                   probabilities, logits [B, C]
    regression          ids                   score [B]
    question_answering  ids of a window       start_logits, end_logits [B, S]
    tagging             ids of a window       logits [B, S, C]
    multiple_choice     ids of an ending      logits [B]
    fill_mask           ids, mask positions   token_ids int32, probabilities
                                              [B, P, k]
    sentence_embedding  ids                   embedding [B, E]
    encoder             ids                   sequence_output [B, S, H],
                                              pooled_output [B, H]

Shapes: B batch, S tokens, both dynamic; C classes, P masks per row, k
candidates, H hidden, E size of a vector. `ids` are `schema.ENCODER_INPUTS`.
"""

import tensorflow as tf

from bert_tf.serving import kinds
from bert_tf.serving.answers import encoder_signatures, text_signatures
from tfrecords import schema

POSITIONS = "masked_lm_positions"


def input_names(kind: str) -> tuple[str, ...]:
    """Returns the inputs of a kind; each is [B, S] or [B, P] int32."""
    names = tuple(schema.ENCODER_INPUTS)
    return (*names, POSITIONS) if kind == "fill_mask" else names


def make(
    model,
    kind: str,
    config: kinds.ExportConfig,
    *,
    vocab_size: int,
    is_pooler_trained: bool = True,
    score_range=None,
) -> text_signatures.Function:
    """Returns the function of the named inputs, with an input signature.

    Args:
      model: Keras model of the task, in float32.
      kind: kind of export.
      config: reads `layers`, `pooling` and `top_k`.
      vocab_size: number of entries that may fill a mask.
      is_pooler_trained: whether the pooler is trained.
      score_range: limits of the score, if any.
    """
    names = input_names(kind)
    if kind == "sentence_embedding":
        embed = encoder_signatures.make_embed(
            model, config.pooling, config.layers
        )

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name) for name in names
        ],
        autograph=False,
    )
    def network(*inputs):
        batch = dict(zip(names, inputs, strict=True))
        if kind in ("encoder", "sentence_embedding"):
            outputs = model.encoder(batch, training=False)
        elif kind == "multiple_choice":
            rows = {n: tf.expand_dims(x, 1) for n, x in batch.items()}
            outputs = model(rows, training=False)
        else:
            outputs = model(batch, training=False)
        if kind == "encoder":
            return _hidden(outputs, is_pooler_trained)
        if kind == "sentence_embedding":
            return embed(outputs, batch)
        if kind == "fill_mask":
            return _fill(outputs, vocab_size, config.top_k or kinds.TOP_K)
        if kind == "regression":
            return dict(
                text_signatures.score(outputs, batch, score_range=score_range)
            )
        return _logits(outputs, kind)

    return network


def _logits(outputs, kind: str):
    if kind == "question_answering":
        return dict(outputs)
    logits = outputs["logits"]
    if kind == "multiple_choice":
        return {"logits": logits[:, 0]}
    if kind == "tagging":
        return {"logits": logits}
    return {"probabilities": tf.nn.softmax(logits), "logits": logits}


def _hidden(outputs, is_pooler_trained: bool):
    hidden = {"sequence_output": outputs.sequence_output}
    if is_pooler_trained:
        hidden["pooled_output"] = outputs.pooled_output
    return hidden


def _fill(outputs, vocab_size: int, top_k: int):
    logits = outputs["masked_lm_logits"][..., :vocab_size]
    probabilities, ids = tf.math.top_k(
        tf.nn.softmax(logits), min(top_k, vocab_size)
    )
    return {"token_ids": ids, "probabilities": probabilities}
