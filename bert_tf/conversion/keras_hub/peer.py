"""KerasHub preset, a batch -> what keras_hub itself computes from them.

It needs keras_hub; nothing else imports this module.
"""

import keras
import keras_hub
import numpy as np

from bert_tf.conversion.keras_hub import metadata as keras_hub_papers

# Theirs -> ours.
_INPUTS = {
    "token_ids": "input_word_ids",
    "segment_ids": "input_type_ids",
    "padding_mask": "input_mask",
}


def layer_outputs(backbone: keras_hub.models.Backbone) -> keras.Model:
    """Returns a model of the same inputs that gives every layer's output."""
    found = {
        f"encoder_outputs_{i}": layer.output
        for i, layer in enumerate(backbone.transformer_layers)
    }
    return keras.Model(backbone.inputs, found | backbone.output)


def outputs(path: str, batch: dict) -> dict[str, np.ndarray]:
    """Returns what the backbone computes, and a head that is there.

    Args:
      path: folder of a preset.
      batch: from `parity.batch`.
    """
    inputs = {theirs: batch[ours] for theirs, ours in _INPUTS.items()}
    backbone = keras_hub.models.Backbone.from_preset(path)
    values = dict(layer_outputs(backbone)(inputs))
    head = keras_hub_papers.head(path)
    if head is not None:
        task = getattr(keras_hub.models, head).from_preset(
            path, preprocessor=None
        )
        if head == keras_hub_papers.MASKED_LM:
            positions = {"mask_positions": batch["masked_lm_positions"]}
            values["masked_lm_logits"] = task(inputs | positions)
        elif task.num_classes == 1:
            values["predictions"] = task(inputs)[:, 0]
        else:
            values["logits"] = task(inputs)
    return {name: np.asarray(value) for name, value in values.items()}
