"""Number of a batch -> its records and its length, in a resumable order.

Position p of the endless stream of training examples is record
`shuffle_e(p mod N)` of epoch e = p div N, where `shuffle_e` is a permutation
of all N records keyed by seed and epoch. So batch k depends only on k: a
restart reads no record twice, there is no shuffle buffer, and the shuffle is
global, not limited to a window.

With static lengths (buckets), the examples of a window of batches are sorted by
length before they are split into batches, and each batch is cut to the smallest
static length that fits. A window contains the same examples as without buckets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Batches in a window, at most. With a batch size of 32, a window of 256 saves 1
# to 3% of the tokens of SST-2, CoLA and MRPC; a window of 16 adds 3 to 10%.
_WINDOW_BATCHES = 64
# Windows in an epoch, at least. In a window of several epochs the copies of a
# record have the same length, so they would share a batch: of 64 records, all
# rows of a batch of 16 could be the same one.
_WINDOWS_PER_EPOCH = 4


class Batch(NamedTuple):
    """The records of a global batch of B rows, and its length."""

    positions: tf.Tensor  # [B] int64, in the endless stream.
    indices: tf.Tensor  # [B] int64, the record at each position.
    length: tf.Tensor  # [] int64, the smallest static length that fits.


class TrainingOrder:
    """All batches of a training run, by number.

    Args:
      num_records: N.
      batch_size: B, size of the global batch.
      seed: seed of the order.
      max_seq_length: length of a batch without `bucket_lengths`.
      lengths: [N] int, tokens of each record; required for `bucket_lengths`.
      bucket_lengths: static lengths to cut batches to; a batch that is longer
        than all of them has length `max_seq_length`.
      num_batches: number of batches in the complete run. The last window ends
        there, so that a run sees the same examples with buckets and without.
        The dataset goes on with windows of batches that no step uses. None if
        the run has no end.

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
        if lengths is not None:
            with tf.device("CPU:0"):
                self._lengths = tf.constant(lengths)
        self._static_lengths = static_lengths(bucket_lengths, max_seq_length)
        self._has_buckets = len(self._static_lengths) > 1
        # Without buckets, a batch does not depend on others.
        self._size = 1
        if self._has_buckets:
            self._size = _choose_window(num_records, batch_size)
        # More batches than any run has.
        self._end = 1 << 40 if num_batches is None else num_batches

    def dataset(self, start_batch: int) -> tf.data.Dataset:
        """Returns the `Batch`es from number `start_batch` on."""
        window, row = divmod(start_batch, self._size)
        # AutoGraph would leave files in TMPDIR after a kill.
        windows = tf.data.Dataset.counter(window).map(
            tf.autograph.experimental.do_not_convert(self._window),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return windows.unbatch().skip(row)

    def parts(
        self,
        start_batch: int,
        replicas: int,
        first_replica: int,
        local_replicas: int,
    ) -> tf.data.Dataset:
        """Returns the rows of each replica of this process, each a `Batch`.

        Replica r of R has rows [r B / R, (r + 1) B / R) of each batch.
        """
        local = slice(first_replica, first_replica + local_replicas)
        shape = [replicas, self._batch_size // replicas]

        @tf.autograph.experimental.do_not_convert
        def split(batch):
            positions, indices = (
                tf.reshape(numbers, shape)[local]
                for numbers in (batch.positions, batch.indices)
            )
            lengths = tf.fill([local_replicas], batch.length)
            return Batch(positions, indices, lengths)

        return self.dataset(start_batch).map(split).unbatch()

    def batch(self, number: int) -> Batch:
        """Returns batch `number`, counted from 0."""
        window, row = divmod(number, self._size)
        return Batch(*(part[row] for part in self._window(np.int64(window))))

    def _bounds(self, window):
        """Returns the numbers of a window's first batch and of the next's."""
        begin = window * self._size
        end = begin + self._size
        return begin, tf.where(
            begin < self._end, tf.minimum(end, self._end), end
        )

    def _window(self, window):
        """Returns the batches of a window, [W, B], [W, B] and [W]."""
        begin, end = self._bounds(window)
        positions = tf.range(begin * self._batch_size, end * self._batch_size)
        indices = shuffled(positions, self.num_records, self._seed)
        shape = [-1, self._batch_size]
        if not self._has_buckets:
            lengths = tf.fill([end - begin], self._static_lengths[-1])
            positions, indices = (
                tf.reshape(x, shape) for x in (positions, indices)
            )
            return Batch(positions, indices, lengths)
        lengths = tf.gather(self._lengths, indices)
        by_length = tf.argsort(lengths, stable=True)
        # Sorted from the shortest batch to the longest; then shuffled.
        by_length = tf.reshape(by_length, shape)
        keys = tf.random.stateless_uniform(
            [end - begin],
            tf.stack([np.int64(self._seed), begin]),
            minval=None,
            maxval=None,
            dtype=tf.int64,
            alg="philox",
        )
        by_length = tf.gather(by_length, tf.argsort(keys, stable=True))
        lengths = tf.gather(lengths, by_length[:, -1])
        which = tf.searchsorted(
            self._static_lengths, tf.cast(lengths, tf.int64)
        )
        lengths = tf.gather(self._static_lengths, which)
        return Batch(
            tf.gather(positions, by_length),
            tf.gather(indices, by_length),
            lengths,
        )


def _choose_window(num_records: int, batch_size: int) -> int:
    """Returns the number of batches that are sorted by length together."""
    part = num_records // (_WINDOWS_PER_EPOCH * batch_size)
    return min(max(part, 1), _WINDOW_BATCHES)


class EvaluationParts(NamedTuple):
    """The evaluation batches of a process, n batches of B rows."""

    indices: np.ndarray  # [n, B] int64, records; a filled-up row repeats one.
    lengths: np.ndarray  # [n] int64, static lengths.
    is_real: np.ndarray  # [n, B] bool, False in rows that fill up a batch.


def evaluation_parts(
    num_records: int,
    *,
    batch_size: int,
    max_seq_length: int,
    lengths: np.ndarray | None = None,
    bucket_lengths: Sequence[int] = (),
    num_batches: int | None = None,
    replicas: int = 1,
    first_replica: int = 0,
    local_replicas: int = 1,
) -> EvaluationParts:
    """Returns batches with every record once: in order, or the longest first.

    Replica r of R has batches r, r + R, r + 2 R ... The batches that replicas
    have at the same time have the same length: where a length has no batch left
    for a replica, it gets one without real rows. So a record is in a batch of
    the same records for any number of replicas.

    Args:
      num_records: N.
      batch_size: B; at most N rows are used.
      max_seq_length: length of a batch without `bucket_lengths`.
      lengths: [N] int, tokens of each record; required for `bucket_lengths`.
      bucket_lengths: static lengths. If given, the longest records come first.
      num_batches: number of batches to return, of all replicas and without
        those that have no real rows; None for all.
      replicas: number of replicas, over all processes (R).
      first_replica: index of this process's first replica.
      local_replicas: number of replicas of this process. The result has their
        batches in turn.

    Raises:
      ValueError: if a bucket length is not in [1, max_seq_length].
    """
    static = static_lengths(bucket_lengths, max_seq_length)
    records = np.arange(num_records)
    if bucket_lengths:
        records = np.argsort(-lengths, kind="stable")
    batch_size = min(batch_size, num_records)
    count = -(-num_records // batch_size)
    positions = np.arange(count * batch_size).reshape(count, -1)[:num_batches]
    is_real = positions < num_records
    indices = records[np.where(is_real, positions, positions[:, :1])]
    of_batches = np.full(len(indices), static[-1])
    if bucket_lengths:
        longest = lengths[indices[:, 0]]
        of_batches = static[np.searchsorted(static, longest)]
    numbers = _in_full_groups(of_batches, replicas)
    is_real = is_real[numbers]
    # A repeated batch only fills up the replicas of a step.
    is_real[1:] &= (numbers[1:] != numbers[:-1])[:, None]
    replica = np.arange(len(numbers)) % replicas
    last = first_replica + local_replicas
    own = (replica >= first_replica) & (replica < last)
    numbers, is_real = numbers[own], is_real[own]
    return EvaluationParts(indices[numbers], of_batches[numbers], is_real)


def _in_full_groups(lengths: np.ndarray, replicas: int) -> np.ndarray:
    """Returns numbers of batches; for each length a multiple of the replicas.

    The last batch of a length is repeated to fill up.
    """
    numbers = np.arange(len(lengths))
    groups = np.split(numbers, np.flatnonzero(np.diff(lengths)) + 1)
    return np.concatenate(
        [np.pad(g, (0, -len(g) % replicas), mode="edge") for g in groups]
    )


def static_lengths(
    bucket_lengths: Sequence[int], max_seq_length: int
) -> np.ndarray:
    """Returns [K] the allowed lengths of batches, ascending.

    Raises:
      ValueError: if a length is not in [1, max_seq_length].
    """
    wrong = [n for n in bucket_lengths if not 1 <= n <= max_seq_length]
    if wrong:
        raise ValueError(
            f"bucket_lengths={wrong} should be from 1 to the records' "
            f"max_seq_length {max_seq_length}."
        )
    return np.array(sorted({*bucket_lengths, max_seq_length}), np.int64)


def shuffled(positions: tf.Tensor, num_records: int, seed: int) -> tf.Tensor:
    """Returns [B] int64: the records at positions [B] of the endless stream."""
    epochs = positions // num_records
    zeros = tf.zeros_like(epochs)
    seeds = tf.stack([zeros, zeros + np.int64(seed), epochs], axis=-1)  # [B, 3]

    def shuffle(indices, last):
        # The op of tf.random.experimental.index_shuffle, whose wrapper pads
        # [B, 2] seeds along the wrong axis in TF 2.20 and uses 4 rounds: with
        # small seeds these leave long runs nearly in order. 16 rounds do not.
        return tf.raw_ops.RandomIndexShuffle(
            index=indices, seed=seeds, max_index=np.int64(last), rounds=16
        )

    indices = positions % num_records
    last = num_records - 1
    if last < 2**16 or last & (last - 1) or last.bit_length() % 2 == 0:
        return shuffle(indices, last)
    # The op uses log2(last) bits, too few if `last` is a power of 4: one record
    # would occur twice and another never. So one more index is shuffled, and
    # where it appears it is replaced by the index it is shuffled to.
    shuffled_indices = shuffle(indices, num_records)
    instead = shuffle(
        tf.fill(tf.shape(indices), np.int64(num_records)), num_records
    )
    is_extra = shuffled_indices == num_records
    return tf.where(is_extra, instead, shuffled_indices)
