"""Setting of a benchmark -> a random batch, and FLOPs of its matrix products.

Shapes: B batch, S sequence, H hidden, L layers, I intermediate, V vocabulary,
P predictions, C classes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# As in the paper: 20 of 128 tokens, 58 of 384.
MASKED_LM_PROB = 0.15
NUM_CLASSES = 2
TASKS = ("pretraining", "fine_tuning")
PRECISIONS = ("float32", "bfloat16")


class Setting(NamedTuple):
    """The step that every implementation runs.

    Attributes:
      config: keys of bert_config.json.
      task: "pretraining" (both heads) or "fine_tuning" (two classes).
      is_training: True for a training step, False for a forward pass to logits.
      batch_size: rows in a batch (B).
      seq_length: tokens in a row (S).
      precision: precision of matrix products; with "bfloat16", training keeps
        float32 weights.
      learning_rate: constant; 0 for no change of weights. It is low, since
        there is no warmup and our Adam has no bias correction.
    """

    config: dict
    task: str
    is_training: bool
    batch_size: int
    seq_length: int
    precision: str
    learning_rate: float = 1e-5

    @property
    def num_predictions(self) -> int:
        """Masked tokens in a row (P)."""
        return math.ceil(MASKED_LM_PROB * self.seq_length)

    @property
    def num_tokens(self) -> int:
        """Tokens in a batch."""
        return self.batch_size * self.seq_length


class Step(NamedTuple):
    """The step of an implementation.

    Attributes:
      prepare: converts a batch of arrays for `run`. Not timed.
      run: runs a step and waits for it; returns the loss, or one number of
        the logits.
      num_parameters: trainable weights.
    """

    prepare: Callable
    run: Callable
    num_parameters: int


def random_batch(setting: Setting, seed: int = 1) -> dict[str, np.ndarray]:
    """Returns full rows of random tokens, with the features of our records."""
    rng = np.random.default_rng(seed)
    rows, length = setting.batch_size, setting.seq_length
    vocab_size = setting.config["vocab_size"]

    def ids(*shape):
        return rng.integers(0, vocab_size, shape).astype(np.int32)

    types = np.repeat([0, 1], [length // 2, length - length // 2])
    batch = {
        "input_word_ids": ids(rows, length),
        "input_mask": np.ones((rows, length), np.int32),
        "input_type_ids": np.tile(types.astype(np.int32), (rows, 1)),
        "is_real_example": np.ones(rows, np.float32),
    }
    labels = (np.arange(rows) % 2).astype(np.int32)
    if setting.task == "fine_tuning":
        return batch | {"label_ids": labels}
    count = setting.num_predictions
    positions = [rng.permutation(length)[:count] for _ in range(rows)]
    return batch | {
        "masked_lm_positions": np.sort(positions).astype(np.int32),
        "masked_lm_ids": ids(rows, count),
        "masked_lm_weights": np.ones((rows, count), np.float32),
        "next_sentence_labels": labels,
    }


def matmul_flops(setting: Setting) -> float:
    """Returns the FLOPs of a step's matrix products, 2 per multiply-add.

    The backward pass has two products for each product of the forward pass: the
    gradients of weights and of inputs. Embedding lookups are not counted.
    """
    config = setting.config
    rows, length = setting.batch_size, setting.seq_length
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    # Query, key, value, output; the two of the feed-forward layer; scores and
    # their product with the values.
    layer = 4 * hidden**2 + 2 * hidden * inner + 2 * length * hidden
    terms = config["num_hidden_layers"] * rows * length * layer
    terms += rows * hidden * (hidden + NUM_CLASSES)  # Pooler, classes.
    if setting.task == "pretraining":
        vocab_size = config["vocab_size"]
        masked = rows * setting.num_predictions
        terms += masked * hidden * (hidden + vocab_size)
    return 2.0 * terms * (3 if setting.is_training else 1)
