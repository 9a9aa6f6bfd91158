"""Serialized examples <-> one TFRecord shard with an index.

A shard is an ordinary TFRecord file. Its sidecar `<shard>.index` is an npy
array of byte offsets, so that records can be read in any order: the training
order is then a function of one integer (see batch_order.py).

tf.io is not used because it writes no offsets and cannot seek.
"""

import dataclasses
import functools
import hashlib
import os
import struct
from collections.abc import Iterable

import google_crc32c
import numpy as np
from absl import logging

from tfrecords.io import storage
from tfrecords.io.inputs import file_kinds

# TFRecord framing: length, crc of length; data; crc of data. The crc is
# masked as in tensorflow/core/lib/hash/crc32c.h.
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
FRAME_BYTES = _HEADER.size + _FOOTER.size  # Added to each record.
_WRITE_RECORDS = 1024  # Records in each write to the file.
_NPY = b"\x93NUMPY"  # First bytes of an npy file.
_OPEN_FILES = 256  # Well below the usual limit of 1,024 per process.
_HEAD = 512  # Bytes that are read of a file that is none of ours.


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """Returns the bytes of a record in a TFRecord file."""
    length = struct.pack("<Q", len(record))
    header = length + _FOOTER.pack(_masked_crc(length))
    return b"".join((header, record, _FOOTER.pack(_masked_crc(record))))


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """One finished shard, as listed in the manifest."""

    name: str
    num_examples: int
    num_bytes: int
    sha256: str


def shard_name(prefix: str, shard: int, num_shards: int) -> str:
    """Returns a file name such as train-00000-of-00016.tfrecord."""
    return f"{prefix}-{shard:05d}-of-{num_shards:05d}.tfrecord"


def write_shard(path: str, serialized: Iterable[bytes]) -> ShardInfo:
    """Writes records to a shard and its index, both atomically.

    Args:
      path: where the shard goes; the index goes to `<path>.index`.
      serialized: one serialized tf.train.Example for each record.

    Raises:
      OSError: if it cannot be written; no partial file remains.
    """
    digest = hashlib.sha256()
    sizes, frames = [0], []

    def flush(file):
        data = b"".join(frames)
        frames.clear()
        digest.update(data)
        file.write(data)

    with storage.atomic_file(path, "wb") as file:
        for record in serialized:
            frames.append(frame(record))
            sizes.append(len(frames[-1]))
            if len(frames) == _WRITE_RECORDS:
                flush(file)
        flush(file)
        offsets = np.cumsum(sizes, dtype=np.int64)
        # Written before the shard is renamed, so that a shard has an index.
        with storage.atomic_file(f"{path}.index", "wb") as index:
            np.save(index, offsets)
    return ShardInfo(
        name=os.path.basename(path),
        num_examples=len(offsets) - 1,
        num_bytes=int(offsets[-1]),
        sha256=digest.hexdigest(),
    )


def _check_first_bytes(path: str) -> None:
    """Raises ValueError if a file is text or another kind that is known."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    what, fix = (
        "",
        "Give records, such as make_pretraining_records makes from text",
    )
    if kind := file_kinds.kind_of(head):
        what = kind.name
        if what.startswith("compressed"):
            fix = kind.fix[0].upper() + kind.fix[1:]
    # A record begins with its length, in 8 bytes.
    elif b"\0" not in head and file_kinds.is_utf8(head):
        what = "JSON" if head.startswith(b'{"') else "text"
    if what:
        raise ValueError(f"{path!r} is {what}, not a TFRecord file. {fix}.")


def scan(path: str) -> np.ndarray:
    """Returns the offsets of a shard as `Shard.offsets`, from record headers.

    Raises:
      ValueError: if a header is corrupt, the last record is truncated, or the
        file is of another kind.
    """
    offsets, end = [0], os.path.getsize(path)
    with open(path, "rb") as file:
        while offsets[-1] < end:
            offset = offsets[-1]
            header = os.pread(file.fileno(), _HEADER.size, offset)
            record = f"{path!r}, record {len(offsets) - 1}, byte {offset}"
            if len(header) == _HEADER.size:
                length, crc = _HEADER.unpack(header)
                if crc != _masked_crc(header[:8]):
                    if offset == 0:
                        _check_first_bytes(path)
                    raise ValueError(
                        f"Corrupt header at {record}: not a TFRecord file, or "
                        "damaged. Make or copy it again."
                    )
                offset += FRAME_BYTES + length
            if len(header) < _HEADER.size or offset > end:
                if len(offsets) == 1:
                    _check_first_bytes(path)
                raise ValueError(
                    f"Truncated record at {record}: the file ends at byte "
                    f"{end}. Make or copy it again."
                )
            offsets.append(offset)
    return np.array(offsets, np.int64)


def _offsets(path: str) -> np.ndarray:
    """Returns [records + 1] int64: the offset of each record, then the end."""
    if not os.path.exists(f"{path}.index"):
        return scan(path)
    offsets, end = _load_index(path), os.path.getsize(path)
    if offsets is not None and offsets[0] == 0 and offsets[-1] == end:
        return offsets
    scanned = scan(path)
    if offsets is not None and len(offsets) > len(scanned):
        raise ValueError(
            f"Truncated record at {path!r}, record {len(scanned) - 1}: the "
            f"file ends at byte {end}, its index lists {len(offsets) - 1} "
            "records. Delete it and rerun the command that makes it."
        )
    _replace_index(path, scanned)
    return scanned


def _load_index(path: str) -> np.ndarray | None:
    """Returns the content of a shard's index; None if it is damaged."""
    try:
        with open(f"{path}.index", "rb") as file:
            if file.read(len(_NPY)) != _NPY:  # NumPy would also read a zip.
                return None
        # Not mapped: each map would keep its file open, of which a process may
        # have 1,024.
        offsets = np.load(f"{path}.index")
    except Exception:  # NumPy parses the header as Python: any error.
        return None
    is_index = isinstance(offsets, np.ndarray) and (
        offsets.ndim == 1 and offsets.dtype == np.int64 and offsets.size
    )
    return offsets if is_index else None


