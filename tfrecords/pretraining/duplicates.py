"""Token files -> copies without duplicate documents or lines.

Of equal documents or lines the first is kept, in the order of the input files;
so the result does not depend on the assignment of jobs to workers. Texts are
compared by a digest, of 63 bits for lines: among 10^9 different lines, the
probability of any collision is 5 %.

The driver finds equal documents and holds 8 bytes for each. There may be too
many lines for that: their digests are split into buckets by value, each bucket
is searched independently, and each token file is copied without the duplicates.
A line is a line of the input, or a paragraph where lines are wrapped; all its
sentences are dropped with it.

  <path>.keys       uint64 per sentence: digest of its line combined with its
                    index in the line; the lowest bit is 1 for the first one
  <path>.digests    uint64 per document

The external sort of a library would need a cluster of its own; this runs on any
engine and is enough for exact duplicates.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords.io import progress, storage
from tfrecords.pretraining import token_files
from tfrecords.text import documents as documents_lib

KINDS = ("documents", "lines")

_KEY_DTYPE = token_files.KEY_DTYPE
# Key of a sentence in a bucket, and the sentence's index in its token file.
_ENTRY_DTYPE = np.dtype([("key", _KEY_DTYPE), ("index", "<i8")])
# Keys per bucket; searching a bucket needs about 150 MB.
_KEYS_IN_BUCKET = 1 << 22
# Keys of a token file sorted at a time.
_CHUNK = 1 << 20


def fingerprint(document: documents_lib.Document) -> token_files.Fingerprint:
    """Returns the keys of a document's sentences, and the document's digest.

    Two keys are equal if and only if both sentences have the same index in
    equal lines.
    """
    keys = []
    begin = 0
    for length in document.line_lengths:
        line = "\n".join(document.sentences[begin : begin + length])
        begin += length
        first = _digest(line.encode()) | 1
        keys.append(first)
        keys += [first ^ position << 1 ^ 1 for position in range(1, length)]
    keys = np.array(keys, _KEY_DTYPE)
    return token_files.Fingerprint(keys, _digest(keys.tobytes()))


def _digest(data: bytes) -> int:
    digest = hashlib.blake2b(data, digest_size=_KEY_DTYPE.itemsize).digest()
    return int.from_bytes(digest, "little")


class _CopyJob(NamedTuple):
    token_file: str
    index: int
    is_kept: np.ndarray  # [documents] bool.
    repeated: Sequence[str]
    copy: str
    vocab_size: int


def drop(
    paths: Sequence[str],
    kinds: Sequence[str],
    work: str,
    vocab_size: int,
    workers: progress.Engine,
) -> list[str]:
    """Copies token files without duplicates; returns the paths of the copies.

    The copies are written to the folder `work`; existing ones are kept. `kinds`
    is a subset of KINDS.
    """
    name = hashlib.sha256("\n".join([*kinds, *paths]).encode()).hexdigest()
    begin = os.path.join(work, f"{name[:12]}-")
    copies = [f"{begin}copy-{index}" for index in range(len(paths))]
    complete = token_files.find_complete(copies, workers)
    if complete.issuperset(copies):
        return copies
    is_kept = _first_documents(paths, "documents" in kinds)
    repeated = _find_lines(paths, begin, workers) if "lines" in kinds else []
    jobs = [
        _CopyJob(path, index, is_kept[index], repeated, copy, vocab_size)
        for index, (path, copy) in enumerate(zip(paths, copies, strict=True))
        if copy not in complete
    ]
    weights = [_size(f"{job.token_file}.tokens") for job in jobs]
    list(
        workers.run(_copy, jobs, weights, name="drop duplicates", unit="bytes")
    )
    return copies


def _first_documents(paths, drop_repeated):
    """Returns [documents] bool for each file: True for documents to keep."""
    digests = [
        storage.read_array(f"{path}.digests", _KEY_DTYPE) for path in paths
    ]
    counts = [len(part) for part in digests]
    is_kept = np.ones(sum(counts), bool)
    if drop_repeated:
        is_kept[:] = False
        _, first = np.unique(np.concatenate(digests), return_index=True)
        is_kept[first] = True
    return np.split(is_kept, np.cumsum(counts)[:-1])


def _find_lines(paths, begin, workers):
    """Finds repeated lines; returns a file of their sentences per bucket."""
    keys = [_size(f"{path}.keys") // 8 for path in paths]
    num_buckets = max(1, -(-sum(keys) // _KEYS_IN_BUCKET))
    split = [f"{begin}split-{index}" for index in range(len(paths))]
    jobs = [
        (path, target, num_buckets)
        for path, target in zip(paths, split, strict=True)
    ]
    list(workers.run(_split, jobs, keys, name="sort lines", unit="lines"))
    repeated = [f"{begin}repeated-{bucket}" for bucket in range(num_buckets)]
    jobs = [(split, bucket, path) for bucket, path in enumerate(repeated)]
    weights = [sum(keys) // num_buckets] * num_buckets
    list(
        workers.run(_search, jobs, weights, name="compare lines", unit="lines")
    )
    return repeated


def _split(job: tuple[str, str, int]) -> None:
    """Sorts the keys of a token file by bucket, a chunk at a time."""
    token_file, split, num_buckets = job
    bounds = []
    total = _size(f"{token_file}.keys") // 8
    with storage.atomic_file(f"{split}.entries", "wb") as file:
        for begin in range(0, total, _CHUNK):
            end = min(begin + _CHUNK, total)
            entries = np.empty(end - begin, _ENTRY_DTYPE)
            entries["key"] = storage.read_array(
                f"{token_file}.keys", _KEY_DTYPE, begin, end
            )
            entries["index"] = np.arange(begin, end)
            # The lowest bit is dropped: it only marks first sentences.
            bucket = (entries["key"] >> np.uint64(1)) % np.uint64(num_buckets)
            file.write(entries[np.argsort(bucket, kind="stable")].tobytes())
            counts = np.bincount(bucket.astype(np.int64), minlength=num_buckets)
            bounds.append(begin + np.concatenate([[0], np.cumsum(counts)]))
    bounds = np.array(bounds, np.int64).reshape(-1, num_buckets + 1)
    token_files.save(f"{split}.npy", bounds)


def _search(job: tuple[Sequence[str], int, str]) -> None:
    """Writes the indices of a bucket's repeated sentences, by token file."""
    split, bucket, repeated = job
    entries, counts = [np.zeros(0, _ENTRY_DTYPE)], []
    for path in split:
        bounds = token_files.load(f"{path}.npy")[:, bucket : bucket + 2]
        entries += [
            storage.read_array(f"{path}.entries", _ENTRY_DTYPE, begin, end)
            for begin, end in bounds.tolist()
        ]
        counts.append(int(np.diff(bounds).sum()))
    entries = np.concatenate(entries)
    keys = entries["key"]
    order = np.argsort(keys, kind="stable")
    repeats = order[1:][keys[order[1:]] == keys[order[:-1]]]
    repeats.sort()  # By token file, then by index in it.
    ends = np.searchsorted(repeats, np.cumsum(counts))
    token_files.save(f"{repeated}.npy", np.concatenate([[0], ends]))
    with storage.atomic_file(f"{repeated}.indices", "wb") as file:
        file.write(entries["index"][repeats].tobytes())


def _copy(job: _CopyJob) -> None:
    """Copies a token file without duplicates, and counts the duplicates."""
    bounds = token_files.read_bounds(job.token_file)
    # [sentences] bool each.
    is_in_kept = np.repeat(job.is_kept, np.diff(bounds[:, 1]))
    is_repeat = np.zeros(len(is_in_kept), bool)
    for path in job.repeated:
        begin, end = token_files.load(f"{path}.npy")[job.index :][:2]
        indices = storage.read_array(f"{path}.indices", "<i8", begin, end)
        is_repeat[indices] = True
    token_files.copy(
        job.token_file, job.copy, is_in_kept & ~is_repeat, job.vocab_size
    )
    keys = storage.read_array(f"{job.token_file}.keys", _KEY_DTYPE)
    statistics = token_files.read_counts(job.token_file)
    statistics["duplicate_documents"] = int((~job.is_kept).sum())
    # Lines are counted by their first sentences.
    statistics["duplicate_lines"] = int(
        (keys[is_in_kept & is_repeat] & 1).sum()
    )
    # Written last: it marks the copy as complete.
    token_files.finish(job.copy, statistics)


def _size(path: str) -> int:
    return storage.version(path)[0]
