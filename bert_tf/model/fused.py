"""Hidden -> hidden and back: formulas with gradients in few passes.

What TensorFlow derives from plain formulas spends as long on reading and
writing memory as the matrix products take. Each function here is one formula,
and in training has a gradient that keeps few tensors and passes over them once;
tests compare these gradients with TensorFlow's own.

Only in training: a function with a gradient of its own stays a node that
exports carry along and runtimes of other formats refuse, and compiling for each
shape does not pay for a few answers.

Letters: B batch, S sequence, H hidden, A heads, D = H / A, N rows, I and O
columns. Results have the dtype of the arguments; bfloat16 becomes float32
inside.
"""

import functools
import math

import tensorflow as tf

from bert_tf.model import dropout

MASKED_SCORE = -10000.0  # modeling.py: attention_layer.
_SLOPE = math.sqrt(2.0 / math.pi)
# With fewer values a compiled loop costs more than it saves.
_WORTH_COMPILING = 2**18


def one_loop(function):
    """Returns `function` compiled by XLA, where that can be and pays.

    TensorFlow runs each operation as one pass over memory. XLA makes one loop
    of many, out of all instructions that the processor has; but its matrix
    products are slow on CPUs, so only what lies between products is compiled.
    Operations stay as they are where a process has several devices: compiled
    functions fail on a second CPU, and with a GPU or TPU the step as a whole
    had better be compiled.

    Args:
      function: of tensors, the first of which is a large one, and of floats.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(x, *args):
        devices = [d.device_type for d in tf.config.list_logical_devices()]
        pays = (x.shape.num_elements() or 0) >= _WORTH_COMPILING
        alone = devices == ["CPU"]
        return (compiled if pays and alone else function)(x, *args)

    return call


def upcast(x: tf.Tensor) -> tf.Tensor:
    """Returns `x` in the dtype of arithmetic: float32, or float64 as it is."""
    return tf.cast(x, tf.float64 if x.dtype == tf.float64 else tf.float32)


def _differentiable(function, training):
    """Returns x, ... -> y of a function that returns y and its gradient."""
    if training:
        return tf.custom_gradient(function)
    return lambda *args: function(*args)[0]


def dense(x, kernel, bias, training=False) -> tf.Tensor:
    """Returns x @ kernel + bias: [N, I], [I, O], [O] -> [N, O]."""
    return _differentiable(_dense, training)(x, kernel, bias)


def _dense(x, kernel, bias):
    def gradient(dy):
        dx = tf.matmul(dy, kernel, transpose_b=True)
        # Transposed first: as an argument of the product it takes longer.
        dkernel = tf.matmul(tf.transpose(x), dy)
        # A sum over rows is quickest as a product.
        ones = tf.ones([1, tf.shape(dy)[0]], dy.dtype)
        return dx, dkernel, tf.matmul(ones, dy)[0]

    return tf.nn.bias_add(tf.matmul(x, kernel), bias), gradient


def gelu_tanh(x: tf.Tensor, training=False) -> tf.Tensor:
    """GELU by tanh, the one that the released weights were trained with.

    modeling.py: gelu. Keras's "gelu" is the erf form. In training it is float32
    inside, keeps `x` and computes tanh again; otherwise of the dtype of `x`,
    since casts would cost two passes more.
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
    """Returns `total` with mean 0 and deviation 1, and what it was scaled by.

    [..., H] -> [..., H], [..., 1].
    """
    centred = upcast(total) - tf.reduce_mean(upcast(total), -1, keepdims=True)
    variance = tf.reduce_mean(centred * centred, -1, keepdims=True)
    factor = tf.math.rsqrt(variance + epsilon)
    return centred * factor, factor


def layer_norm(x, gamma, beta, epsilon) -> tf.Tensor:
    """[..., H] -> [..., H] with mean `beta` and deviation `gamma`, each [H].

    Ba et al. 2016, Layer Normalization. Half the passes of Keras's.
    """
    return tf.cast(_normalized(x, epsilon)[0] * gamma + beta, x.dtype)