def _replace_index(path: str, offsets: np.ndarray) -> None:
    """Writes the index of a shard again, in place of a damaged one."""
    result = "it is made again from the shard"
    try:
        with storage.atomic_file(f"{path}.index", "wb") as file:
            np.save(file, offsets)
    except OSError as error:
        # In a read-only folder, each process reads the shard again.
        result = f"it cannot be replaced ({error.strerror}), and is not used"
    logging.warning("%s.index does not match its shard; %s", path, result)


class _OpenFile:
    """A file descriptor, closed when its last reference is gone."""

    def __init__(self, path: str, *version):
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


# `version` distinguishes a file that was rewritten under the same path.
_open = functools.lru_cache(_OPEN_FILES)(_OpenFile)


class Shard:
    """Random access to the records of one shard.

    Attributes:
      path: path of the shard.
      offsets: [records + 1] int64: the offset of each record, then the end.
    """

    def __init__(self, path: str):
        self.path = path
        self.offsets = _offsets(path)
        status = os.stat(path)
        self._version = (status.st_ino, status.st_mtime_ns)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def describe(self, record: int) -> str:
        """Returns a record's file, index and byte offset, for messages."""
        return (
            f"{self.path!r}, record {record}, byte {int(self.offsets[record])}"
        )

    def read(self, record: int) -> bytes:
        """Returns one serialized example.

        A wrong offset in the index is corrected from the headers of the shard.

        Raises:
          ValueError: naming the record, if it is truncated or corrupt.
        """
        payload = self._payload(record)
        if payload is None:
            # Another thread may correct them at the same time.
            self._correct_offsets()
            payload = self._payload(record)
        if payload is not None:
            return payload
        is_truncated = self.offsets[record + 1] > os.path.getsize(self.path)
        fault = f"Corrupt record at {self.describe(record)}: its checksum "
        fault += "does not match"
        if is_truncated:
            fault = f"Truncated record at {self.describe(record)}"
        raise ValueError(
            f"{fault}. Delete the shard and rerun the command that makes it."
        )

    def _payload(self, record: int) -> bytes | None:
        """Returns one serialized example; None if it is damaged."""
        begin, end = self.offsets[record : record + 2].tolist()
        file = _open(self.path, *self._version)
        size = os.fstat(file.descriptor).st_size
        if begin < 0 or end > size or end - begin < FRAME_BYTES:
            return None
        data = os.pread(file.descriptor, end - begin, begin)
        payload = data[_HEADER.size : -_FOOTER.size]
        length, length_crc = _HEADER.unpack_from(data)
        (crc,) = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
        if (
            length != len(payload)
            or length_crc != _masked_crc(data[:8])
            or crc != _masked_crc(payload)
        ):
            return None
        return payload

    def _correct_offsets(self) -> None:
        """Replaces the offsets if they are not those of the shard."""
        try:
            scanned = scan(self.path)
        except ValueError:
            return  # The shard is damaged, too.
        if np.array_equal(scanned, self.offsets):
            return
        _replace_index(self.path, scanned)
        if len(scanned) != len(self.offsets):  # Records change their numbers.
            raise ValueError(
                f"{self.path!r} has {len(scanned) - 1} records, its index "
                f"listed {len(self)}. Run the same command again."
            )
        self.offsets = scanned
