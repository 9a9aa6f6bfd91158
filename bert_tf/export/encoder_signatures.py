"""Encoder outputs -> hidden states, or one embedding for each text.

Shapes: N texts, B batch, S max_seq_length, s length of the longest row, H
hidden, L layers, K selected layers.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfrecords import schema


def encoder_interface(
    outputs, has_pooler: bool = True
) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    """Returns encoder outputs with the names of TF Hub's interface.

    Source: "Common SavedModel APIs for text tasks", transformer text encoders.

    Args:
      outputs: `EncoderOutputs`.
      has_pooler: whether the pooler is trained.

    Returns:
      `sequence_output` [B, S, H]; `encoder_outputs`, L tensors [B, S, H]; if
      the pooler is trained, `pooled_output` [B, H], and `default`, which equals
      it. All are float32.
    """
    hidden = tf.cast(outputs.sequence_output, tf.float32)
    pooled = tf.cast(outputs.pooled_output, tf.float32)
    layers = [tf.cast(x, tf.float32) for x in outputs.encoder_outputs]
    named = {"sequence_output": hidden, "encoder_outputs": layers}
    if has_pooler:
        named |= {"pooled_output": pooled, "default": pooled}
    return named


def flatten(outputs: Mapping) -> dict[str, tf.Tensor]:
    """Returns flat outputs for a signature: layers as `encoder_outputs_<i>`."""
    flat = dict(outputs)
    layers = enumerate(flat.pop("encoder_outputs"))
    return flat | {f"encoder_outputs_{i}": layer for i, layer in layers}


def make_functions(encoder, has_pooler: bool):
    """Returns the callable of TF Hub's interface, and its signature.

    Args:
      encoder: `schema.ENCODER_INPUTS`, each [B, S] int32 -> `EncoderOutputs`.
      has_pooler: whether the pooler is trained.
    """
    specs = schema.batch_signature(
        schema.ENCODER_INPUTS, {"max_seq_length": None}
    )

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return encoder_interface(encoder(inputs, training=training), has_pooler)

    # A SavedModel contains only functions that were traced.
    for training in (False, True):
        call.get_concrete_function(specs, training=training)

    @tf.function(input_signature=list(specs.values()), autograph=False)
    def signature(input_word_ids, input_mask, input_type_ids):
        inputs = (input_word_ids, input_mask, input_type_ids)
        return flatten(call(dict(zip(specs, inputs, strict=True))))

    return call, signature


def encode(outputs, batch, *, has_pooler: bool) -> dict[str, tf.Tensor]:
    """Returns the outputs of `encoder_interface`, flat, and `input_mask`."""
    return {
        "input_mask": batch["input_mask"],
        **flatten(encoder_interface(outputs, has_pooler)),
    }


def embed(
    outputs, batch, *, pooling: str, layers: Sequence[int]
) -> dict[str, tf.Tensor]:
    """Returns `embedding` [N, K H] float32, with layers in the given order.

    Args:
      outputs: outputs of the encoder.
      batch: only `input_mask` is used.
      pooling: "cls", the vector at [CLS]; "mean", the mean over all tokens
        except padding, including [CLS] and [SEP], as in sentence-transformers.
      layers: K layer indices from `layer_outputs.parse`.
    """
    hidden = [outputs.encoder_outputs[i] for i in layers]
    if pooling == "cls":
        hidden = [x[:, 0] for x in hidden]  # [N, H]
    hidden = tf.cast(tf.concat(hidden, axis=-1), tf.float32)
    if pooling == "mean":
        is_token = tf.cast(batch["input_mask"], tf.float32)  # [N, s]
        lengths = tf.reduce_sum(is_token, axis=1, keepdims=True)
        hidden = tf.einsum("nsh,ns->nh", hidden, is_token) / lengths
    return {"embedding": hidden}