def _dropped(x, keep, rate):
    """Returns float32 of `x` after dropout; `keep` is None without one."""
    if keep is None:
        return upcast(x)
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
        tf.reduce_sum(dy * normal, [0, 1]),
        tf.reduce_sum(dy, [0, 1]),
    )


def add_norm(
    change, hidden, gamma, beta, epsilon, keep=None, rate=0.0, training=False
):
    """Returns LayerNorm(hidden + dropout(change)), all of them [B, S, H].

    Keeps the sum, and of the dropout one byte a value.

    Args:
      change: [B, S, H] float, what a sublayer made of `hidden`.
      hidden: [B, S, H] float, the residual.
      gamma: [H] float, scale of the LayerNorm.
      beta: [H] float, its offset.
      epsilon: added to the variance by it.
      keep: [B, S, H] bool, which values of `change` stay; None for all.
      rate: share of them that was dropped.
      training: whether it needs a gradient of its own.
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


def split_heads(qkv: tf.Tensor) -> list[tf.Tensor]:
    """[B, S, 3, A, D] -> query, key and value, each [B, A, S, D]."""
    return tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))


def attention_weights(query, key, input_mask) -> tf.Tensor:
    """Returns softmax(query key^T / sqrt(D)): [B, A, S, S] float32.

    Vaswani et al. 2017, equation 1, for tokens that `input_mask` has a 1 for:
    [B, S], the same for all that read, or [B, S, S], for each that reads.
    oneDNN computes product, scale and mask at once, as they stand here.
    """
    # Cast before the product: bfloat16 has steps of 0.125 at a score of 17.
    scores = tf.matmul(upcast(query), upcast(key), transpose_b=True)
    scores *= 1.0 / math.sqrt(query.shape[-1])
    mask = tf.cast(input_mask, scores.dtype)
    mask = mask[:, None, None] if len(mask.shape) == 2 else mask[:, None]
    return tf.nn.softmax(scores + MASKED_SCORE * (1.0 - mask))


@one_loop
def _drop_weights(weights, keep, rate, dtype):
    """Returns weights with dropout, and all weights: dropped ones negative."""
    if keep is not None:
        weights = tf.where(keep, weights, -weights)
    signed = tf.cast(weights, dtype)
    return _kept(signed, rate), signed


def _kept(signed, rate):
    kept = tf.nn.relu(upcast(signed)) * dropout.kept_scale(rate)
    return tf.cast(kept, signed.dtype)


@one_loop
def _scores_gradient(signed, dweights, mean, rate, scale):
    """Returns weights with dropout, again, and the gradient of the scores."""
    kept_scale = dropout.kept_scale(rate)
    gain = tf.where(signed > 0, upcast(dweights) * kept_scale, 0.0)
    dscores = tf.abs(upcast(signed)) * (gain - mean) * scale
    return _kept(signed, rate), tf.cast(dscores, signed.dtype)


def _attend_gradient(query, key, value, signed, context, rate, dcontext):
    """Returns the gradient of queries, keys and values: [B, S, 3, A, D]."""
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
    """Returns the values that each token attends to: [B, S, A, D].

    `attention_weights`, dropout, and their product with the values. Of
    [B, A, S, S] it keeps one tensor: the weights, whose sign tells what was
    dropped. Their mean gradient, which the gradient of softmax subtracts, is
    also output times its gradient (Dao et al. 2022, FlashAttention, B.2).

    Args:
      qkv: [B, S, 3, A, D] float: queries, keys, values.
      input_mask: [B, S] or [B, S, S], see `attention_weights`.
      keep: [B, A, S, S] bool, which weights stay; None for all.
      rate: share of them that was dropped.
      training: whether it needs a gradient of its own.
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

    return _differentiable(function, training)(qkv)
