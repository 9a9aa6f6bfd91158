"""Hidden states -> hidden states: fused operations with custom gradients.

With TensorFlow's automatic gradients, reading and writing memory takes as long
as the matrix products. Each function here computes one formula and, in
training, has a custom gradient that keeps few tensors and passes over them
once. Tests compare these gradients with TensorFlow's own.

Custom gradients are used only in training: they leave a node in exported
graphs that other runtimes reject, and for a few predictions compiling each
shape costs more than it saves.

Shapes: B batch, S sequence, H hidden, A heads, D = H / A, N rows, I input and
O output columns. Unless stated otherwise, results have the dtype of the
arguments; bfloat16 is computed in float32, except in `dense` and in matrix
products.
"""

import functools
import math

import tensorflow as tf

from bert_tf.model import dropout

MASKED_SCORE = -10000.0  # modeling.py: attention_layer.
_SLOPE = math.sqrt(2.0 / math.pi)
# Below this size compiling a loop costs more than it saves.
_WORTH_COMPILING = 2**18


def one_loop(function):
    """Returns `function`, compiled by XLA if that is possible and faster.

    TensorFlow runs each operation as one pass over memory. XLA fuses many into
    one loop, compiled for all instructions of the processor. But its matrix
    products are slow on CPUs, so only operations between them are compiled.
    Nothing is compiled if the process has several devices: compiled functions
    fail on a second CPU, and with a GPU or TPU it is better to compile the
    complete training step.

    Args:
      function: function of a tensor, whose size decides whether compiling is
        worthwhile, and of other tensors or floats.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(x, *args):
        devices = [d.device_type for d in tf.config.list_logical_devices()]
        pays = (x.shape.num_elements() or 0) >= _WORTH_COMPILING
        is_single_cpu = devices == ["CPU"]
        return (compiled if pays and is_single_cpu else function)(x, *args)

    return call


def upcast(x: tf.Tensor) -> tf.Tensor:
    """Returns `x` as float32; float64 is left unchanged."""
    return tf.cast(x, tf.float64 if x.dtype == tf.float64 else tf.float32)


def dense(x, kernel, bias, training=False) -> tf.Tensor:
    """Returns x @ kernel + bias: [N, I], [I, O], [O] -> [N, O]."""
    if training:
        return _trained_dense(x, kernel, bias)
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


@tf.custom_gradient
def _trained_dense(x, kernel, bias):
    def gradient(dy):
        dx = tf.matmul(dy, kernel, transpose_b=True)
        dkernel = tf.matmul(x, dy, transpose_a=True)
        # A sum over rows is fastest as a matrix product.
        ones = tf.ones([1, tf.shape(dy)[0]], dy.dtype)
        return dx, dkernel, tf.matmul(ones, dy)[0]

    # oneDNN's bfloat16 product with a bias takes 1.1 to 1.6 times as long as
    # one without, if the kernel changes from call to call.
    add = _add_bias if x.dtype == tf.bfloat16 else tf.nn.bias_add
    return add(tf.matmul(x, kernel), bias), gradient


@one_loop
def _add_bias(x, bias):
    return x + bias


def gelu_tanh(x: tf.Tensor, training=False) -> tf.Tensor:
    """Returns GELU in the tanh approximation, as in the released models.

    modeling.py: gelu. Keras's "gelu" is the erf form. In training it
    is computed in float32; only `x` is kept, and the gradient recomputes tanh.
    Otherwise it is computed in the dtype of `x`, since casts would cost two
    more passes.
    """
    return _trained_gelu(x) if training else _gelu(x)


def _gelu(x):
    inner = _SLOPE * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + tf.tanh(inner))


@one_loop
def _float32_gelu(x):
    return tf.cast(_gelu(upcast(x)), x.dtype)


@one_loop
def _gelu_gradient(x, dy):
    y = upcast(x)
    tanh = tf.tanh(_SLOPE * (y + 0.044715 * y * y * y))
    inner = _SLOPE * (1.0 + 3 * 0.044715 * y * y)
    slope = 0.5 * (1.0 + tanh) + 0.5 * y * (1.0 - tanh * tanh) * inner
    return tf.cast(upcast(dy) * slope, x.dtype)


@tf.custom_gradient
def _trained_gelu(x):
    return _float32_gelu(x), functools.partial(_gelu_gradient, x)


def _normalized(total, epsilon):
    """Returns `total` with mean 0 and standard deviation 1, and its scale.

    [..., H] -> [..., H], [..., 1].
    """
    centred = upcast(total) - tf.reduce_mean(upcast(total), -1, keepdims=True)
    variance = tf.reduce_mean(centred * centred, -1, keepdims=True)
    factor = tf.math.rsqrt(variance + epsilon)
    return centred * factor, factor


def layer_norm(x, gamma, beta, epsilon) -> tf.Tensor:
    """Returns LayerNorm(x), [..., H], with scale `gamma` and offset `beta`.

    Ba et al. 2016. It makes half as many passes over memory as Keras's layer.
    """
    return tf.cast(_normalized(x, epsilon)[0] * gamma + beta, x.dtype)


def _dropped(x, keep, rate):
    """Returns dropout(x) in float32; `keep` is None for no dropout."""
    if keep is None:
        return upcast(x)
    keep = tf.reshape(keep, tf.shape(x))
    return tf.where(keep, upcast(x) * dropout.kept_scale(rate), 0.0)


@one_loop
def _add_norm(change, hidden, gamma, beta, epsilon, keep, rate):
    total = upcast(hidden) + _dropped(change, keep, rate)
    total = tf.cast(total, hidden.dtype)
    return layer_norm(total, gamma, beta, epsilon), total


@one_loop
def _add_norm_gradient(total, keep, gamma, epsilon, rate, dy):
    dy = upcast(dy)
    normal, factor = _normalized(total, epsilon)
    dnormal = dy * gamma
    dtotal = factor * (
        dnormal
        - tf.reduce_mean(dnormal, -1, keepdims=True)
        - normal * tf.reduce_mean(dnormal * normal, -1, keepdims=True)
    )
    return (
        tf.cast(_dropped(dtotal, keep, rate), total.dtype),
        tf.cast(dtotal, total.dtype),
        tf.reduce_sum(dy * normal, 0),
        tf.reduce_sum(dy, 0),
    )


def add_norm(
    change, hidden, gamma, beta, epsilon, keep=None, rate=0.0, training=False
):
    """Returns LayerNorm(hidden + dropout(change)), [N, H].

    For the gradient it keeps the sum, and the dropout mask as one byte per
    value.

    Args:
      change: [N, H] float, output of a sublayer. A matrix, since oneDNN fuses
        product, bias and residual sum only if nothing is reshaped in between.
      hidden: [N, H] float, input of that sublayer (the residual).
      gamma: [H] float, scale of the LayerNorm.
      beta: [H] float, offset of the LayerNorm.
      epsilon: added to the variance.
      keep: [N, H] or [B, S, H] bool, dropout mask of `change`; None for no
        dropout.
      rate: dropout rate of `keep`.
      training: whether to apply `keep`, and to use the custom gradient.
    """
    if not training:
        return layer_norm(hidden + change, gamma, beta, epsilon)

    @tf.custom_gradient
    def function(change, hidden, gamma, beta):
        y, total = _add_norm(change, hidden, gamma, beta, epsilon, keep, rate)
        return y, functools.partial(
            _add_norm_gradient, total, keep, gamma, epsilon, rate
        )

    return function(change, hidden, gamma, beta)


def add(change, hidden, keep=None, rate=0.0, training=False) -> tf.Tensor:
    """Returns hidden + dropout(change), [N, H]; arguments as in `add_norm`.

    For the gradient it keeps the dropout mask alone.
    """
    if not training:
        return hidden + change

    @tf.custom_gradient
    def function(change, hidden):
        def gradient(dy):
            return _drop(dy, keep, rate), dy

        return _add(change, hidden, keep, rate), gradient

    return function(change, hidden)


@one_loop
def _add(change, hidden, keep, rate):
    total = upcast(hidden) + _dropped(change, keep, rate)
    return tf.cast(total, hidden.dtype)


@one_loop
def _drop(x, keep, rate):
    return tf.cast(_dropped(x, keep, rate), x.dtype)


def norm(x, gamma, beta, epsilon, training=False) -> tf.Tensor:
    """Returns LayerNorm(x), [N, H], as `layer_norm`; its gradient keeps `x`."""
    if not training:
        return layer_norm(x, gamma, beta, epsilon)

    @tf.custom_gradient
    def function(x, gamma, beta):
        def gradient(dy):
            return _add_norm_gradient(x, None, gamma, epsilon, 0.0, dy)[1:]

        return _compiled_layer_norm(x, gamma, beta, epsilon), gradient

    return function(x, gamma, beta)


_compiled_layer_norm = one_loop(layer_norm)


def split_heads(qkv: tf.Tensor) -> list[tf.Tensor]:
    """Returns query, key and value: [B, S, 3, A, D] -> 3 times [B, A, S, D]."""
    return tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))


def attention_weights(query, key, input_mask) -> tf.Tensor:
    """Returns softmax(query key^T / sqrt(D) + mask): [B, A, S, S] float32.

    Vaswani et al. 2017, equation 1. `input_mask` is 1 for tokens to attend to:
    [B, S], or [B, S, S] with one mask for each query position. oneDNN fuses
    product, scale and mask if they are written in this order.
    """
    # Cast before the product: a bfloat16 score near 17 is a multiple of 0.125.
    scores = tf.matmul(upcast(query), upcast(key), transpose_b=True)
    scores *= 1.0 / math.sqrt(query.shape[-1])
    # TensorFlow sorts the terms of a sum by name, and only a product that
    # comes first is fused; hence a name after that of every layer.
    with tf.name_scope("z_mask/"):
        mask = tf.cast(input_mask, scores.dtype)
        # Not [:, None], which LiteRT has only for static shapes.
        if len(mask.shape) == 2:
            mask = tf.expand_dims(mask, 1)
        mask = tf.expand_dims(mask, 1)  # [B, 1, 1, S] or [B, 1, S, S]
        masked_scores = MASKED_SCORE * (1.0 - mask)
    return tf.nn.softmax(scores + masked_scores)


@one_loop
def _drop_weights(weights, keep, rate, dtype):
    """Returns dropout(weights), and the weights, negated where dropped."""
    if keep is not None:
        weights = tf.where(keep, weights, -weights)
    signed = tf.cast(weights, dtype)
    return _kept(signed, rate), signed


def _kept(signed, rate):
    kept = tf.nn.relu(upcast(signed)) * dropout.kept_scale(rate)
    return tf.cast(kept, signed.dtype)


@one_loop
def _scores_gradient(signed, dweights, mean, rate, scale):
    """Returns dropout(weights), recomputed, and the gradient of the scores."""
    kept_scale = dropout.kept_scale(rate)
    gain = tf.where(signed > 0, upcast(dweights) * kept_scale, 0.0)
    dscores = tf.abs(upcast(signed)) * (gain - mean) * scale
    return _kept(signed, rate), tf.cast(dscores, signed.dtype)


def _attend_gradient(query, key, value, signed, context, rate, dcontext):
    """Returns the gradient of query, key and value: [B, S, 3, A, D]."""
    scale = 1.0 / math.sqrt(query.shape[-1])
    mean = tf.reduce_sum(upcast(context) * upcast(dcontext), -1)
    mean = tf.transpose(mean, [0, 2, 1])[..., None]  # [B, A, S, 1]
    dcontext = tf.transpose(dcontext, [0, 2, 1, 3])  # [B, A, S, D]
    dkept = tf.matmul(dcontext, value, transpose_b=True)
    kept, dscores = _scores_gradient(signed, dkept, mean, rate, scale)
    dquery = tf.matmul(dscores, key)
    dkey = tf.matmul(dscores, query, transpose_a=True)
    dvalue = tf.matmul(kept, dcontext, transpose_a=True)
    dqkv = tf.stack([dquery, dkey, dvalue])  # [3, B, A, S, D]
    return tf.transpose(dqkv, [1, 3, 0, 2, 4])


def attend(qkv, input_mask, keep=None, rate=0.0, training=False) -> tf.Tensor:
    """Multi-head attention (Vaswani et al. 2017, equation 1).

      scores  = query key^T / sqrt(D) - 10000 (1 - input_mask)  [B, A, S, S]
      weights = softmax(scores)                                 [B, A, S, S]
      kept    = dropout(weights)                                [B, A, S, S]
      output  = kept value                                      [B, S, A, D]

    The first two lines are `attention_weights`; a reader may skip the rest. For
    the gradient one tensor of [B, A, S, S] is kept: the attention weights,
    negated where they were dropped. The mean that the gradient of softmax
    subtracts is computed from the output and its gradient (Dao et al. 2022,
    FlashAttention, B.2).

    Args:
      qkv: [B, S, 3, A, D] float: query, key, value.
      input_mask: [B, S] or [B, S, S], see `attention_weights`.
      keep: [B, A, S, S] bool, dropout mask of the weights; None for no dropout.
      rate: dropout rate of `keep`.
      training: whether to apply `keep`, and to use the custom gradient.

    Returns:
      [B, S, A, D] float, the output of each head.
    """

    def function(qkv):
        query, key, value = split_heads(qkv)  # [B, A, S, D]
        weights = attention_weights(query, key, input_mask)  # [B, A, S, S]
        if training:
            kept, signed = _drop_weights(weights, keep, rate, qkv.dtype)
        else:
            kept = signed = tf.cast(weights, qkv.dtype)
        context = tf.transpose(tf.matmul(kept, value), [0, 2, 1, 3])
        return context, functools.partial(
            _attend_gradient, query, key, value, signed, context, rate
        )

    if training:
        return tf.custom_gradient(function)(qkv)
    return function(qkv)[0]


@one_loop
def _logits_gradient(probabilities, labels, dy):
    right = tf.one_hot(labels, probabilities.shape[-1], dtype=dy.dtype)
    return (probabilities - right) * tf.expand_dims(dy, -1)


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns -log softmax(logits)[label]: [..., C], [...] -> [...].

    With a gradient, for 512 rows of 30,522 logits, it takes 30 ms on one core
    of a Xeon, and TensorFlow's kernel 136 ms.

    Args:
      logits: [..., C] float32.
      labels: [...] int32 in [0, C).
    """

    @tf.custom_gradient
    def function(logits):
        probabilities = tf.nn.softmax(logits)
        rank = len(labels.shape)
        chosen = tf.gather(logits, labels, axis=-1, batch_dims=rank)
        # The largest probability, at least 1 / C, is exp(largest - log sum).
        # Differences first: they are exact where the loss is small.
        above = tf.reduce_max(logits, -1) - chosen
        losses = above - tf.math.log(tf.reduce_max(probabilities, -1))
        return losses, functools.partial(
            _logits_gradient, probabilities, labels
        )

    return function(logits)
