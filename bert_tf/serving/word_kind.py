"""Texts or words -> outputs for each word, at its first WordPiece.

Shapes: N texts, W maximum words per text, T words in total, M windows, S
max_seq_length.
"""

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords.text import raw_words, word_windows


class WordKind(Kind):
    """Base class of kinds with outputs for each word of a text of any length.

    The signature `text` splits a text into words and returns, each [N, W],
    `words` string and `starts`, `ends` int32, in characters of the text, end
    exclusive; and what `of_words` returns. Rows with fewer than W words are
    padded with "", -1 and 0. The signature `words`, of `words` [N, W] string,
    padded with "", returns what `of_words` does.

    Windows are those of `make_ner_records`, and a word stands where its first
    WordPiece is (Devlin et al. 2018, section 5.3).
    """

    inputs = {TEXT: {"text": 1}, "words": {"words": 2}}
    expected = "a str, or a list of words that are not empty"
    options = ("doc_stride",)

    def set_options(self, options):
        """Sets `doc_stride`: that of the options or of the model, or None."""
        self.doc_stride = options.doc_stride or self.metadata.get("doc_stride")

    def token_shapes(self) -> dict[str, list[int]]:
        """Returns the outputs of `network`, and their shapes from S on."""
        raise NotImplementedError

    def of_words(self, numbers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the outputs of words, [T, ...], from those of `network`."""
        raise NotImplementedError

    def _answer(self, words: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of words [N, (words)], [T, ...] each."""
        windows = word_windows.make(
            words, self.tokenizer, self.max_seq_length, self.doc_stride
        )
        numbers = batches.in_parts(
            self.network, windows.inputs, self.token_shapes()
        )
        return self.of_words(
            {n: tf.gather_nd(x, windows.positions) for n, x in numbers.items()}
        )

    def make_signatures(self):
        """Returns `text` and `words`, see the class, and the tokenizer."""

        def of_text(text):
            split = raw_words.split(text)
            outputs = {
                name: split.words.with_flat_values(flat).to_tensor()
                for name, flat in self._answer(split.words).items()
            }
            return outputs | {
                "words": split.words.to_tensor(""),
                "starts": tf.cast(split.starts, tf.int32).to_tensor(-1),
                "ends": tf.cast(split.ends, tf.int32).to_tensor(-1),
            }

        @tf.function(
            input_signature=[tf.TensorSpec([None, None], tf.string)],
            autograph=False,
        )
        def of_words(words):
            indices = tf.where(words != "")  # [T, 2]
            shape = tf.shape(words, tf.int64)
            rows = tf.RaggedTensor.from_value_rowids(
                tf.gather_nd(words, indices), indices[:, 0], nrows=shape[0]
            )
            return {
                name: _scatter(indices, flat, shape)
                for name, flat in self._answer(rows).items()
            }

        signatures = {TEXT: batches.of_texts(of_text), "words": of_words}
        return signatures, {"tokenizer": self.tokenizer}

    @classmethod
    def fields_of(cls, value, inputs):
        """Returns `text` of a str, `words` of a list."""
        if isinstance(value, tuple | list):
            return {"words": list(value)}
        return {"text": value} if isinstance(value, str) else None

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of words."""
        if "words" in fields:
            return len(fields["words"])
        return np.count_nonzero(outputs["words"][0] != b"")


def _scatter(indices: tf.Tensor, flat: tf.Tensor, shape: tf.Tensor):
    """Returns values [T, ...] at indices [T, 2] of [N, W, ...], 0 elsewhere."""
    shape = tf.concat([shape, tf.shape(flat, tf.int64)[1:]], axis=0)
    if flat.dtype != tf.string:
        return tf.scatter_nd(indices, flat, shape)
    return tf.tensor_scatter_nd_update(tf.fill(shape, ""), indices, flat)
