"""Texts or words -> one vector for each word, of any model.

Shapes: N texts, W maximum words per text, M windows, S max_seq_length, T words
in total, H hidden, K selected layers, E = K H.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving.answers.kind import columns_to_records
from bert_tf.serving.word_kind import WordKind

# JSON key -> output of the signature `text`, for a word.
_WORD = {"word": "words", "start": "starts", "end": "ends", "vector": "vectors"}


class Word(NamedTuple):
    """A word of a text, and its characters, end exclusive; or its number."""

    word: str
    start: int
    end: int


class WordVectors(NamedTuple):
    """The words of a text, and their vectors [W, E] float32."""

    words: tuple[Word, ...]
    vectors: np.ndarray


class TokenVectors(WordKind):
    """A vector for each word: contextual features, as in section 5.3.

    Its signatures `text` and `words` return `vectors` [N, W, E] float32, 0 at
    padding; see `WordKind`. They are the hidden states of the last layer, or
    those of `--layers`, concatenated.
    """

    name = "token_vectors"
    options = (*WordKind.options, "layers")
    signature_outputs = ("vectors",)
    record_outputs = tuple(_WORD.values())

    def set_options(self, options):
        """Sets `doc_stride` and the layers.

        Raises:
          ValueError: if there is no such layer.
        """
        from bert_tf.model import layer_outputs

        super().set_options(options)
        self.layers = layer_outputs.parse(
            ["-1"] if options.layers is None else options.layers,
            self.model.config.num_hidden_layers,
        )

    def network(self, batch):
        """Returns `vectors` [M, S, E] float32."""
        outputs = self.model.encoder(batch, training=False)
        hidden = [outputs.encoder_outputs[i] for i in self.layers]
        return {"vectors": tf.cast(tf.concat(hidden, axis=-1), tf.float32)}

    def token_shapes(self):
        """Returns the shape of the vectors."""
        size = len(self.layers) * self.model.config.hidden_size
        return {"vectors": [self.max_seq_length, size]}

    def of_words(self, numbers):
        """Returns the same vectors, [T, E]."""
        return numbers

    @classmethod
    def records(cls, fields, outputs, names):
        """Returns `words`, an object for each."""
        return {"words": columns_to_records(outputs, _WORD)}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns WordVectors; places of given words are among the words."""
        if words := fields.get("words"):
            found = [Word(word, i, i + 1) for i, word in enumerate(words)]
        else:
            named = columns_to_records(
                {n: x for n, x in outputs.items() if n != "vectors"},
                {key: _WORD[key] for key in Word._fields},
            )
            found = [Word(**x) for x in named]
        return WordVectors(tuple(found), outputs["vectors"][0])
