"""Hidden states of the tokens of texts -> one vector for each text.

The steps are those of sentence-transformers (Reimers and Gurevych 2019,
arXiv 1908.10084), whose folders have them: pooling over the tokens, then any
number of dense layers and normalizations. The names of the modes are theirs.

Shapes: N texts, s tokens, D hidden size times layers, P modes of pooling, I
inputs and O outputs of a dense layer.
"""

import dataclasses
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import POOLING_MODES

# Names of Keras's activations that a dense layer may have. "gelu" is exact.
ACTIVATIONS = ("linear", "tanh", "relu", "gelu", "sigmoid", "silu")
# Prefix of names of tensors in a model folder.
PREFIX = "sentence_embedding/"
# Kind of `SentenceEmbedding.settings`, see `json_files.check`.
SETTINGS = {
    "pooling": [str],
    "steps": [{"type": str, "activation?": str, "use_bias?": bool}],
}
_LEAST_NORM = 1e-12  # torch.nn.functional.normalize.


@dataclasses.dataclass(frozen=True, eq=False)
class Dense:
    """A dense layer.

    Attributes:
      kernel: [I, O] float32.
      bias: [O] float32; None if it has none.
      activation: one of `ACTIVATIONS`.
    """

    kernel: np.ndarray
    bias: np.ndarray | None
    activation: str

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [N, O] float32 for `x` [N, I] float32."""
        x = tf.matmul(x, tf.constant(self.kernel))
        if self.bias is not None:
            x += tf.constant(self.bias)
        return keras.activations.get(self.activation)(x)

    def settings(self) -> dict:
        """Returns the settings that are not tensors, as JSON values."""
        return {
            "type": "Dense",
            "activation": self.activation,
            "use_bias": self.bias is not None,
        }


class Normalize:
    """Division of each vector by its Euclidean length."""

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns [N, D] for `x` [N, D] float32."""
        return x / tf.maximum(tf.norm(x, axis=-1, keepdims=True), _LEAST_NORM)

    def settings(self) -> dict:
        """Returns its name, as JSON values."""
        return {"type": "Normalize"}


@dataclasses.dataclass(frozen=True, eq=False)
class SentenceEmbedding:
    """The steps from hidden states to the vector of a text.

    The weights of dense layers are constants: they are served, not trained.

    Attributes:
      pooling: one or more of `POOLING_MODES`, whose results are concatenated.
      steps: the steps after pooling, in order.
    """

    pooling: tuple[str, ...] = ("mean",)
    steps: tuple[Dense | Normalize, ...] = ()

    def __call__(self, hidden: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        """Returns the vectors, float32.

        Args:
          hidden: [N, s, D] of any float type.
          input_mask: [N, s] int32, 1 for tokens, of which [CLS] and [SEP] are
            two, and 0 for padding after them.
        """
        hidden = tf.cast(hidden, tf.float32)
        pooled = [_pool(hidden, input_mask, mode) for mode in self.pooling]
        x = tf.concat(pooled, axis=-1)  # [N, P D]
        for step in self.steps:
            x = step(x)
        return x

    def check_width(self, width: int) -> None:
        """Raises ValueError unless the steps fit D = `width`."""
        width *= len(self.pooling)
        for step in self.steps:
            if isinstance(step, Dense):
                if step.kernel.shape[0] != width:
                    raise ValueError(
                        f"The sentence embedding ({self}) has a dense layer of "
                        f"{step.kernel.shape[0]} inputs after {width} numbers. "
                        "Give layers and pooling that fit it, or omit them."
                    )
                width = step.kernel.shape[1]

    def __str__(self):
        return describe(self.settings())

    def settings(self) -> dict:
        """Returns the entry of model.json: all but the tensors."""
        return {
            "pooling": list(self.pooling),
            "steps": [step.settings() for step in self.steps],
        }

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns the tensors of a model folder's weight file, by name."""
        tensors = {}
        for i, step in enumerate(self.steps):
            if isinstance(step, Dense):
                # safetensors 0.8 would write a transposed one in another order.
                kernel = np.ascontiguousarray(step.kernel)
                tensors[f"{PREFIX}{i}/kernel"] = kernel
                if step.bias is not None:
                    tensors[f"{PREFIX}{i}/bias"] = step.bias
        return tensors


def _pool(hidden: tf.Tensor, input_mask: tf.Tensor, mode: str) -> tf.Tensor:
    """Returns [N, D] for hidden states [N, s, D] float32.

    Sums are products and reductions, not einsum or matmul: LiteRT lacks the
    first, and quantization would change the second.
    """
    if mode == "cls":
        return hidden[:, 0]
    if mode == "max":
        is_token = tf.expand_dims(input_mask > 0, -1)
        hidden = tf.where(is_token, hidden, hidden.dtype.min)
        return tf.reduce_max(hidden, axis=1)
    weights = tf.cast(input_mask, tf.float32)  # [N, s]
    lengths = tf.reduce_sum(weights, axis=1, keepdims=True)
    positions = 1.0 + tf.range(tf.cast(tf.shape(hidden)[1], tf.float32))
    if mode == "weightedmean":
        weights *= positions
        lengths = tf.reduce_sum(weights, axis=1, keepdims=True)
    if mode == "lasttoken":
        weights = tf.cast(tf.equal(positions, lengths), tf.float32)
        lengths = tf.ones_like(lengths)
    if mode == "mean_sqrt_len_tokens":
        lengths = tf.sqrt(lengths)
    return tf.reduce_sum(hidden * tf.expand_dims(weights, -1), 1) / lengths


def describe(settings: Mapping) -> str:
    """Returns the entry of a model.json in words: "mean, Dense, Normalize"."""
    steps = [step["type"] for step in settings["steps"]]
    return ", ".join(["+".join(settings["pooling"]), *steps])


def from_settings(
    settings: Mapping, tensors: Mapping[str, np.ndarray], source: str
) -> SentenceEmbedding:
    """Returns the SentenceEmbedding of a model folder.

    Args:
      settings: entry of its model.json, of the kind `SETTINGS`.
      tensors: of its weight file, by name; others are ignored.
      source: the folder, for messages.

    Raises:
      ValueError: if a mode, step, activation or tensor is unknown or missing.
    """
    for mode in settings["pooling"] or [""]:
        if mode not in POOLING_MODES:
            raise ValueError(
                f"{source}: pooling {mode!r} is not one of "
                f"{', '.join(POOLING_MODES)}."
            )
    steps: list[Dense | Normalize] = []
    for i, step in enumerate(settings["steps"]):
        if step["type"] == "Normalize":
            steps.append(Normalize())
            continue
        kernel = tensors.get(f"{PREFIX}{i}/kernel")
        bias = tensors.get(f"{PREFIX}{i}/bias")
        activation = step.get("activation")
        if step["type"] != "Dense" or activation not in ACTIVATIONS:
            raise ValueError(
                f"{source}: step {i} of its sentence embedding is {step}; "
                "expected Normalize, or Dense with an activation of "
                f"{', '.join(ACTIVATIONS)}."
            )
        is_right = kernel is not None and kernel.ndim == 2
        is_right &= bool(step.get("use_bias")) == (bias is not None)
        if is_right and bias is not None:
            is_right = bias.shape == kernel.shape[1:]
        if not is_right:
            raise ValueError(
                f"{source} lacks {PREFIX}{i}/kernel [I, O] or its bias [O], or "
                f"use_bias in its model.json is wrong: step {i} of its "
                "sentence embedding is a dense layer. Copy the folder again."
            )
        steps.append(Dense(kernel, bias, activation))
    return SentenceEmbedding(tuple(settings["pooling"]), tuple(steps))
