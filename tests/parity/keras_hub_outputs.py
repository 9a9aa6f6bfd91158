"""KerasHub preset and a batch -> outputs of keras_hub."""

import keras
import keras_hub
import numpy as np
import scipy.special

from bert_tf.contrib.formats.keras_hub import preset_json

_INPUTS = {
    "token_ids": "input_word_ids",
    "segment_ids": "input_type_ids",
    "padding_mask": "input_mask",
}


def of_preset(path: str, batch: dict) -> dict[str, np.ndarray]:
    """Returns the outputs of keras_hub, by our names.

    They are those of the backbone, and of the head if it is a supported one.
    """
    inputs = {theirs: batch[ours] for theirs, ours in _INPUTS.items()}
    backbone = keras_hub.models.Backbone.from_preset(path)
    layers = {
        f"encoder_outputs_{i}": layer.output
        for i, layer in enumerate(backbone.transformer_layers)
    }
    model = keras.Model(backbone.inputs, layers | backbone.output)
    outputs = dict(model(inputs))
    head = preset_json.head(path)
    if head is not None:
        task = getattr(keras_hub.models, head).from_preset(
            path, preprocessor=None
        )
        if head == preset_json.MASKED_LM:
            positions = {"mask_positions": batch["masked_lm_positions"]}
            outputs["masked_lm_logits"] = task(inputs | positions)
        elif task.num_classes == 1:
            outputs["predictions"] = task(inputs)[:, 0]
        else:
            outputs["logits"] = task(inputs)
        if preset_json.ends_in_sigmoid(path):
            outputs["logits"] = scipy.special.logit(outputs["logits"])
    return {name: np.asarray(value) for name, value in outputs.items()}
