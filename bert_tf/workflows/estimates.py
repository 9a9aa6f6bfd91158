"""Model and batch sizes of a step -> an estimate of its memory.

Shapes: B batch, S sequence, H hidden, L layers, A heads, I intermediate, V
vocabulary, P predictions.
"""

import dataclasses
import math
import os
import pathlib
import shutil
import subprocess
from typing import NamedTuple

import tensorflow as tf

from bert_tf.checkpoint import contents
from bert_tf.config import BertConfig

# Memory of Python, TensorFlow, Keras and the graph of the step. With it the sum
# is within 15 % of the peaks measured in docs/results.md, and in six steps of
# tiny and small, 1.18 and 2.34 GB.
_RUNTIME_BYTES = 0.8e9
# Gradient and AdamW's two moments of a weight that is trained, in float32.
_BYTES_PER_TRAINED = 3 * 4


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
      optimizer: name of the optimizer.
      has_averages: whether it keeps moving averages of the weights.
      has_adapters: whether only adapters are trained, which are small.
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
    optimizer: str = "adamw"
    has_averages: bool = False
    has_adapters: bool = False


def num_weights(step: Step) -> int:
    """Returns the number of trainable weights."""
    shapes = contents.shapes(step.config, step.task, step.num_labels)
    return sum(math.prod(shape) for shape in shapes.values())


def layer_weights(config: BertConfig) -> int:
    """Returns the number of weights in the matrices of a layer."""
    # Query, key, value, output; the two feed-forward layers.
    hidden, inner = config.hidden_size, config.intermediate_size
    return 4 * hidden**2 + 2 * hidden * inner


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
    trained = 0 if step.has_adapters else weights
    of_weights = 4 * weights + _BYTES_PER_TRAINED * trained
    if step.accumulation_steps > 1:
        of_weights += 4 * trained  # The sum of the gradients.
    if step.precision != "float32":
        of_weights += 2 * weights
    if step.has_averages:
        of_weights += 4 * trained
    if (
        step.optimizer == "muon" and trained
    ):  # No second moment of the layers' matrices.
        of_weights -= 4 * config.num_hidden_layers * layer_weights(config)
    return {
        "weights, gradients and optimizer": of_weights,
        "activations": layers + logits,
        "TensorFlow": _RUNTIME_BYTES,
    }


class Memory(NamedTuple):
    """Memory of the device that trains.

    Attributes:
      name: "memory of this host" or "memory of the GPU".
      free: bytes that no process uses; 0 if unknown.
      total: bytes that there are; 0 if unknown.
    """

    name: str
    free: int
    total: int


def read_memory() -> Memory:
    """Returns the available memory.

    With a GPU it is the GPU's total memory according to nvidia-smi, since
    TensorFlow allocates all of it; otherwise the host's, within the limit of
    its cgroup. On other systems than Linux it is unknown.
    """
    if tf.config.list_physical_devices("GPU") and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=memory.total"]
        command += ["--format=csv,noheader,nounits", "--id=0"]
        result = subprocess.run(command, capture_output=True, text=True)
        # "[N/A]" if the GPU has no memory of its own; or an error.
        if result.stdout.strip().isdecimal():
            size = int(result.stdout) << 20
            return Memory("memory of the GPU", size, size)
    return _host_memory("/proc/meminfo", "/sys/fs/cgroup")


def _host_memory(meminfo: str, group: str) -> Memory:
    """Returns the memory of this host, from files of Linux and cgroup v2."""
    free, total = [], []
    if os.path.exists(meminfo):
        sizes = _read_fields(meminfo)  # In KiB.
        free.append(sizes["MemAvailable:"] << 10)
        total.append(sizes["MemTotal:"] << 10)
    path = os.path.join(group, "memory.max")
    limit = pathlib.Path(path).read_text() if os.path.exists(path) else "max"
    if limit.strip() != "max":
        used = int(pathlib.Path(group, "memory.current").read_text())
        pages = _read_fields(os.path.join(group, "memory.stat"))
        # The kernel frees pages of files when a process needs memory.
        used -= pages["inactive_file"] + pages["active_file"]
        free.append(int(limit) - used)
        total.append(int(limit))
    return Memory(
        "memory of this host", min(free, default=0), min(total, default=0)
    )


def _read_fields(path: str) -> dict[str, int]:
    """Returns the number after each name, of a file with a line for each."""
    with open(path, encoding="ascii") as file:
        lines = (line.split() for line in file)
        return {words[0]: int(words[1]) for words in lines}
