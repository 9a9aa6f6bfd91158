"""Indices of records -> serialized examples, by TensorFlow ops alone.

A pipeline without Python can run in another process, such as the hosts of a
TPU. The bytes are those of `Records.get`.
"""

import tensorflow as tf

from tfrecords.io import records as records_lib
from tfrecords.io import shards, stored_folders

# Records that are read by one function of the graph: it has some ops for each.
# A dataset function called for each record would take 30 us more per record.
_UNROLLED = 128
# Holds most records, so that each takes one read of its file and not two.
_BUFFER_BYTES = 4096


class StreamedRecords:
    """Records that are read by ops; has 8 bytes for each in memory.

    Must be created in the device scope of the pipeline: for another process it
    reads the files of a store there, not the copies of this machine.

    Args:
      records: the records.
    """

    def __init__(self, records: records_lib.Records):
        # Captured by the pipeline; in its graph they would be constants.
        with tf.device("CPU:0"):
            self._first = tf.constant(records.first)  # [shards + 1]
            # [records + shards]: each shard has one more, its end.
            self._offsets = tf.constant(records.offsets)
            paths = records.paths
            if not _is_of_this_process(self._first):
                paths = list(map(stored_folders.address, paths))
            self._paths = tf.constant(paths)

    def get(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns [B] string: the serialized examples at [B] int64 indices.

        B is static. As in `Records.get`, a record is the one at its offset, of
        its length, with the right checksums.

        Raises:
          tf.errors.InvalidArgumentError: in the graph, naming the first record
            that cannot be read.
        """
        rows = indices.shape[0]
        num_parts = -(-rows // _UNROLLED)
        size = -(-rows // num_parts)
        missing = num_parts * size - rows  # Less than num_parts.
        indices = tf.concat([indices, indices[:missing]], 0)
        serialized = self._read(tf.reshape(indices, [num_parts, size]))
        serialized = tf.cond(
            tf.reduce_all(self._is_intact(serialized, indices)),
            lambda: serialized,
            lambda: self._read_singly(indices),
        )
        return serialized[:rows]

    def describe(self, index: tf.Tensor) -> tf.Tensor:
        """Returns the text of `Records.describe` for an int64 index."""
        owner = self._owners(index)
        number = index - self._first[owner]
        begin, _ = self._bounds(index)
        return tf.strings.join(
            [
                *("'", self._paths[owner], "', record "),
                *(tf.as_string(number), ", byte ", tf.as_string(begin)),
            ]
        )

    def _owners(self, indices):
        """Returns the shard of each record, in the shape of `indices`."""
        # searchsorted wants a vector.
        flat = tf.reshape(indices, [-1])
        owners = tf.searchsorted(self._first, flat, "right", tf.int64) - 1
        return tf.reshape(owners, tf.shape(indices))

    def _bounds(self, indices):
        """Returns the byte offsets at which records begin and end."""
        places = indices + self._owners(indices)
        return (
            tf.gather(self._offsets, places),
            tf.gather(self._offsets, places + 1),
        )

    def _read(self, indices):
        """Returns the records at [parts, n] indices, flat.

        All of a part are empty if one of them cannot be read.
        """
        paths = tf.gather(self._paths, self._owners(indices))
        begins, _ = self._bounds(indices)
        serialized = tf.map_fn(
            lambda part: _read_or_none(*part),
            (paths, begins),
            fn_output_signature=tf.TensorSpec(indices.shape[1:], tf.string),
        )
        return tf.reshape(serialized, [-1])

    def _read_singly(self, indices):
        """Returns the records at [N] indices; names the first damaged one."""
        serialized = self._read(indices[:, None])
        is_intact = self._is_intact(serialized, indices)
        wrong = tf.boolean_mask(indices, ~is_intact)

        def fail():
            owner = self._owners(wrong[0])
            message = [
                *("Corrupt or missing record at ", self.describe(wrong[0])),
                *(". If only its index is wrong: delete '", self._paths[owner]),
                ".index', which is made again from the shard. Otherwise delete "
                "the shard and rerun the command that makes it.",
            ]
            return tf.debugging.Assert(False, [tf.strings.join(message)])

        # All can be intact now: the network of a store may fail at times.
        check = tf.cond(tf.reduce_all(is_intact), tf.no_op, fail)
        with tf.control_dependencies([check]):
            return tf.identity(serialized)

    def _is_intact(self, serialized, indices):
        """Returns [N] bool: whether records have the length in the index."""
        begins, ends = self._bounds(indices)
        lengths = tf.cast(tf.strings.length(serialized), tf.int64)
        return lengths + shards.FRAME_BYTES == ends - begins


def _read_or_none(*part: tf.Tensor) -> tf.Tensor:
    """Returns the result of `_read_part`; n empty strings if it fails."""
    # Errors of a map can be ignored; a reader would open a missing file again
    # and again.
    found = tf.data.Dataset.from_tensors(part).map(_read_part).ignore_errors()
    none = tf.data.Dataset.from_tensors(tf.fill(part[0].shape, b""))
    return found.concatenate(none).take(1).get_single_element()


@tf.autograph.experimental.do_not_convert
def _read_part(paths: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Returns the records at [n] offsets of [n] files."""
    files = [
        tf.data.experimental.from_variant(
            # tf.data.TFRecordDataset has no offsets. The op compares the
            # checksums of the record.
            tf.raw_ops.TFRecordDatasetV2(
                filenames=path,
                compression_type="",
                buffer_size=_BUFFER_BYTES,
                byte_offsets=begin,
            ),
            tf.TensorSpec([], tf.string),
        )
        for path, begin in zip(
            tf.unstack(paths), tf.unstack(begins), strict=True
        )
    ]
    one_of_each = tf.data.Dataset.zip(tuple(files)).take(1)
    return tf.stack(one_of_each.get_single_element())


def _is_of_this_process(tensor: tf.Tensor) -> bool:
    """Returns whether an eager tensor is on a device of this process."""
    with tf.device(None):
        own = tf.constant(0).device

    def process(device):
        spec = tf.DeviceSpec.from_string(device)
        return spec.job, spec.replica, spec.task

    return process(own) == process(tensor.device)
