"""Tokens of texts -> their vectors, by a model whose every step is trained.

Shapes: B rows, T texts of each, S sequence, H hidden, E size of a vector.
"""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.model import encoder
from bert_tf.model.sentence_embedding import Dense, Normalize, SentenceEmbedding
from tfrecords import schema

# First texts have dropout masks of rows after those of all others.
_ROW_OF_FIRST_TEXTS = 2**32


class _Steps(keras.Layer):
    """Hidden states -> vectors: pooling, dense layers, normalizations.

    Its weights have the names of `SentenceEmbedding.tensors`.

    Args:
      pooling: see SentenceEmbedding.
      steps: its settings of the steps; those of a dense layer have `units`.
    """

    def __init__(self, pooling, steps, **kwargs):
        super().__init__(**kwargs)
        self.pooling = tuple(pooling)
        self.layers = [
            Normalize()
            if step["type"] == "Normalize"
            else keras.layers.Dense(
                step["units"],
                activation=step["activation"],
                use_bias=step["use_bias"],
                name=str(number),
                dtype="float32",
            )
            for number, step in enumerate(steps)
        ]

    def build(self, hidden_shape):
        """Makes the weights; their paths begin with the name of this layer."""
        width = hidden_shape[-1] * len(self.pooling)
        for layer in self.layers:
            if isinstance(layer, keras.Layer):
                layer.build((None, width))
                width = layer.units

    def call(self, hidden, input_mask):
        """Returns [N, E] float32 for [N, S, H] and [N, S]."""
        steps = SentenceEmbedding(self.pooling, tuple(self.layers))
        return steps(hidden, input_mask)


@keras.saving.register_keras_serializable("bert_tf")
class BertSentenceEncoder(encoder.ConfiguredModel):
    """BERT, and the steps from its hidden states to the vector of a text.

    Reimers and Gurevych 2019 (arXiv 1908.10084). Unlike those of a served
    SentenceEmbedding, its dense layers are trained with the encoder.

    Args:
      config: BertConfig.
      pooling: see SentenceEmbedding.
      steps: settings of the steps after it; those of a dense layer have
        `units`, its number of outputs.
      scale: factor of cosines in a loss.

    Attributes:
      first_lengths: length of the first text of a row, at most, with [CLS] and
        [SEP], in training and in evaluation: the rest of it is padding, which
        is not computed where it is half of the length or more. None if it is
        not known.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, T, S] int32.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      Dict of `embedding` [B, T, E] float32.
    """

    def __init__(
        self, config, pooling=("mean",), steps=(), scale=20.0, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.pooling, self.steps = tuple(pooling), [dict(x) for x in steps]
        self.scale = scale
        self.first_lengths: tuple[int | None, int | None] = (None, None)
        self.encoder = encoder.BertEncoder(
            self.config, name="encoder", dtype=self.dtype_policy
        )
        self.embed = _Steps(
            *(self.pooling, self.steps),
            name="sentence_embedding",
            dtype="float32",
        )
        self.embed.build((None, None, self.config.hidden_size))
        self.built = True  # Not `build`, after which a subclass adds no layer.

    @classmethod
    def of(
        cls, config, embedding: SentenceEmbedding, dtype=None, **kwargs
    ) -> "BertSentenceEncoder":
        """Returns a model whose steps have the weights of `embedding`."""
        steps = []
        for step in embedding.steps:
            steps.append(step.settings())
            if isinstance(step, Dense):
                steps[-1]["units"] = step.kernel.shape[1]
        embedding.check_width(config.hidden_size)
        model = cls(config, embedding.pooling, steps, dtype=dtype, **kwargs)
        for layer, step in zip(
            model.embed.layers, embedding.steps, strict=True
        ):
            if isinstance(step, Dense):
                layer.kernel.assign(step.kernel)
                if step.bias is not None:
                    layer.bias.assign(step.bias)
        return model

    def input_shapes(self):
        """Returns name -> shape of the inputs; see the base class."""
        return dict.fromkeys(super().input_shapes(), (None,) * 3)  # [B, T, S]

    def get_config(self):
        """Returns the dict for `from_config`."""
        return super().get_config() | {
            "pooling": list(self.pooling),
            "steps": self.steps,
            "scale": self.scale,
        }

    def call(self, batch, training=None, dropout_key=None):
        texts, length = batch["input_mask"].shape[1:]
        first = self.first_lengths[0 if training else 1]
        if first is None or texts in (None, 1) or 2 * first > (length or 0):
            return {"embedding": self._vectors(batch, training, dropout_key)}
        # A question has a few tokens, where its passages have hundreds.
        parts = [
            {name: batch[name][cut] for name in schema.ENCODER_INPUTS}
            for cut in (np.s_[:, :1, :first], np.s_[:, 1:])
        ]
        keys = [None, None]
        if dropout_key is not None:
            offset = tf.constant([0, 0, _ROW_OF_FIRST_TEXTS], tf.int64)
            keys = [dropout_key + offset, dropout_key]
        vectors = [
            self._vectors(part, training, key)
            for part, key in zip(parts, keys, strict=True)
        ]
        return {"embedding": tf.concat(vectors, axis=1)}

    def _vectors(self, batch, training, dropout_key):
        """Returns [B, T, E] float32."""
        rows, dropout_key, texts = encoder.flatten(batch, dropout_key)
        outputs = self.encoder(rows, training=training, dropout_key=dropout_key)
        vectors = self.embed(outputs.sequence_output, rows["input_mask"])
        return tf.reshape(vectors, [-1, texts, vectors.shape[-1]])
