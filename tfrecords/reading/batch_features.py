"""Indices of records -> features of a batch, checked and cut to its length."""

import atexit
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfrecords import schema as schema_lib
from tfrecords.io import records as records_lib

# The dimension that is cut if static lengths are given.
SEQUENCE = "max_seq_length"
# Features that hold token ids; they index the embedding table.
_TOKEN_IDS = ("input_word_ids", "masked_lm_ids")

# If no batch is read for this long, all pipelines are assumed to be full.
_QUIET_SECONDS = 0.2
_MAX_SECONDS = 10.0


class _Reads:
    """The reads in progress in threads of tf.data.

    A thread that calls Python while the interpreter shuts down waits forever,
    the iterator waits for the thread, and the process never ends: this happened
    to one in three processes that ended by an exception. So the exit waits
    until pipelines have filled their buffers and make no more calls.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._running = 0
        self._last = -_QUIET_SECONDS

    def __enter__(self):
        with self._lock:
            self._running += 1

    def __exit__(self, *_):
        with self._lock:
            self._running -= 1
            self._last = time.monotonic()

    def wait(self) -> None:
        """Returns when nothing has been read for `_QUIET_SECONDS`."""
        begin = time.monotonic()
        while (now := time.monotonic()) - begin < _MAX_SECONDS:
            with self._lock:
                if not self._running and now - self._last > _QUIET_SECONDS:
                    return
            time.sleep(_QUIET_SECONDS / 10)


# Entered while Python reads or masks records in a pipeline.
reads = _Reads()
atexit.register(reads.wait)


class Source(NamedTuple):
    """Records and how to read them; see `batches.training_batches`."""

    records: records_lib.Records
    schema: schema_lib.Schema
    sizes: schema_lib.Sizes
    vocab_size: int | None
    is_cut: bool  # Whether sequences are cut to the batch's length.
    # (rows, positions) -> rows with masks, for records without masks.
    mask: Callable | None = None
    # To read them by TensorFlow ops alone; None to read them in Python.
    streamed: Any = None  # A streaming.StreamedRecords.


def needs_masks(
    records: records_lib.Records, wanted: schema_lib.Schema
) -> bool:
    """Returns whether the wanted schema has masks that the records lack."""
    return bool(
        records.manifest
        and records.manifest.schema_name in schema_lib.MASKED_WHEN_READ
        and "masked_lm_ids" in wanted
    )


def read(
    source: Source, indices: tf.Tensor, positions: tf.Tensor, length: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Reads, parses, checks, masks if necessary, and cuts a batch.

    Args:
      source: records and how to read them.
      indices: [B] int64, indices of the records; B is static.
      positions: [B] int64, on which masks depend, see `dynamic_masking`.
      length: [] int64, the length that sequences are cut to.

    Returns:
      Dict of name to feature, including `is_real_example`.
    """
    reader = source.streamed or _PythonReader(source.records)
    serialized = reader.get(indices)
    on_disk = source.schema
    if source.mask:
        on_disk = schema_lib.SCHEMAS[source.records.manifest.schema_name]
    features = schema_lib.parse(
        serialized, on_disk, source.sizes, source.records.legacy_names
    )
    if source.vocab_size is not None:
        features = _check_ids(reader, features, indices, source.vocab_size)
    if source.mask:
        features |= _masked(source, features, positions)
    if source.is_cut:
        for name, feature in source.schema.items():
            ends = [length if n == SEQUENCE else None for n in feature.shape]
            cut = tuple(slice(end) for end in [None, *ends])
            features[name] = features[name][cut]
    features["is_real_example"] = tf.ones(
        indices.shape, schema_lib.IS_REAL_EXAMPLE.dtype
    )
    return features


class _PythonReader(NamedTuple):
    """Reads records in Python; like `StreamedRecords` otherwise."""

    records: records_lib.Records

    def get(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns the serialized examples at indices."""

        def get(indices):
            with reads:
                return np.array(self.records.get(indices), dtype=object)

        serialized = tf.numpy_function(get, [indices], tf.string)
        serialized.set_shape(indices.shape)
        return serialized

    def describe(self, index: tf.Tensor) -> tf.Tensor:
        """Returns the text of `Records.describe`."""
        return tf.numpy_function(self.records.describe, [index], tf.string)


def _masked(source, features, positions):
    """Returns the features that masking adds or changes."""
    given = list(features)
    names = [name for name in source.schema if name.startswith("masked_lm")]
    names.append("input_word_ids")

    def mask(positions, *arrays):
        with reads:
            rows = dict(zip(given, arrays, strict=True))
            masked = source.mask(rows, positions)
            return [masked[name] for name in names]

    masked = tf.numpy_function(
        mask,
        [positions, *features.values()],
        [source.schema[name].dtype for name in names],
    )
    for name, value in zip(names, masked, strict=True):
        shape = schema_lib.shape_of(source.schema[name], source.sizes)
        value.set_shape((positions.shape[0], *shape))
    return dict(zip(names, masked, strict=True))


def _check_ids(reader, features, indices, vocab_size):
    """Returns the features, with a control dependency that checks token ids."""

    def check(name, ids):
        is_wrong = (ids < 0) | (ids >= vocab_size)

        def fail():
            place = tf.where(is_wrong)[0]
            record = reader.describe(indices[place[0]])
            message = [
                *("Id ", tf.as_string(tf.gather_nd(ids, place))),
                *(f" in {name} of ", record),
                f" is not below vocab_size {vocab_size}. Use the vocabulary "
                "and the bert_config.json that the records were made for.",
            ]
            return tf.debugging.Assert(False, [tf.strings.join(message)])

        return tf.cond(tf.reduce_any(is_wrong), fail, tf.no_op)

    checks = [
        check(name, features[name]) for name in _TOKEN_IDS if name in features
    ]
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in features.items()}
