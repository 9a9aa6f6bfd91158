"""Number of a batch -> its records and its length, in a resumable order.

Place p of the endless stream of training examples is record
`shuffle_e(p mod N)` of epoch e = p div N, where `shuffle_e` is a permutation
of all N records keyed by seed and epoch. So batch k is known from k alone: a
restart reads no record twice, keeps no shuffle buffer, and the order is
global, not that of a window.

With static lengths (buckets), the examples of a window of batches are sorted by
length before they are cut into batches, and each batch is cut to the smallest
of the lengths that holds it. The window still has just its own examples.
"""

import functools
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfrecords import random_numbers

# Batches in a window. Of 8 to 256, 64 is where longer ones save no more than 2%
# of the tokens of SST-2, CoLA and MRPC at batches of 32.
WINDOW_BATCHES = 64


class Batch(NamedTuple):
    """What a global batch of B rows is made of.

    Attributes:
      places: [B] int64, in the endless stream; div N gives the epoch.
      indices: [B] int64, the record at each place.
      length: the static length that holds them all.
    """

    places: np.ndarray
    indices: np.ndarray
    length: int


class TrainingOrder:
    """All batches of a training run, by their numbers.

    Args:
      num_records: N.
      batch_size: B, of the global batch.
      seed: of the order.
      max_seq_length: length of a batch without `bucket_lengths`.
      lengths: [N] int, tokens of each record; needed for `bucket_lengths`.
      bucket_lengths: static lengths to cut batches to; rows that are longer
        than all of them take `max_seq_length`.
      num_batches: in the whole run. The last window ends there, so that a run
        sees the same examples with buckets and without. Batches beyond are
        those of further windows. None if the run has no end.

    Raises:
      ValueError: if a bucket length is not in [1, max_seq_length].
    """

    def __init__(
        self,
        num_records: int,
        *,
        batch_size: int,
        seed: int,
        max_seq_length: int,
        lengths: np.ndarray | None = None,
        bucket_lengths: Sequence[int] = (),
        num_batches: int | None = None,
    ):
        self.num_records = num_records
        self._batch_size = batch_size
        self._seed = seed
        self._lengths = lengths
        self._static_lengths = static_lengths(bucket_lengths, max_seq_length)
        self._end = num_batches
        # Batches are made ahead by several threads, which may be in the window
        # after; the lock is so that only one of them makes it.
        self._window = functools.lru_cache(2)(self._make_window)
        self._lock = threading.Lock()

    def batch(self, number: int) -> Batch:
        """Returns batch `number`, counted from 0."""
        begin = number // WINDOW_BATCHES * WINDOW_BATCHES
        end = begin + WINDOW_BATCHES
        if self._end is not None:
            if number < self._end:
                end = min(end, self._end)
            else:
                begin = max(begin, self._end)
        with self._lock:
            places, indices, lengths = self._window(begin, end)
        row = number - begin
        return Batch(places[row], indices[row], int(lengths[row]))

    def _make_window(self, begin, end):
        """Returns places and indices [W, B] and lengths [W] of W batches."""
        shape = (end - begin, self._batch_size)
        places = np.arange(begin * shape[1], end * shape[1])
        indices = shuffled(places, self.num_records, self._seed)
        longest = self._static_lengths[-1]
        if len(self._static_lengths) == 1:
            lengths = np.full(shape[0], longest)
            return places.reshape(shape), indices.reshape(shape), lengths
        by_length = np.argsort(self._lengths[indices], kind="stable")
        # From the shortest batch to the longest; then in random order.
        by_length = by_length.reshape(shape)[self._random_order(begin, end)]
        lengths = self._lengths[indices[by_length[:, -1]]]
        lengths = round_up(lengths, self._static_lengths)
        return places[by_length], indices[by_length], lengths

    def _random_order(self, begin, end):
        """Returns a permutation of [0, end - begin), keyed by the seed."""
        seed = np.array([self._seed], np.int64).astype(np.uint64)
        window = random_numbers.bits(seed, np.array([begin], np.uint64))[0]
        batches = np.arange(end - begin, dtype=np.uint64)
        return np.argsort(random_numbers.bits(window, batches)[0])


def static_lengths(
    bucket_lengths: Sequence[int], max_seq_length: int
) -> np.ndarray:
    """Returns [K] the lengths that batches may have, ascending.

    Raises:
      ValueError: if one is not in [1, max_seq_length].
    """
    wrong = [n for n in bucket_lengths if not 1 <= n <= max_seq_length]
    if wrong:
        raise ValueError(
            f"bucket_lengths={wrong} should be from 1 to the records' "
            f"max_seq_length {max_seq_length}."
        )
    return np.array(sorted({*bucket_lengths, max_seq_length}))


def round_up(lengths: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Returns the smallest of the ascending `allowed` that holds each."""
    return allowed[np.searchsorted(allowed, lengths)]


def shuffled(places: np.ndarray, num_records: int, seed: int) -> np.ndarray:
    """Returns [B] int64: the record at each place [B] of the endless stream."""
    epochs = places // num_records
    seeds = np.stack([0 * epochs, 0 * epochs + seed, epochs], axis=-1)  # [B, 3]
    # The op under tf.random.experimental.index_shuffle, whose wrapper pads
    # [B, 2] seeds along the wrong axis in TF 2.20 and takes 4 rounds: with
    # small seeds those leave long runs nearly in order. 16 rounds do not.
    # Outside of any graph and strategy that the caller may be in.
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.raw_ops.RandomIndexShuffle(
            index=places % num_records,
            seed=seeds,
            max_index=np.int64(num_records - 1),
            rounds=16,
        ).numpy()
