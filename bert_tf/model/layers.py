"""Hidden -> hidden: the layers of the encoder, and what they are made of.

Letters: B batch, S sequence, H hidden, A heads, D = H / A, I intermediate.

Layers that only hold layers have a `build` too: without one Keras traces each
of them twice, and those inside it twice again.

Devlin et al. 2018, section 3, as google-research/bert's modeling.py computes
it: LayerNorm after each residual sum, GELU by its tanh form.

`fast` below says that a step of our own training runs, the one that passes a
`place`: then `fused` computes the same with gradients that take less time.
"""

import math

import keras
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.model import dropout, fused

DROPOUT_SITES_PER_LAYER = 3


def initializer(config: bert_config.BertConfig) -> keras.Initializer:
    """Returns a fresh initializer, cut off at two standard deviations.

    Fresh for each weight: a Keras 3 initializer gives the same numbers at
    every call.
    """
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(units: int, config: bert_config.BertConfig, **kwargs):
    """Returns a Dense layer with BERT's initial weights."""
    return keras.layers.Dense(
        units, kernel_initializer=initializer(config), **kwargs
    )


class LayerNorm(keras.layers.LayerNormalization):
    """[..., H] -> [..., H] of its dtype; float32 inside under every policy."""

    def __init__(self, **kwargs):
        # modeling.py: layer_norm, which leaves it at tf.contrib's default.
        kwargs = {"epsilon": 1e-12} | kwargs | {"dtype": "float32"}
        super().__init__(**kwargs)

    def parameters(self):  # [H], [H], float
        return self.gamma.value, self.beta.value, self.epsilon

    def call(self, x):
        return fused.layer_norm(x, *self.parameters())


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """GELU by tanh, the one that the released weights were trained with.

    modeling.py: gelu. Keras's "gelu" is the erf form.
    """
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + tf.tanh(inner))


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """GELU by the error function, as checkpoints from elsewhere may want."""
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


ACTIVATIONS = {
    "gelu": gelu_tanh,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
}


def project(rows, parts, fast: bool = False) -> tf.Tensor:
    """Returns x W + b of Dense layers side by side: [N, I] -> [N, O].

    One product of two matrices is quicker than several, and than one of
    three dimensions.

    Args:
      rows: [N, I] float.
      parts: Dense layers of O columns together; their activations are left
        to the caller.
      fast: see above.
    """
    kernel = tf.concat([part.kernel for part in parts], 1)
    bias = tf.concat([part.bias for part in parts], 0)
    if fast:
        return fused.dense(rows, kernel, bias)
    return tf.nn.bias_add(tf.matmul(rows, kernel), bias)


def packed_attention_mask(example_numbers: tf.Tensor) -> tf.Tensor:
    """Returns which token may read which where examples share a row.

    Krell et al. 2021: blocks along the diagonal, one for each example. What
    is padding reads padding alone, and nobody reads it.

      numbers  1 1 2 0    token 0 reads  1 1 0 0
                          token 2 reads  0 0 1 0

    Args:
      example_numbers: [B, S] int32, the example of each token.

    Returns:
      [B, S, S] bool: reader, what it reads.
    """
    return example_numbers[:, :, None] == example_numbers[:, None, :]


