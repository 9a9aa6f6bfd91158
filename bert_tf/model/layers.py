"""Hidden states -> hidden states: the layers of the encoder.

Shapes: B batch, S sequence, H hidden, A heads, D = H / A, I intermediate.
[B S, H] is a matrix with a row for each token, B times S rows.

Layers that only contain layers also define `build`: without it Keras traces
each of them twice, and each layer inside it twice again.

Devlin et al. 2018, section 3, as in modeling.py of google-research/bert:
LayerNorm after each residual sum, GELU in its tanh form. With `norm_first`,
LayerNorm precedes each sublayer instead.
"""

import math

import keras
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.model import dropout, fused

DROPOUTS_PER_LAYER = 3
NO_QUANTIZE = (
    "layers of BERT are not quantized by Keras, whose int8 products are slower "
    "on a CPU than those in float32. bert-export-savedmodel writes int8 models "
    "for other runtimes, with --quantize."
)


def initializer(config: bert_config.BertConfig) -> keras.Initializer:
    """Returns a new truncated normal initializer (two standard deviations).

    Each weight needs its own: a Keras 3 initializer returns the same values
    in every call.
    """
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class Dense(keras.layers.Dense):
    """Dense layer that Keras's `Model.quantize` leaves as it is.

    `product` reads kernels directly, and would bypass the int8 product of a
    quantized layer. `quantize` of a model logs this error as a warning, and
    skips the layer.
    """

    def quantize(self, *args, **kwargs):
        raise NotImplementedError(f"{self.path}: {NO_QUANTIZE}")


class StoredInBfloat16(keras.DTypePolicy):
    """Dtype policy of a model that is not trained: bfloat16 weights.

    All weights, embedding tables included, are stored in bfloat16; each call
    casts them to the dtype of its products. With Keras's own policy "bfloat16"
    tables would be float32. LayerNorm and the last layer of a head stay
    float32, as always.

    Args:
      compute_dtype: dtype of products, such as "float32".
    """

    def __init__(self, compute_dtype: str):
        super().__init__("bfloat16")
        self._compute_dtype = compute_dtype

    def get_config(self):
        return {"compute_dtype": self._compute_dtype}

    def __eq__(self, other):
        return (
            isinstance(other, StoredInBfloat16)
            and self.compute_dtype == other.compute_dtype
        )


def dense(units: int, config: bert_config.BertConfig, **kwargs):
    """Returns a Dense layer with BERT's initializer."""
    return Dense(units, kernel_initializer=initializer(config), **kwargs)


class LayerNorm(keras.layers.LayerNormalization):
    """LayerNorm of [..., H]; computes in float32 under every dtype policy."""

    def __init__(self, **kwargs):
        # modeling.py: layer_norm, which uses the default of tf.contrib.
        kwargs = {"epsilon": 1e-12} | kwargs | {"dtype": "float32"}
        super().__init__(**kwargs)

    def parameters(self):  # [H], [H], float
        return self.gamma.value, self.beta.value, self.epsilon

    def call(self, x):
        return fused.layer_norm(x, *self.parameters())


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """GELU in its exact erf form, which other checkpoints may need."""
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


ACTIVATIONS = {
    "gelu": fused.gelu_tanh,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
}


def product(rows, parts, training=False, kernels=None) -> tf.Tensor:
    """Dense layers of the same input: [N, I] -> [N, O].

    In training they are one product of two matrices, faster than several, or
    than one of tensors of rank 3. In inference each is a product of its own,
    with the same outputs: joined kernels are copied in each call, half as long
    as the products of a few rows take, and oneDNN cannot keep its layout of
    them.

    Args:
      rows: [N, I] float.
      parts: Dense layers with O units in total; activations are not applied.
      training: see `fused.dense`.
      kernels: of each part, [I, its units] float. Default: its own.

    Returns:
      [N, O] float, the concatenated outputs of the parts.
    """
    kernels = kernels or [part.kernel for part in parts]
    biases = [part.bias for part in parts]
    if training:
        kernel, bias = tf.concat(kernels, 1), tf.concat(biases, 0)
        return fused.dense(rows, kernel, bias, training)
    pairs = zip(kernels, biases, strict=True)
    return tf.concat([fused.dense(rows, *pair) for pair in pairs], 1)


