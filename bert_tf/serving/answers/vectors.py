"""Texts -> one vector for each.

Shapes: N texts, s length of the longest row in a batch, H hidden, K selected
layers, E size of a vector: K H, unless the model has other pooling or a dense
layer.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.serving.answers.kind import TEXT, Kind


class SentenceEmbedding(Kind):
    """The vector of a text, of any model.

    Its signature `text` returns `embedding` [N, E] float32. A folder of
    sentence-transformers says how; other models have the mean of the vectors
    of the last layer.
    """

    name = "sentence_embedding"
    title = "vectors of sentences"
    options = ("pooling", "layers")

    def set_options(self, options):
        """Sets the layers, and the steps from them to a vector.

        Raises:
          ValueError: if there is no such layer, or a dense layer does not fit.
        """
        from bert_tf.model import layer_outputs, sentence_embedding

        steps = self.model.sentence_embedding
        steps = steps or sentence_embedding.SentenceEmbedding()
        if options.pooling:
            steps = dataclasses.replace(steps, pooling=(options.pooling,))
        config = self.model.config
        given = ["-1"] if options.layers is None else options.layers
        self.layers = layer_outputs.parse(given, config.num_hidden_layers)
        steps.check_width(len(self.layers) * config.hidden_size)
        self.steps = steps

    def encode(self, text: tf.Tensor):
        """Returns the batch of texts [N] string."""
        return super().encode(text)

    def network(self, batch):
        """Returns `embedding` [N, E] float32."""
        outputs = self.model.encoder(batch, training=False)
        hidden = [outputs.encoder_outputs[i] for i in self.layers]
        hidden = tf.concat(hidden, axis=-1)  # [N, s, K H]
        return {"embedding": self.steps(hidden, batch["input_mask"])}

    def decode(self, numbers, batch):
        """Returns the same numbers."""
        return numbers

    def settings(self):
        """Returns the steps from hidden states to a vector."""
        return {self.name: self.steps.settings()}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns the vector, [E] float32."""
        return outputs["embedding"][0]

    def join(self, answers, signatures):
        """Returns the vectors, [N, E] float32."""
        if answers:
            return np.stack(answers)
        nothing = tf.constant([], tf.string)
        return signatures[TEXT](nothing)["embedding"].numpy()  # [0, E]
