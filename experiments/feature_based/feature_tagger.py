"""Hidden states of words -> logits of tags: BERT as a feature extractor.

Devlin et al. 2018, section 5.3 and table 7: the encoder is frozen; a two-layer
BiLSTM and a classification layer are trained on its hidden states. Shapes:
B batch, W words, N chosen layers, H hidden, U units of each LSTM direction,
C classes.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.model import encoder, heads
from experiments.bilstm.layer import BiLSTM

# "A randomly initialized two-layer 768-dimensional BiLSTM".
_NUM_BILSTMS = 2


class Choice(NamedTuple):
    """A row of table 7.

    Attributes:
      layers: slice of the layers 0 (the embeddings) to L.
      is_sum: whether they are summed with learned weights; otherwise they
        are concatenated.
      paper_f1: dev F1 of BERT-base in the paper.
    """

    layers: slice
    is_sum: bool
    paper_f1: float


CHOICES: dict[str, Choice] = {
    "embeddings": Choice(slice(0, 1), False, 91.0),
    "second_to_last": Choice(slice(-2, -1), False, 95.6),
    "last": Choice(slice(-1, None), False, 94.9),
    "weighted_sum_last_four": Choice(slice(-4, None), True, 95.9),
    "concat_last_four": Choice(slice(-4, None), False, 96.1),
    "weighted_sum_all": Choice(slice(1, None), True, 95.5),
}


def resolve_layers(choice: str, num_hidden_layers: int) -> list[int]:
    """Returns the layers of a choice, for an encoder of L layers.

    Raises:
      ValueError: if the choice is unknown, or the encoder has too few layers.
    """
    if choice not in CHOICES:
        raise ValueError(
            f"feature_layers={choice!r} is not one of {', '.join(CHOICES)}."
        )
    layers = list(range(num_hidden_layers + 1))[CHOICES[choice].layers]
    if choice != "embeddings" and layers[0] < 1:
        raise ValueError(
            f"feature_layers={choice!r} needs more layers than the "
            f"{num_hidden_layers} of this encoder. Use another choice, or a "
            "larger model."
        )
    return layers


class WeightedSum(keras.layers.Layer):
    """Sum of layers with learned weights, as in ELMo (Peters et al. 2018).

    Args:
      num_layers: N.

    Call arguments:
      features: [B, W, N, H] float.

    Returns:
      [B, W, H] float32: a learned scale times the sum with softmax weights.
      With the initial weights it is the mean.
    """

    def __init__(self, num_layers: int, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers

    def build(self, features_shape=None):
        # Named "bias" and "gamma" to exclude them from weight decay, which
        # would pull the weights towards a mean and the scale towards 0.
        self.weight_logits = self.add_weight(
            name="bias", shape=(self.num_layers,), initializer="zeros"
        )
        self.scale = self.add_weight(name="gamma", shape=(), initializer="ones")

    def call(self, features):
        weights = tf.nn.softmax(self.weight_logits.value)  # [N]
        summed = tf.einsum("bwnh,n->bwh", features, weights)
        return self.scale.value * summed


@keras.saving.register_keras_serializable("bert_tf")
class FeatureTagger(encoder.ConfiguredModel):
    """Tags words, given hidden states of a frozen encoder.

    Args:
      config: BertConfig of the encoder.
      num_classes: C.
      choice: a key of `CHOICES`.
      lstm_units: U.

    Call arguments:
      batch: dict of `word_features` [B, W, N, H] float32 and `input_mask`
        [B, W] int32.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      `logits` [B, W, C] float32.

    Raises:
      ValueError: as in `resolve_layers`, or if `num_classes` is below 2.
    """

    def __init__(
        self,
        config,
        num_classes: int,
        choice: str = "concat_last_four",
        lstm_units: int = 768,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        if num_classes < 2:
            raise ValueError(
                f"num_classes={num_classes}; a tagger needs 2 or more."
            )
        self.num_classes = num_classes
        self.choice = choice
        self.lstm_units = lstm_units
        num_layers = len(resolve_layers(choice, self.config.num_hidden_layers))
        self.weighted_sum, self.width = None, self.config.hidden_size
        if CHOICES[choice].is_sum:
            self.weighted_sum = WeightedSum(num_layers, name="weighted_sum")
        else:
            self.width *= num_layers
        self.bilstms = [
            BiLSTM(lstm_units, name=f"bilstm_{i}") for i in range(_NUM_BILSTMS)
        ]
        self.tagging = heads.TaggingHead(
            self.config, num_classes, name="tagging"
        )
        if self.weighted_sum:
            self.weighted_sum.build()
        width = self.width
        for layer in self.bilstms:
            layer.build((None, None, width))
            width = 2 * self.lstm_units
        self.tagging.build((None, None, width))
        self.build()

    def __call__(self, *args, **kwargs):
        """Calls the model, as in Keras: its inputs are no token ids."""
        return keras.Model.__call__(self, *args, **kwargs)

    def input_shapes(self):
        """Returns name -> shape of the inputs; see the base class."""
        layers = resolve_layers(self.choice, self.config.num_hidden_layers)
        shape = (None, None, len(layers), self.config.hidden_size)
        return {"word_features": shape, "input_mask": shape[:2]}

    def call(self, batch, training=None, dropout_key=None):
        features = batch["word_features"]
        if self.weighted_sum:
            hidden = self.weighted_sum(features)  # [B, W, H]
        else:
            batch_size, num_words = tf.unstack(tf.shape(features)[:2])
            shape = [batch_size, num_words, self.width]
            hidden = tf.reshape(features, shape)  # [B, W, N H]
        for layer in self.bilstms:
            hidden, _ = layer(hidden, batch["input_mask"])  # [B, W, 2 U]
        logits = self.tagging(
            hidden, training=training, dropout_key=dropout_key
        )
        return {"logits": logits}

    def get_config(self):
        """Returns the dict for `from_config`."""
        return super().get_config() | {
            "num_classes": self.num_classes,
            "choice": self.choice,
            "lstm_units": self.lstm_units,
        }
