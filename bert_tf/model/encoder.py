"""Encoder inputs -> EncoderOutputs: the whole BERT, without a head."""

import functools
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.model import embeddings, layers


class EncoderOutputs(NamedTuple):
    """What every head reads."""

    sequence_output: tf.Tensor  # [B, S, H] float, of the last layer
    # [B, H] float, tanh of a projection of [CLS], or of the last token where
    # none reads what follows it; of packed rows [B, E, H].
    pooled_output: tf.Tensor
    encoder_outputs: tuple[tf.Tensor, ...]  # L times [B, S, H], every layer


def last_positions(inputs) -> tf.Tensor:
    """Returns where each example's last token stands; 0 where there is none.

    Args:
      inputs: the encoder's, of B rows, packed or not.

    Returns:
      [B, 1] int32, of packed rows [B, E].
    """
    is_token = inputs["input_mask"][:, None]  # [B, 1, S]
    if "cls_positions" in inputs:
        numbers = 1 + tf.range(tf.shape(inputs["cls_positions"])[1])  # [E]
        of_each = inputs["example_numbers"][:, None] == numbers[:, None]
        is_token *= tf.cast(of_each, is_token.dtype)  # [B, E, S]
    positions = tf.range(tf.shape(is_token)[-1], dtype=is_token.dtype)
    return tf.reduce_max(is_token * positions, axis=-1)


class ConfiguredModel(keras.Model):
    """A Keras model made from a BertConfig, which `.keras` files keep.

    Constructors build all weights, so that a model is whole at once.

    Args:
      config: BertConfig, or the dict of one.
      **kwargs: `name` and `dtype`, as for every Keras layer.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = bert_config.BertConfig.from_dict(config)
        self.config = config

    def get_config(self):
        """Returns the arguments of `from_config`."""
        return super().get_config() | {"config": self.config.to_dict()}

    def build_from_config(self, config):
        """Does nothing: the constructor has built the model already."""


@keras.saving.register_keras_serializable("bert_tf")
class BertEncoder(ConfiguredModel):
    """BERT: token ids to hidden states (Devlin et al. 2018, section 3).

    Args:
      config: BertConfig; every field is read here or in a layer below.

    Attributes:
      remat: whether layers keep only their inputs, see `enable_remat`.

    Call arguments:
      inputs: dict of `input_word_ids`, `input_mask` and `input_type_ids`,
        each [B, S] int32. Rows that several examples share, up to E of them,
        have three more, of `schema.PACKED_INPUTS`: `example_numbers` and
        `position_ids`, [B, S] int32, and `cls_positions`, [B, E] int32. Other
        entries are ignored.
      training: whether to drop values.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      EncoderOutputs.

    Raises:
      ValueError: if S exceeds `max_position_embeddings`, without
        `position_ids`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.remat = False
        # 1. Token ids to hidden.
        self.embeddings = embeddings.Embeddings(
            config, name="embeddings", dtype=policy
        )
        # 2. Hidden to hidden, L times.
        self.encoder_layers = [
            layers.EncoderLayer(config, i, name=f"layer_{i}", dtype=policy)
            for i in range(config.num_hidden_layers)
        ]
        # 3. One token's hidden state to the whole sequence's.
        self.pooler = layers.dense(
            config.hidden_size,
            config,
            activation="tanh",
            name="pooler",
            dtype=policy,
        )
        self.build()

    def enable_remat(self):
        """Saves memory in training: recomputes activations for the gradient.

        Of each layer only the input is kept. Where `call` gets a `dropout_key`,
        since dropout masks must be the same at the second time.
        """
        self.remat = True

    def build(self, inputs_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build()
        for layer in self.encoder_layers:
            layer.build(hidden_shape)
        self.pooler.build((None, self.config.hidden_size))

    def call(self, inputs, training=None, dropout_key=None):
        input_mask = inputs["input_mask"]
        if "example_numbers" in inputs:
            input_mask = layers.packed_attention_mask(inputs["example_numbers"])
        if self.config.is_causal:
            input_mask = layers.causal_mask(input_mask)
        hidden = self.embeddings(
            inputs["input_word_ids"],
            inputs["input_type_ids"],
            inputs.get("position_ids"),
            training=training,
            dropout_key=dropout_key,
        )
        encoder_outputs = []
        for layer in self.encoder_layers:
            run = functools.partial(
                layer,
                input_mask=input_mask,
                training=training,
                dropout_key=dropout_key,
            )
            if self.remat and training and dropout_key is not None:
                run = tf.recompute_grad(run)
            hidden = run(hidden)
            encoder_outputs.append(hidden)
        pooled = self.pooler(self.pooled_token(hidden, inputs))
        return EncoderOutputs(hidden, pooled, tuple(encoder_outputs))

    def pooled_token(self, hidden, inputs):  # [B, H], packed [B, E, H]
        """Returns the token that stands for its example: [CLS].

        Where no token reads what follows it, [CLS] knows nothing of the text.
        The last token does, as in GPT (Radford et al. 2018, section 3.2).
        """
        is_packed = "cls_positions" in inputs
        if self.config.is_causal:
            last = tf.gather(hidden, last_positions(inputs), batch_dims=1)
            return last if is_packed else last[:, 0]
        if is_packed:
            return tf.gather(hidden, inputs["cls_positions"], batch_dims=1)
        return hidden[:, 0]
