"""Model and batch sizes of a step -> estimates of memory and time.

The estimates are good enough to see that a run does not fit or would take
months, but not which of two similar settings is faster.

Shapes: B batch, S sequence, H hidden, L layers, A heads, I intermediate, V
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

# Memory of Python, TensorFlow, Keras and the graph of the step. With it the sum
# is within 15 % of the peaks measured in docs/results.md, and in six steps of
# tiny and small, 1.18 and 2.34 GB.
_RUNTIME_BYTES = 0.8e9
# Weight, gradient and AdamW's two moments, in float32.
_BYTES_PER_WEIGHT = 16
# Time of a step in addition to its matrix products, fitted to
# `benchmarks.scaling`: 63 settings from tiny to large, with 64 to 32,768 tokens
# in bfloat16 on 2 cores. The estimates are within -31 % and +19 % of these, and
# within 11 % of BERT-base in docs/results.md. It is a number of seconds per
# layer, on a CPU, plus (_OTHER_PART + _OTHER_WIDTH / H) times the time of the
# products.
_LAYER_SECONDS = 0.0163
_OTHER_PART, _OTHER_WIDTH = 0.22, 175.0
# In float32 matrix products take twice as long; the rest takes the same time.
_PRODUCT_TIME = {"float32": 2.0, "bfloat16": 1.0, "float16": 1.0}
_PRODUCT_SIZE = 2048
_REMAT_PRODUCTS = 4 / 3  # Two forward passes.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Model and batch of one optimizer step on one device.

    Attributes:
      config: sizes of the model.
      task: a key of `models.TASK_MODELS`.
      batch_size: examples per step (B).
      max_seq_length: tokens per example (S).
      max_predictions_per_seq: predicted tokens per example (P).
      precision: float32, bfloat16 or float16.
      accumulation_steps: number of micro-batches, run one after the other.
      remat: whether activations inside a layer are recomputed.
      num_labels: number of classes.
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
    counts = []
    for layers in (1, 2):  # All layers are the same; there may be millions.
        config = dataclasses.replace(step.config, num_hidden_layers=layers)
        shapes = checkpoint.shapes(config, step.task, step.num_labels)
        counts.append(sum(math.prod(shape) for shape in shapes.values()))
    layer = counts[1] - counts[0]
    return counts[0] + (step.config.num_hidden_layers - 1) * layer


def memory(step: Step) -> dict[str, float]:
    """Returns the peak memory of training in bytes, by kind.

    Activations as in Korthikanti et al. 2022 (arXiv 2205.05198, equation 2):
    S B H (34 + 5 A S / H) bytes per layer in 16 bits, twice that in float32.
    With remat each layer keeps its input, and only one layer at a time its
    other activations and their gradients.
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
        "weights, gradients and two moments": _BYTES_PER_WEIGHT * weights
        + gradients
        + copies,
        "activations": layers + logits,
        "TensorFlow": _RUNTIME_BYTES,
    }


def products(step: Step) -> float:
    """Returns the FLOPs of a step's matrix products: 2 per multiply-add.

    The backward pass has two products for each of the forward pass. Embedding
    lookups are not matrix products.
    """
    config = step.config
    hidden, inner = config.hidden_size, config.intermediate_size
    tokens = step.batch_size * step.max_seq_length
    # Query, key, value, output; the two feed-forward layers; scores, and their
    # product with the values.
    layer = 4 * hidden**2 + 2 * hidden * inner
    layer += 2 * step.max_seq_length * hidden
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


def available_bytes() -> tuple[str, int]:
    """Returns a description of the available memory, and its size in bytes.

    With a GPU it is the GPU's total memory according to nvidia-smi, since
    TensorFlow allocates all of it; otherwise the host's free memory, within the
    limit of its cgroup. On other systems than Linux the size is 0 (unknown).
    """
    if tf.config.list_physical_devices("GPU") and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=memory.total"]
        command += ["--format=csv,noheader,nounits", "--id=0"]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            return "memory of the GPU", int(result.stdout.split()[0]) << 20
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
            limit = file.read().strip()
        with open(f"{group}current", encoding="ascii") as file:
            if limit != "max":
                free.append(int(limit) - int(file.read()))
    return min(free, default=0)
