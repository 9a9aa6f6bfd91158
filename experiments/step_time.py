"""Step, rate of matrix products -> an estimate of its seconds.

Good enough to plan the jobs of an experiment, but not to see which of two
similar settings is faster.
"""

import math
import time

import tensorflow as tf

from bert_tf.workflows.estimates import Step, layer_weights

# Time of a step in addition to its matrix products, fitted to 63 settings from
# tiny to large, with 64 to 32,768 tokens in bfloat16 on 2 cores ("Cost over
# sizes, lengths and batches" in docs/results.md). The estimates are within
# -31 % and +19 % of these, and within 11 % of BERT-base there. It is a number
# of seconds per layer, on a CPU, plus (_OTHER_PART + _OTHER_WIDTH / H) times
# the time of the products.
_LAYER_SECONDS = 0.0163
_OTHER_PART, _OTHER_WIDTH = 0.22, 175.0
# In float32 matrix products take twice as long; the rest takes the same time.
_PRODUCT_TIME = {"float32": 2.0, "bfloat16": 1.0, "float16": 1.0}
_PRODUCT_SIZE = 2048
_REMAT_PRODUCTS = 4 / 3  # Two forward passes.


def products(step: Step) -> float:
    """Returns the FLOPs of a step's matrix products: 2 per multiply-add.

    The backward pass has two products for each of the forward pass. Embedding
    lookups are not matrix products.
    """
    config = step.config
    hidden = config.hidden_size
    tokens = step.batch_size * step.max_seq_length
    # The matrices; scores, and their product with the values.
    layer = layer_weights(config) + 2 * step.max_seq_length * hidden
    terms = config.num_hidden_layers * tokens * layer
    terms *= _REMAT_PRODUCTS if step.remat else 1.0
    terms += step.batch_size * hidden * (hidden + step.num_labels)
    masked = step.batch_size * step.max_predictions_per_seq
    terms += masked * hidden * (hidden + config.vocab_size)
    return 6.0 * terms


def measure_rate(precision: str, seconds: float = 0.5) -> float:
    """Returns the measured FLOP/s of a large matrix product.

    Args:
      precision: dtype of the product.
      seconds: approximate duration of the measurement, after a first product.
    """
    shape = (_PRODUCT_SIZE, _PRODUCT_SIZE)
    matrix = tf.cast(tf.random.stateless_normal(shape, (1, 2)), precision)
    product = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    float(product(matrix))  # Traces, and warms up the device.
    best, begin = math.inf, time.perf_counter()
    while best == math.inf or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        float(product(matrix))  # Waits for the result.
        best = min(best, time.perf_counter() - start)
    return 2.0 * _PRODUCT_SIZE**3 / best


def step_seconds(step: Step, rate: float) -> float:
    """Returns the estimated seconds of a step.

    Args:
      step: batch and model of the step.
      rate: FLOP/s of matrix products, from `measure_rate`.
    """
    other = _OTHER_PART + _OTHER_WIDTH / step.config.hidden_size
    part = 1.0 + other / _PRODUCT_TIME[step.precision]
    seconds = products(step) / rate * part
    if not tf.config.list_physical_devices("GPU"):
        seconds += _LAYER_SECONDS * step.config.num_hidden_layers
    return seconds
