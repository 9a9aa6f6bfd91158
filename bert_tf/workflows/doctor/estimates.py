"""Config and sizes of a step -> its memory and time on the machine at hand.

Estimates by arithmetic, which tell before a run that it cannot fit or will take
months, but not which of two similar settings is faster.

Letters: B batch, S sequence, H hidden, L layers, A heads, I intermediate, V
vocabulary, P predictions.
"""

import dataclasses
import math
import os
import shutil
import subprocess
import time

import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.conversion import checkpoint

# What a run takes besides: Python, TensorFlow, Keras, the graph of the step.
# With it the sum is within 15 % of the peaks of README.md and of six steps of
# tiny and small, 1.18 and 2.34 GB.
_RUNTIME_BYTES = 0.8e9
# Weight, gradient and AdamW's two moments, in float32.
_BYTES_A_WEIGHT = 16
# What a step takes besides its products, fitted to `benchmarks.scaling`: 63
# cells from tiny to large, of 64 to 32,768 tokens in bfloat16 on 2 cores, which
# this meets within -31 and +19 %; BERT-base of README.md's Results within 11 %.
# Seconds a layer, on a CPU; and of the products' time a part, and another one
# that is the larger the narrower the model is.
_LAYER_SECONDS = 0.0163
_OTHER_PART, _OTHER_WIDTH = 0.22, 175.0
# In float32 products take twice as long, and the rest as long as before.
_PRODUCT_TIME = {"float32": 2.0, "bfloat16": 1.0, "float16": 1.0}
_PRODUCT_SIZE = 2048
_REMAT_PRODUCTS = 4 / 3  # The forward pass twice.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Model and batch of one optimizer step on one device.

    Attributes:
      config: sizes of the model.
      task: a key of `models.TASK_MODELS`.
      batch_size: examples of the step (B).
      max_seq_length: tokens of an example (S).
      max_predictions_per_seq: masked slots of an example (P).
      precision: float32, bfloat16 or float16.
      accumulation_steps: micro-batches, one after the other.
      remat: whether activations inside a layer are recomputed.
      num_labels: classes.
    """

    config: BertConfig
    task: str
    batch_size: int
    max_seq_length: int
    max_predictions_per_seq: int = 0
    precision: str = "float32"
    accumulation_steps: int = 1
    remat: bool = False
    num_labels: int = 2


def num_weights(step: Step) -> int:
    """Returns the number of trainable weights."""
    shapes = checkpoint.shapes(step.config, step.task, step.num_labels)
    return sum(math.prod(shape) for shape in shapes.values())


def memory(step: Step) -> dict[str, float]:
    """Returns the bytes that a training takes at its peak, by kind.

    Activations as Korthikanti et al. 2022 (arXiv 2205.05198, equation 2): S B H
    (34 + 5 A S / H) bytes a layer in 16 bits, here twice that in float32. With
    remat each layer keeps its input, and one layer at a time the rest and the
    gradients of that.
    """
    config, weights = step.config, num_weights(step)
    rows = math.ceil(step.batch_size / step.accumulation_steps)
    width = 2 if step.precision == "float32" else 1
    hidden = rows * step.max_seq_length * config.hidden_size
    heads = config.num_attention_heads
    layer = (
        width
        * hidden
        * (34 + 5 * heads * step.max_seq_length / config.hidden_size)
    )
    layers = config.num_hidden_layers * layer
    if step.remat:
        inputs = config.num_hidden_layers * 2 * width * hidden
        layers = inputs + 2 * layer
    masked = rows * step.max_predictions_per_seq
    # Logits, their softmax and gradient, in float32.
    logits = 3 * 4 * masked * config.vocab_size
    gradients = 4 * weights if step.accumulation_steps > 1 else 0
    copies = 2 * weights if step.precision != "float32" else 0
    return {
        "weights, gradients and two moments": _BYTES_A_WEIGHT * weights
        + gradients
        + copies,
        "activations": layers + logits,
        "TensorFlow": _RUNTIME_BYTES,
    }


def products(step: Step) -> float:
    """Returns the operations of a step's matrix products, two a term.

    A backward pass has two products for each of the forward pass. Embeddings
    are looked up, not multiplied.
    """
    config = step.config
    hidden, inner = config.hidden_size, config.intermediate_size
    tokens = step.batch_size * step.max_seq_length
    # Query, key, value, output; the two of the feed-forward layer; scores and
    # their product with the values.
    layer = 4 * hidden**2 + 2 * hidden * inner
    layer += 2 * step.max_seq_length * hidden
    terms = config.num_hidden_layers * tokens * layer
    terms *= _REMAT_PRODUCTS if step.remat else 1.0
    terms += step.batch_size * hidden * (hidden + step.num_labels)
    masked = step.batch_size * step.max_predictions_per_seq
    terms += masked * hidden * (hidden + config.vocab_size)
    return 6.0 * terms


def measure_rate(precision: str, seconds: float = 0.5) -> float:
    """Returns the operations a second of a large matrix product here.

    Args:
      precision: of the product.
      seconds: to spend, about, after a first product.
    """
    shape = (_PRODUCT_SIZE, _PRODUCT_SIZE)
    one = tf.cast(tf.random.stateless_normal(shape, (1, 2)), precision)
    product = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    float(product(one))  # Traced, and the device awake.
    best, begin = math.inf, time.perf_counter()
    while best == math.inf or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        float(product(one))  # Waits for it.
        best = min(best, time.perf_counter() - start)
    return 2.0 * _PRODUCT_SIZE**3 / best


def step_seconds(step: Step, rate: float) -> float:
    """Returns about how long a step takes where products run at `rate`."""
    other = _OTHER_PART + _OTHER_WIDTH / step.config.hidden_size
    part = 1.0 + other / _PRODUCT_TIME[step.precision]
    seconds = products(step) / rate * part
    if not tf.config.list_physical_devices("GPU"):
        seconds += _LAYER_SECONDS * step.config.num_hidden_layers
    return seconds


def available_bytes() -> tuple[str, int]:
    """Returns a name for the memory that a training has, and its bytes.

    Of a GPU all that it has, as nvidia-smi says, since TensorFlow takes it all
    at once; else what the host has free, within the limit of its control
    group. Linux only; elsewhere the number is 0, for not known.
    """
    if tf.config.list_physical_devices("GPU") and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=memory.total"]
        command += ["--format=csv,noheader,nounits", "--id=0"]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode == 0:
            return "memory of the GPU", int(answer.stdout.split()[0]) << 20
    return "free memory of this host", _host_bytes()


def _host_bytes() -> int:
    free = []
    if os.path.exists("/proc/meminfo"):
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        free.append(int(fields["MemAvailable"].split()[0]) << 10)
    group = "/sys/fs/cgroup/memory."
    if os.path.exists(f"{group}max") and os.path.exists(f"{group}current"):
        with open(f"{group}max", encoding="ascii") as file:
            most = file.read().strip()
        with open(f"{group}current", encoding="ascii") as file:
            if most != "max":
                free.append(int(most) - int(file.read()))
    return min(free, default=0)
