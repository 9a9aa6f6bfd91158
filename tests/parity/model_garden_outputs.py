"""TF2 checkpoint of the Model Garden, batch -> outputs of the Garden's models.

Requires tf-models-official and tf_keras, so it is imported only when needed.
"""

import numpy as np
import tensorflow as tf
import tf_keras
from official.modeling import tf_utils
from official.nlp.modeling import layers, networks

from bert_tf import config as bert_config
from bert_tf.checkpoint.formats.google import tf_files
from bert_tf.contrib.formats.model_garden import (
    object_graph,
    tf2_checkpoint,
    tf2_files,
)


def build_encoder(config: bert_config.BertConfig) -> networks.BertEncoder:
    """Returns the encoder of a config, as in the Model Garden's converter.

    nlp/tools/tf2_bert_encoder_checkpoint_converter.py.
    """
    return networks.BertEncoder(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        inner_dim=config.intermediate_size,
        inner_activation=tf_utils.get_activation(config.hidden_act),
        output_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        dict_outputs=True,
    )


def _restore(prefix: str, parts: dict[tuple[str, ...], object]) -> None:
    """Restores objects, keyed by their attribute paths in a checkpoint.

    Raises:
      ValueError: if a weight of an object is missing in the checkpoint.
    """
    root = tf2_files.tree({"/".join(path): x for path, x in parts.items()})
    status = tf.train.Checkpoint(root=root).restore(prefix)
    try:
        status.assert_existing_objects_matched().expect_partial()
    except AssertionError as error:
        raise ValueError(
            f"tf-models-official cannot restore {prefix}: {error}"
        ) from error


def _dense(units: int, width: int, activation=None) -> tf_keras.layers.Dense:
    layer = tf_keras.layers.Dense(units, activation=activation)
    layer.build((None, width))
    return layer


def outputs(
    prefix: str, config: bert_config.BertConfig, batch: dict
) -> dict[str, np.ndarray]:
    """Returns the outputs of the encoder and of the heads in the checkpoint.

    Args:
      prefix: prefix of the checkpoint.
      config: config of the encoder.
      batch: from `outputs.batch`.
    """
    objects = tf2_files.read(prefix)
    number = object_graph.find_encoder(objects, prefix)
    heads = object_graph.find_heads(objects)
    paths = dict(objects.walk())
    encoder = build_encoder(config)
    parts = {paths[number]: encoder}
    masked_lm = pooler = out = None
    if heads["masked_lm"]:
        masked_lm = layers.MaskedLM(
            encoder.get_embedding_table(),
            activation=tf_utils.get_activation(config.hidden_act),
        )
        masked_lm.build((None, None, config.hidden_size))
        parts[paths[heads["masked_lm"]["dense"]][:-1]] = masked_lm
    if "dense" in heads["next_sentence"]:
        pooler = _dense(config.hidden_size, config.hidden_size, "tanh")
        parts[paths[heads["next_sentence"]["dense"]]] = pooler
    if "out_proj" in heads["next_sentence"]:
        out = _dense(2, config.hidden_size)
        parts[paths[heads["next_sentence"]["out_proj"]]] = out
    _restore(prefix, parts)

    inputs = {name: tf.constant(x) for name, x in batch.items()}
    positions = inputs.pop("masked_lm_positions", None)
    encoded = encoder(inputs)
    values = {
        f"encoder_outputs_{i}": layer
        for i, layer in enumerate(encoded["encoder_outputs"])
    }
    hidden, pooled = encoded["sequence_output"], encoded["pooled_output"]
    if pooler is not None:
        pooled = pooler(hidden[:, 0])
    values |= {"sequence_output": hidden, "pooled_output": pooled}
    if masked_lm is not None and positions is not None:
        values["masked_lm_logits"] = masked_lm(hidden, positions)
    if out is not None:
        values["next_sentence_logits"] = out(pooled)
    return {name: np.asarray(value) for name, value in values.items()}


def of_checkpoint(path: str, batch) -> dict[str, np.ndarray]:
    """Returns the outputs of tf-models-official, by our names."""
    config = tf2_checkpoint.read(path).config
    return outputs(tf_files.find(path, "TF2"), config, batch)
