"""Texts or token ids -> hidden states, with the names of TensorFlow Hub.

Shapes: B batch, S max_seq_length, H hidden, L layers.
"""

from collections.abc import Mapping

import tensorflow as tf

from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords import schema


class Encoder(Kind):
    """The hidden states of the tokens of a text or pair, of any model.

    Its signature `text` returns the outputs of `encoder_interface`, flat, and
    `input_mask`.
    """

    name = "encoder"
    inputs = {TEXT: {"text_a": 1, "text_b": 1}}
    has_answers = False
    signature_outputs = ("input_mask", "sequence_output")
    ragged_outputs = ("input_mask", "sequence_output", "encoder_outputs")

    def set_options(self, options):
        """Sets whether the model has a trained pooler."""
        from bert_tf.checkpoint import contents

        self.is_pooler_trained = contents.is_pooler_trained(
            self.metadata, self.model.config
        )

    def network(self, batch):
        """Returns the outputs of `encoder_interface`, flat."""
        outputs = self.model.encoder(batch, training=False)
        return flatten(encoder_interface(outputs, self.is_pooler_trained))

    def decode(self, numbers, batch):
        """Returns the same numbers, and `input_mask`."""
        return {"input_mask": batch["input_mask"], **numbers}

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of tokens."""
        return int(outputs["input_mask"][0].sum())


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
