"""Batch -> dict of logits: the encoder, a BiLSTM and a head.

Section 5.1 of the paper adds the BiLSTM to a left-to-right model, to give each
token its right context. Shapes: B batch, S sequence, H hidden, U units of each
direction of the LSTM.
"""

import keras

from bert_tf.model import models
from experiments.bilstm.config import BiLSTMConfig
from experiments.bilstm.layer import BiLSTM


class _WithBiLSTM:
    """Puts a BiLSTM before the head of a fine-tuned model.

    Args:
      config: BiLSTMConfig, or a dict from its `to_dict`.
      *args: those of the model without it.
      **kwargs: the same.
    """

    def __init__(self, config, *args, **kwargs):
        if isinstance(config, dict):
            config = BiLSTMConfig.from_dict(config)
        super().__init__(config, *args, **kwargs)

    def add_head(self, layer, name: str, *sizes: int):
        """Adds the BiLSTM and the head, and builds both."""
        self.bilstm = BiLSTM(
            self.config.bilstm_units, name="bilstm", dtype=self.dtype_policy
        )
        self.bilstm.build((None, None, self.config.hidden_size))
        width = 2 * self.config.bilstm_units
        super().add_head(layer, name, *sizes, width=width)

    def head_inputs(self, batch, encoder_outputs=None, **kwargs):
        """Returns the head's inputs: tokens [B, S, 2 U], text [B, 2 U]."""
        outputs = encoder_outputs or self.encoder(batch, **kwargs)
        return self.bilstm(outputs.sequence_output, batch["input_mask"])


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMClassifier(_WithBiLSTM, models.BertClassifier):
    """BertClassifier with a BiLSTM."""


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMRegressor(_WithBiLSTM, models.BertRegressor):
    """BertRegressor with a BiLSTM."""


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMSpanPredictor(_WithBiLSTM, models.BertSpanPredictor):
    """BertSpanPredictor with a BiLSTM."""


@keras.saving.register_keras_serializable("bert_tf")
class BiLSTMTagger(_WithBiLSTM, models.BertTagger):
    """BertTagger with a BiLSTM."""


# Name of a task, as in model.json -> its model; the last ones have classes.
_MODELS = {
    "regression": BiLSTMRegressor,
    "spans": BiLSTMSpanPredictor,
}
_OF_CLASSES = {"classification": BiLSTMClassifier, "tagging": BiLSTMTagger}


def for_task(
    task: str,
    config: BiLSTMConfig,
    num_labels: int = 0,
    dtype: str | None = None,
) -> keras.Model:
    """Returns a new model of a task, see `bert_tf.model.models.for_task`.

    Raises:
      ValueError: if there is none with a BiLSTM.
    """
    if task in _OF_CLASSES:
        return _OF_CLASSES[task](config, num_labels, dtype=dtype)
    if task not in _MODELS:
        raise ValueError(
            f"No model of the task {task!r} has a BiLSTM here; those of "
            f"{', '.join((*_MODELS, *_OF_CLASSES))} have."
        )
    return _MODELS[task](config, dtype=dtype)
