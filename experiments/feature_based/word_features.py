"""Hidden states of words from a file -> batches of sentences.

Shapes: T words of all sentences, N layers, H hidden, B batch, W static length
of a batch, in words.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfrecords import schema
from tfrecords.reading import (
    batch_features,
    batch_order,
    batches,
    static_lengths,
)

_WORDS = ("num_words",)
BATCH: schema.Schema = {
    "word_features": schema.Feature(
        (*_WORDS, "num_layers", "hidden_size"),
        schema.FLOAT32,
        "Hidden states of each word's first piece.",
    ),
    "input_mask": schema.Feature(_WORDS, schema.INT32, "1 word, 0 padding."),
    "tag_ids": schema.Feature(_WORDS, schema.INT32, "Tags."),
    "tag_weights": schema.Feature(_WORDS, schema.FLOAT32, "1 word, 0 padding."),
}


class Sentences:
    """Sentences of words with features and tags.

    Args:
      features: [T, N', H] float, such as `np.load(..., mmap_mode="r")`: only
        the sentences of a batch are read.
      layers: indices in N' of the N layers to read.
      lengths: number of words of each sentence, in order.
      tag_ids: [T] int32.

    Attributes:
      lengths: [sentences] int64.
      static_lengths: lengths of batches, at most four: a step is compiled for
        each.

    Raises:
      ValueError: if features, lengths and tags differ in the number of words.
    """

    def __init__(
        self,
        features: np.ndarray,
        layers: Sequence[int],
        lengths: Sequence[int],
        tag_ids: np.ndarray,
    ):
        self.lengths = np.asarray(lengths, np.int64)
        self._ends = np.cumsum(self.lengths)
        self._features = features
        self._layers = list(layers)
        self._tag_ids = tag_ids
        if not len(features) == len(tag_ids) == self._ends[-1]:
            raise ValueError(
                f"{len(features)} words have features and {len(tag_ids)} tags, "
                f"but the sentences have {self._ends[-1]} words. Delete the "
                "file of features, so that it is made again."
            )
        self.static_lengths = static_lengths.choose(
            self.lengths, int(-(-self.lengths.max() // 4) * 4), count=4
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def mask(self) -> np.ndarray:
        """[sentences, longest] float32: 1 word, 0 padding."""
        positions = np.arange(self.static_lengths[-1])
        return (positions < self.lengths[:, None]).astype(np.float32)

    def read(self, indices: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
        """Returns the features of sentences, in the order of `BATCH`."""
        with batch_features.reads:
            return self._read(indices, length)

    def _read(self, indices, length):
        _, width = self._features.shape[1:]
        shape = (len(indices), int(length))
        values = np.zeros((*shape, len(self._layers), width), np.float32)
        mask = np.zeros(shape, np.int32)
        tag_ids = np.zeros(shape, np.int32)
        for row, index in enumerate(indices):
            end, words = self._ends[index], self.lengths[index]
            rows = slice(end - words, end)
            values[row, :words] = self._features[rows][:, self._layers]
            tag_ids[row, :words] = self._tag_ids[rows]
            mask[row, :words] = 1
        return values, mask, tag_ids, mask.astype(np.float32)

    def training_batches(
        self,
        start_batch: int,
        *,
        batch_size: int,
        seed: int,
        num_batches: int,
        replicas: int = 1,
        first_replica: int = 0,
        local_replicas: int = 1,
    ) -> tf.data.Dataset:
        """Returns endless batches; see `batches.training_batches`."""
        order = batch_order.TrainingOrder(
            len(self),
            batch_size=batch_size,
            seed=seed,
            max_seq_length=self.static_lengths[-1],
            lengths=self.lengths,
            bucket_lengths=self.static_lengths,
            num_batches=num_batches,
        )
        types = [feature.dtype for feature in BATCH.values()]
        rows, width = batch_size // replicas, self._features.shape[2]

        def batch(part):
            values = tf.numpy_function(
                self.read, [part.indices, part.length], types
            )
            features = dict(zip(BATCH, values, strict=True))
            for name, value in features.items():
                value.set_shape([rows] + [None] * len(BATCH[name].shape))
            features["word_features"].set_shape(
                [rows, None, len(self._layers), width]
            )
            return features | {"is_real_example": tf.ones([rows])}

        return batches.pipeline(
            order.parts(start_batch, replicas, first_replica, local_replicas),
            batch,
        )

    def evaluation_batches(
        self, batch_size: int, **replicas: int
    ) -> Iterator[dict[str, tf.Tensor]]:
        """Yields every sentence once, the longest first, with `example_index`.

        The last batch is filled with sentences whose `is_real_example` is 0. No
        batch has more rows than there are sentences.

        Args:
          batch_size: sentences in a batch.
          **replicas: `replicas`, `first_replica` and `local_replicas`, see
            `batch_order.evaluation_parts`.
        """
        parts = batch_order.evaluation_parts(
            len(self),
            batch_size=batch_size,
            max_seq_length=self.static_lengths[-1],
            lengths=self.lengths,
            bucket_lengths=self.static_lengths,
            **replicas,
        )
        for indices, length, is_real in zip(*parts, strict=True):
            values = self.read(indices, int(length))
            yield {
                name: tf.constant(value)
                for name, value in zip(BATCH, values, strict=True)
            } | {
                "is_real_example": tf.constant(is_real, tf.float32),
                "example_index": tf.constant(indices, tf.int32),
            }
