"""Encoder inputs -> hidden states of chosen layers.

Shapes: B batch, S sequence, H hidden, L layers, N chosen layers. Layer 0 is
the embeddings; layer L is the last one, `sequence_output`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf.model import encoder as encoder_lib


def parse(words: Sequence[str], num_hidden_layers: int) -> list[int]:
    """Parses layers such as "-1" to indices of `encoder_outputs`.

    As in extract_features.py: 0 and -L are the first layer after the
    embeddings, L - 1 and -1 the last.

    Args:
      words: numbers of layers.
      num_hidden_layers: L.

    Raises:
      ValueError: if a value is not the index of a layer, or `words` is empty.
    """
    numbers = [str(i) for i in range(-num_hidden_layers, num_hidden_layers)]
    for word in words:
        if word.strip() not in numbers:
            raise ValueError(
                f"layers has {word!r}; expected integers from {numbers[0]} "
                f"to {numbers[-1]}, such as -1,-2. -1 is the last layer."
            )
    if not words:
        raise ValueError("layers is empty; -1 is the last layer.")
    return [int(word) for word in words]


def make_step(
    encoder: encoder_lib.BertEncoder, layers: Sequence[int]
) -> Callable[[Mapping[str, tf.Tensor]], tf.Tensor]:
    """Returns a tf.function: batch -> hidden states [B, S, N, H] float32.

    Args:
      encoder: encoder with weights loaded; it runs without dropout.
      layers: N numbers from 0 to L.

    Raises:
      ValueError: if `layers` is empty or has a number out of range.
    """
    num_layers = encoder.config.num_hidden_layers
    if not layers or not all(0 <= i <= num_layers for i in layers):
        raise ValueError(
            f"Layers {list(layers)}: expected one or more numbers from 0, the "
            f"embeddings, to {num_layers}, the last layer."
        )

    @tf.function(autograph=False)
    def step(batch):
        hidden = encoder(batch, training=False).hidden_states
        return tf.stack(
            [tf.cast(hidden[i], tf.float32) for i in layers], axis=2
        )

    return step


def run_in_order(
    step: Callable[[Mapping[str, tf.Tensor]], tf.Tensor],
    inputs: Mapping[str, np.ndarray],
    batch_size: int,
    lengths: Sequence[int],
) -> list[np.ndarray]:
    """Returns [tokens, N, H] for each row, in input order, without padding.

    Rows are batched by length, and each batch is truncated to the smallest of
    `lengths` that fits.

    Args:
      step: from `make_step`.
      inputs: `schema.ENCODER_INPUTS`, [rows, S].
      batch_size: rows per batch; the last one is filled with repeated rows.
      lengths: static lengths, ascending; the last is S. Each is traced once.
    """
    used = inputs["input_mask"].sum(axis=1)
    order = np.argsort(-used, kind="stable")
    outputs: dict[int, np.ndarray] = {}
    for begin in range(0, len(order), batch_size):
        rows = order[begin : begin + batch_size]
        length = next(n for n in lengths if n >= used[rows[0]])
        filled = np.resize(rows, batch_size)
        batch = {
            name: tf.constant(values[filled, :length])
            for name, values in inputs.items()
        }
        # Not strict: the last batch is filled with repeated rows.
        for row, values in zip(rows, step(batch).numpy(), strict=False):
            outputs[row] = values[: used[row]]
    return [outputs[row] for row in range(len(order))]


def static_lengths(max_seq_length: int) -> list[int]:
    """Returns 16, 32, 64 ... and `max_seq_length`."""
    lengths = [16 << i for i in range(16) if 16 << i < max_seq_length]
    return [*lengths, max_seq_length]
