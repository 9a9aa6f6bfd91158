"""Encoder outputs -> hidden states, or one embedding for each text.

Shapes: N texts, B batch, S max_seq_length, s length of the longest row, H
hidden, L layers, K selected layers, E size of a vector: K H, unless the model
has other pooling or a dense layer.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.model import layer_outputs
from bert_tf.model.sentence_embedding import SentenceEmbedding
from tfrecords import schema


def encoder_interface(
    outputs, is_pooler_trained: bool = True
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    """Returns encoder outputs with the names of TF Hub's interface.

    Source: "Common SavedModel APIs for text tasks", transformer text encoders.

    Args:
      outputs: `EncoderOutputs`.
      is_pooler_trained: whether the pooler is trained.

    Returns:
      `sequence_output` [B, S, H]; `encoder_outputs`, L tensors [B, S, H]; if
      the pooler is trained, `pooled_output` [B, H], and `default`, which equals
      it. All are float32.
    """
    hidden = tf.cast(outputs.sequence_output, tf.float32)
    pooled = tf.cast(outputs.pooled_output, tf.float32)
    layers = [tf.cast(x, tf.float32) for x in outputs.encoder_outputs]
    named = {"sequence_output": hidden, "encoder_outputs": layers}
    if is_pooler_trained:
        named |= {"pooled_output": pooled, "default": pooled}
    return named


def flatten(outputs: Mapping) -> dict[str, tf.Tensor]:
    """Returns flat outputs for a signature: layers as `encoder_outputs_<i>`."""
    flat = dict(outputs)
    layers = enumerate(flat.pop("encoder_outputs"))
    return flat | {f"encoder_outputs_{i}": layer for i, layer in layers}


def make_functions(encoder, is_pooler_trained: bool):
    """Returns the callable of TF Hub's interface, and its signature.

    Args:
      encoder: `schema.ENCODER_INPUTS`, each [B, S] int32 -> `EncoderOutputs`.
      is_pooler_trained: whether the pooler is trained.
    """
    specs = schema.batch_signature(
        schema.ENCODER_INPUTS, {"max_seq_length": None}
    )

    @tf.function(autograph=False)
    def call(inputs, training=False):
        outputs = encoder(inputs, training=training)
        return encoder_interface(outputs, is_pooler_trained)

    # A SavedModel contains only functions that were traced.
    for training in (False, True):
        call.get_concrete_function(specs, training=training)

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def signature(input_word_ids, input_mask, input_type_ids):
        inputs = (input_word_ids, input_mask, input_type_ids)
        return flatten(call(dict(zip(specs, inputs, strict=True))))

    return call, signature


def encode(outputs, batch, *, is_pooler_trained: bool) -> dict[str, tf.Tensor]:
    """Returns the outputs of `encoder_interface`, flat, and `input_mask`."""
    return {
        "input_mask": batch["input_mask"],
        **flatten(encoder_interface(outputs, is_pooler_trained)),
    }


def embed(
    outputs, batch, *, embedding: SentenceEmbedding, layers: Sequence[int]
) -> dict[str, tf.Tensor]:
    """Returns `embedding` [N, E] float32.

    Args:
      outputs: outputs of the encoder.
      batch: only `input_mask` is used.
      embedding: steps from the hidden states to the vectors.
      layers: K layer indices from `layer_outputs.parse`, whose hidden states
        are concatenated in the given order.
    """
    hidden = [outputs.encoder_outputs[i] for i in layers]
    hidden = tf.concat(hidden, axis=-1)  # [N, s, K H]
    return {"embedding": embedding(hidden, batch["input_mask"])}


def find_embedding(model, pooling: str | None) -> SentenceEmbedding:
    """Returns a task model's own steps to a vector, or the mean.

    Args:
      model: its `sentence_embedding` may be None.
      pooling: mode that replaces the model's, if given.
    """
    embedding = model.sentence_embedding or SentenceEmbedding()
    if pooling:
        embedding = dataclasses.replace(embedding, pooling=(pooling,))
    return embedding


def make_embed(
    model, pooling: str | None, layers: Sequence[str] | None
) -> functools.partial:
    """Returns `embed` with the steps and layers to use.

    Args:
      model: as for `find_embedding`.
      pooling: the same.
      layers: values of --layers. Default: the last.

    Raises:
      ValueError: if there is no such layer, or a dense layer does not fit.
    """
    embedding = find_embedding(model, pooling)
    indices = layer_outputs.parse(
        ["-1"] if layers is None else layers, model.config.num_hidden_layers
    )
    embedding.check_width(len(indices) * model.config.hidden_size)
    return functools.partial(embed, embedding=embedding, layers=indices)
