"""Records -> the number of tokens of each, and suitable static lengths."""

import functools
import os
import time
import zipfile

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from tfrecords import schema as schema_lib
from tfrecords.io import atomic_files
from tfrecords.io import records as records_lib

_MASK = "input_mask"
_RECORDS_AT_ONCE = 8192
_SECONDS_WITHOUT_BAR = 3


# Cached because every evaluation needs the lengths.
@functools.lru_cache(8)
def read(records: records_lib.Records, max_seq_length: int) -> np.ndarray:
    """Returns the length of each record in tokens.

    Lengths are read from the records once, and cached in `<shard>.lengths` in
    the folder of the shards if it is writable.

    Args:
      records: the records.
      max_seq_length: positions in each record.

    Returns:
      [N] int32: position of the last token, plus one; the maximum for records
      with several sequences.

    Raises:
      ValueError: if a record is damaged.
    """
    started = time.monotonic()
    lengths, num_read = [np.zeros(0, np.int32)], 0
    with tqdm(
        total=len(records),
        desc="lengths of records",
        delay=_SECONDS_WITHOUT_BAR,
        disable=None,
    ) as bar:
        for shard, path in enumerate(records.paths):
            first, end = records.first[shard : shard + 2]
            of_shard = _load(records, shard)
            if of_shard is None:
                num_read += end - first
                numbers = np.arange(first, end)
                of_shard = _parse(records, max_seq_length, numbers, bar)
                _keep(path, of_shard, _digest(records, shard))
            else:
                bar.update(len(of_shard))
            lengths.append(of_shard)
    seconds = time.monotonic() - started
    if seconds > 5:  # Why the run did not begin at once.
        logging.info(
            "read the lengths of %d records in %.1f s", num_read, seconds
        )
    lengths = np.concatenate(lengths)
    lengths.setflags(write=False)  # The cache shares it.
    return lengths


def _parse(records, max_seq_length, indices, bar):
    features = schema_lib.ENCODER_INPUTS
    sizes = {"max_seq_length": max_seq_length}
    if records.manifest:
        features = schema_lib.SCHEMAS[records.manifest.schema_name]
        sizes = records.manifest.sizes | sizes
    features = {_MASK: features[_MASK]}
    lengths = np.zeros(len(indices), np.int32)
    for begin in range(0, len(indices), _RECORDS_AT_ONCE):
        rows = slice(begin, begin + _RECORDS_AT_ONCE)
        serialized = tf.constant(records.get(indices[rows]))
        is_token = schema_lib.parse(serialized, features, sizes)[_MASK]
        is_token = is_token.numpy() != 0  # [B, S] or [B, N, S]
        positions = np.arange(1, is_token.shape[-1] + 1)
        ends = (is_token * positions).reshape(len(is_token), -1)
        lengths[rows] = ends.max(axis=1)
        bar.update(len(is_token))
    return lengths


def _digest(records, shard):
    """Returns an identifier of a shard: its sha256, or its size and mtime."""
    if records.manifest:
        return records.manifest.shards[shard].sha256
    status = os.stat(records.paths[shard])
    return f"{status.st_size} bytes, {status.st_mtime_ns}"


def _load(records, shard):
    """Returns the cached lengths of a shard; None if there are none."""
    try:
        with np.load(f"{records.paths[shard]}.lengths") as kept:
            lengths, digest = kept["lengths"], str(kept["digest"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    first, end = records.first[shard : shard + 2]
    if digest != _digest(records, shard) or len(lengths) != end - first:
        return None
    return lengths


def _keep(path, lengths, digest):
    try:
        with atomic_files.atomic_file(f"{path}.lengths", "wb") as file:
            np.savez(file, lengths=lengths, digest=digest)
    except OSError as error:
        # In a read-only folder, lengths are read again by each process.
        logging.info("%s.lengths is not saved: %s", path, error.strerror)


def choose(
    lengths: np.ndarray,
    max_seq_length: int,
    price: float = 0.0,
    count: int = 6,
    multiple: int = 4,
) -> tuple[int, ...]:
    """Returns the static lengths that minimize the padding of records.

    Args:
      lengths: [N] tokens of each record.
      max_seq_length: the longest allowed length.
      price: tokens of padding that a further length has to save, since a step
        is compiled for each.
      count: maximum number of lengths.
      multiple: each length is a multiple of it, or `max_seq_length`.

    Returns:
      The lengths, ascending; the longest record fits into the last one.
    """
    allowed = np.arange(multiple, max_seq_length + multiple, multiple)
    allowed[-1] = max_seq_length
    allowed = allowed[: np.searchsorted(allowed, lengths.max()) + 1]
    # Number of records that fit into each length; each uses the shortest.
    fitting = np.searchsorted(np.sort(lengths), allowed, side="right")
    # cost[j]: tokens, with padding, of the records that fit into allowed[j], if
    # this and up to k shorter lengths are chosen, and the price of these;
    # before[k][j] is the next shorter length.
    cost, before = fitting * allowed, []
    between = (fitting - fitting[:, None]) * allowed  # [shorter, longer]
    is_shorter = np.tri(len(allowed), k=-1, dtype=bool).T
    for _ in range(count - 1):
        costs = np.where(is_shorter, cost[:, None] + between + price, np.inf)
        is_less = costs.min(axis=0) < cost
        before.append(np.where(is_less, costs.argmin(axis=0), -1))
        cost = np.where(is_less, costs.min(axis=0), cost)
    index = len(allowed) - 1
    chosen = [index]
    for shorter in reversed(before):
        if shorter[index] >= 0:
            index = shorter[index]
            chosen.append(index)
    return tuple(int(allowed[index]) for index in reversed(chosen))
