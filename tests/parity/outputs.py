"""Checkpoint -> a fixed batch, our outputs for it, and their differences.

Shapes: B batch, S sequence, H hidden, P predictions, L layers.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents, model_folders

Outputs = Mapping[str, np.ndarray]

# Output -> weights that it depends on; without them it is meaningless.
_NEEDS = {
    "pooled_output": ("encoder/pooler/",),
    "next_sentence_logits": ("encoder/pooler/", "next_sentence/"),
    "masked_lm_logits": ("masked_lm/",),
}


def batch(config: bert_config.BertConfig, task: str) -> dict[str, np.ndarray]:
    """Returns a fixed batch with padding and two segments.

    Returns:
      `input_word_ids`, `input_mask` and `input_type_ids`, int32 [4, S], or
      [2, 2, S] for multiple choice; S is 16 or `max_position_embeddings`,
      whichever is less. For pre-training also `masked_lm_positions`, int32
      [4, P].
    """
    tokens = min(16, config.max_position_embeddings)
    lengths = np.array([tokens, tokens - tokens // 4, (tokens + 1) // 2, 1])
    mask = np.arange(tokens) < lengths[:, None]  # [4, S]
    # A multiple of the prime 7919 spreads neighbours over the vocabulary.
    words = (1 + 7919 * np.arange(4 * tokens)) % config.vocab_size
    types = np.arange(tokens) >= lengths[:, None] // 2
    inputs = {
        "input_word_ids": words.reshape(4, tokens) * mask,
        "input_mask": mask,
        "input_type_ids": types * mask * (config.type_vocab_size > 1),
    }
    if task == "multiple_choice":
        inputs = {n: x.reshape(2, 2, tokens) for n, x in inputs.items()}
    if task == "pretraining":
        inputs["masked_lm_positions"] = np.stack([0 * lengths, lengths - 1], 1)
    return {name: x.astype(np.int32) for name, x in inputs.items()}


def outputs(checkpoint: contents.Contents, inputs) -> Outputs:
    """Returns the outputs of our model for a `batch`.

    Outputs that depend on a weight missing in the checkpoint are left out.

    Returns:
      `encoder_outputs_0` and so on, `sequence_output` [B, S, H],
      `pooled_output` [B, H], and the outputs of the task's model. For multiple
      choice each choice is a row of B.
    """
    model = model_folders.build_model(checkpoint)
    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    rows = {
        name: tf.reshape(x, [-1, x.shape[-1]]) for name, x in inputs.items()
    }
    encoded = model.encoder(rows)
    values = {
        f"encoder_outputs_{i}": layer
        for i, layer in enumerate(encoded.encoder_outputs)
    }
    values["sequence_output"] = encoded.sequence_output
    values["pooled_output"] = encoded.pooled_output
    values |= model(inputs)
    missing = checkpoint.missing()
    return {
        name: np.asarray(value)
        for name, value in values.items()
        if not any(x.startswith(_NEEDS.get(name, ())) for x in missing)
    }


def differences(ours: Outputs, theirs: Outputs) -> dict[str, float]:
    """Returns the largest absolute difference of each output present in both.

    Raises:
      ValueError: if the shapes of an output differ.
    """
    for name in set(ours) & set(theirs):
        if ours[name].shape != theirs[name].shape:
            raise ValueError(
                f"{name} has shape {ours[name].shape} here and "
                f"{theirs[name].shape} in the other implementation; the "
                "converted model is a different one."
            )
    return {
        name: float(np.max(np.abs(ours[name] - theirs[name])))
        for name in ours
        if name in theirs
    }