def packed_attention_mask(example_numbers: tf.Tensor) -> tf.Tensor:
    """Returns the block-diagonal attention mask of packed sequences.

    Krell et al. 2021: one block for each example. Padding attends only to
    padding, and no token attends to padding.

      numbers  1 1 2 0    token 0 attends to  1 1 0 0
                          token 2 attends to  0 0 1 0

    Args:
      example_numbers: [B, S] int32, the example of each token.

    Returns:
      [B, S, S] bool: query position, key position.
    """
    return example_numbers[:, :, None] == example_numbers[:, None, :]


def causal_mask(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns the causal attention mask: no token attends to a later one.

    Args:
      input_mask: [B, S] int32, 1 for a token and 0 for padding; or [B, S, S]
        bool from `packed_attention_mask`.

    Returns:
      [B, S, S] bool: query position, key position.
    """
    positions = tf.range(tf.shape(input_mask)[-1])
    is_token = tf.cast(input_mask, tf.bool)
    if len(input_mask.shape) == 2:
        is_token = tf.expand_dims(is_token, 1)
    return is_token & (tf.expand_dims(positions, 1) >= positions)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention with a padding mask.

    Vaswani et al. 2017, equation 1, with A heads of size D = H / A. Scores and
    softmax are float32 under every dtype policy; the rest follows the policy.

    Args:
      config: reads `hidden_size` (H), `num_attention_heads` (A),
        `attention_probs_dropout_prob` and `initializer_range`.
      dropout_id: number of the dropout of the attention weights.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32, 1 for a token and 0 for padding; or [B, S, S]
        bool from `packed_attention_mask` or `causal_mask`.
      training: whether to drop attention weights.
      dropout_key: [3] int64, see `dropout.make_key`.
      return_attention: whether to return the attention weights, too.

    Returns:
      [B S, H] float, before the residual sum and its LayerNorm. Values at
      padding are finite but meaningless. With `return_attention` a pair of it
      and the weights before dropout, [B, A, S, S] float32.
    """

    def __init__(self, config, dropout_id: int, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        size = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.head_size = size // config.num_attention_heads
        self.query = dense(size, config, name="query", dtype=policy)
        self.key = dense(size, config, name="key", dtype=policy)
        self.value = dense(size, config, name="value", dtype=policy)
        self.output_dense = dense(
            size, config, name="output_dense", dtype=policy
        )
        self.product = product  # lora.py has another.
        self.dropout = dropout.Dropout(
            config.attention_probs_dropout_prob, dropout_id, dtype=policy
        )

    def build(self, hidden_shape, input_mask_shape=None):
        for part in (self.query, self.key, self.value, self.output_dense):
            part.build(hidden_shape)

    def call(
        self,
        hidden,
        input_mask,
        training=None,
        dropout_key=None,
        return_attention=False,
    ):
        batch, length = tf.unstack(tf.shape(hidden)[:2])
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B S, H]
        parts = self.query, self.key, self.value
        qkv = self.product(rows, parts, training)
        shape = [batch, length, 3, self.num_heads, self.head_size]
        qkv = tf.reshape(qkv, shape)
        shape = [batch, self.num_heads, length, length]
        keep = self.dropout.keep_mask(shape, training, dropout_key)
        rate = self.dropout.rate
        context = fused.attend(qkv, input_mask, keep, rate, training)
        context = tf.reshape(context, tf.shape(rows))  # [B S, A D]
        outputs = self.product(context, [self.output_dense], training)
        if not return_attention:
            return outputs
        # `fused.attend` keeps them only as its gradient needs them.
        query, key, _ = fused.split_heads(qkv)
        return outputs, fused.attention_weights(query, key, input_mask)


class EncoderLayer(keras.layers.Layer):
    """Transformer layer: attention, then feed-forward, each with add & norm.

    A sublayer f adds to its input x: LayerNorm(x + dropout(f(x))), or with
    `norm_first` x + dropout(f(LayerNorm(x))) (Xiong et al. 2020, arXiv
    2002.04745, figure 1).

    Args:
      config: reads `intermediate_size` (I), `hidden_act`, `norm_first`,
        `hidden_dropout_prob` and the fields of SelfAttention.
      index: number of this layer in the encoder, from 0.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32 or [B, S, S] bool, see SelfAttention.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.
      return_attention: whether to return the attention weights, too.

    Returns:
      [B, S, H] float. With `return_attention` a pair of it and the attention
      weights before dropout, [B, A, S, S] float32.
    """

    def __init__(self, config, index: int, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        dropout_id = 1 + DROPOUTS_PER_LAYER * index
        rate = config.hidden_dropout_prob
        self.norm_first = config.norm_first
        self.attention = SelfAttention(
            config, dropout_id, name="attention", dtype=policy
        )
        self.attention_output_dropout = dropout.Dropout(
            rate, dropout_id + 1, dtype=policy
        )
        self.attention_norm = LayerNorm(name="attention_norm")
        self.intermediate = dense(
            config.intermediate_size,
            config,
            activation=ACTIVATIONS[config.hidden_act],
            name="intermediate",
            dtype=policy,
        )
        self.output_dense = dense(
            config.hidden_size, config, name="output_dense", dtype=policy
        )
        self.product = product  # lora.py has another.
        self.output_dropout = dropout.Dropout(
            rate, dropout_id + 2, dtype=policy
        )
        self.output_norm = LayerNorm(name="output_norm")

    def build(self, hidden_shape, input_mask_shape=None):
        self.attention.build(hidden_shape)
        self.attention_norm.build(hidden_shape)
        self.intermediate.build(hidden_shape)
        self.output_dense.build((*hidden_shape[:-1], self.intermediate.units))
        self.output_norm.build(hidden_shape)

    def call(
        self,
        hidden,
        input_mask,
        training=None,
        dropout_key=None,
        return_attention=False,
    ):
        shape = tf.shape(hidden)
        kwargs = {"training": training, "dropout_key": dropout_key}
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B S, H]
        if self.norm_first:
            parameters = self.attention_norm.parameters()
            hidden = fused.norm(rows, *parameters, training)
            hidden = tf.reshape(hidden, shape)
        change = self.attention(
            hidden, input_mask, return_attention=return_attention, **kwargs
        )
        if return_attention:
            change, weights = change
        drop, norm = self.attention_output_dropout, self.attention_norm
        rows = self._add(change, rows, shape, drop, norm, **kwargs)
        expanded = rows
        if self.norm_first:
            parameters = self.output_norm.parameters()
            expanded = fused.norm(rows, *parameters, training)
        expanded = self.product(expanded, [self.intermediate], training)
        expanded = self.activate(expanded, training)  # [B S, I]
        change = self.product(expanded, [self.output_dense], training)
        drop, norm = self.output_dropout, self.output_norm
        rows = self._add(change, rows, shape, drop, norm, **kwargs)
        hidden = tf.reshape(rows, shape)  # [B, S, H]
        return (hidden, weights) if return_attention else hidden

    def activate(self, x, training):
        activation = self.intermediate.activation
        if activation is fused.gelu_tanh:
            return fused.gelu_tanh(x, training)
        return activation(x)

    def _add(self, change, rows, shape, drop, norm, training, dropout_key):
        """Returns rows + dropout(change), normalized unless `norm_first`.

        `change` and `rows` are output and input of a sublayer, [B S, H];
        `shape` is that of the dropout mask, [B, S, H].
        """
        keep = drop.keep_mask(shape, training, dropout_key)
        if self.norm_first:
            return fused.add(change, rows, keep, drop.rate, training)
        return fused.add_norm(
            change, rows, *norm.parameters(), keep, drop.rate, training
        )