def causal_mask(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns what a token may read that reads nothing after itself.

    Args:
      input_mask: [B, S] int32, 1 for a token and 0 for padding; or [B, S, S]
        bool, of `packed_attention_mask`.

    Returns:
      [B, S, S] bool: reader, what it reads.
    """
    places = tf.range(tf.shape(input_mask)[-1])
    is_token = tf.cast(input_mask, tf.bool)
    if len(input_mask.shape) == 2:
        is_token = is_token[:, None, :]
    return is_token & (places[:, None] >= places)


class SelfAttention(keras.layers.Layer):
    """Lets every token read every unpadded token of its example.

    Vaswani et al. 2017, equation 1, with A heads of size D = H / A. Scores and
    softmax are float32 under every dtype policy; the rest follows the policy.

    Args:
      config: reads `hidden_size` (H), `num_attention_heads` (A),
        `attention_probs_dropout_prob` and `initializer_range`.
      site: number of the dropout of its attention weights.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32, 1 for a token and 0 for padding; or, where
        examples share a row, [B, S, S] bool, of `packed_attention_mask`; or of
        `causal_mask`.
      training: whether to drop attention weights.
      place: [3] int64, see `dropout.place`.

    Returns:
      [B, S, H] float, before the residual sum and its LayerNorm. Rows at
      padding are finite but mean nothing.
    """

    def __init__(self, config, site: int, **kwargs):
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
        self.dropout = dropout.Dropout(
            config.attention_probs_dropout_prob, site, dtype=policy
        )

    def build(self, hidden_shape, input_mask_shape=None):
        for part in (self.query, self.key, self.value, self.output_dense):
            part.build(hidden_shape)

    def call(self, hidden, input_mask, training=None, place=None):
        fast = bool(training) and place is not None
        batch, length = tf.unstack(tf.shape(hidden)[:2])
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B S, H]
        qkv = project(rows, (self.query, self.key, self.value), fast)
        shape = [batch, length, 3, self.num_heads, self.head_size]
        qkv = tf.reshape(qkv, shape)
        if fast:
            rate, site = self.dropout.rate, self.dropout.site
            context = fused.attend(qkv, input_mask, rate, place, site)
        else:
            query, key, value = fused.split_heads(qkv)  # [B, A, S, D]
            weights = fused.attention_weights(query, key, input_mask)
            weights = tf.cast(weights, value.dtype)  # [B, A, S, S]
            weights = self.dropout(weights, training=training)
            context = tf.matmul(weights, value)  # [B, A, S, D]
            context = tf.transpose(context, [0, 2, 1, 3])  # [B, S, A, D]
        context = tf.reshape(context, tf.shape(rows))
        output = project(context, (self.output_dense,), fast)
        return tf.reshape(output, tf.shape(hidden))  # [B, S, H]


class EncoderLayer(keras.layers.Layer):
    """Attention, then two dense layers; each with a residual and LayerNorm.

    Args:
      config: the whole BertConfig; reads `intermediate_size` (I),
        `hidden_act` and `hidden_dropout_prob` besides what SelfAttention does.
      index: number of this layer in its stack, from 0.

    Call arguments:
      hidden: [B, S, H] float.
      input_mask: [B, S] int32 or [B, S, S] bool, see SelfAttention.
      training: whether to drop values.
      place: [3] int64, see `dropout.place`.

    Returns:
      [B, S, H] float.
    """

    def __init__(self, config, index: int, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        site = 1 + DROPOUT_SITES_PER_LAYER * index
        rate = config.hidden_dropout_prob
        self.attention = SelfAttention(
            config, site, name="attention", dtype=policy
        )
        self.attention_dropout = dropout.Dropout(rate, site + 1, dtype=policy)
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
        self.output_dropout = dropout.Dropout(rate, site + 2, dtype=policy)
        self.output_norm = LayerNorm(name="output_norm")

    def build(self, hidden_shape, input_mask_shape=None):
        self.attention.build(hidden_shape)
        self.attention_norm.build(hidden_shape)
        self.intermediate.build(hidden_shape)
        self.output_dense.build((*hidden_shape[:-1], self.intermediate.units))
        self.output_norm.build(hidden_shape)

    def call(self, hidden, input_mask, training=None, place=None):
        fast = bool(training) and place is not None

        def add_norm(hidden, change, drop, norm):  # [B, S, H]
            if fast:
                how = *norm.parameters(), drop.rate, place, drop.site
                return fused.add_norm(change, hidden, *how)
            return norm(hidden + drop(change, training=training))

        kwargs = {"training": training, "place": place}
        attended = self.attention(hidden, input_mask, **kwargs)
        drop, norm = self.attention_dropout, self.attention_norm
        hidden = add_norm(hidden, attended, drop, norm)
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [B S, H]
        expanded = project(rows, (self.intermediate,), fast)  # [B S, I]
        expanded = self.activation(expanded, fast)
        projected = project(expanded, (self.output_dense,), fast)
        projected = tf.reshape(projected, tf.shape(hidden))
        drop, norm = self.output_dropout, self.output_norm
        return add_norm(hidden, projected, drop, norm)

    def activation(self, x: tf.Tensor, fast: bool) -> tf.Tensor:
        act = self.intermediate.activation
        return fused.gelu_tanh(x) if fast and act is gelu_tanh else act(x)
