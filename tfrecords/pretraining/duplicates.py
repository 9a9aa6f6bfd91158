"""Pieces of tokens -> the same without documents or lines seen before.

The first of equal ones stays, in the order of the input files and of what is in
them: so what is left out does not depend on who works on what. Equal means the
same text; 64 bits of a digest stand for it, of which among 10^9 lines two
different ones agree with a chance of 3 %.

Equal documents are found by the driver: 8 bytes each. Lines go another way, as
they may be too many: their digests are dealt into buckets by their value, each
bucket is searched by itself, and each piece is copied without what was found.
A line is what the input calls so, or a paragraph where lines are wrapped; it
goes with all its sentences.

  <piece>.keys       uint64 for each sentence: digest of its line, and which of
                     the line's sentences it is; the lowest bit marks the first
  <piece>.digests    uint64 for each document
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfrecords.io import progress, storage
from tfrecords.pretraining import token_files
from tfrecords.text import documents as documents_lib

KINDS = ("documents", "lines")

_KEY_DTYPE = token_files.KEY_DTYPE
_DIGEST_BYTES = 8
# Of one bucket: some 150 MB while it is searched.
_KEYS_IN_BUCKET = 1 << 22
# Keys of a piece that are sorted at a time.
_CHUNK = 1 << 20


def fingerprint(document: documents_lib.Document) -> token_files.Fingerprint:
    """Returns what stands for a document, its lines and their sentences.

    Two keys are the same if and only if the sentences stand at the same place
    in the same line.
    """
    keys = []
    begin = 0
    for length in document.line_lengths:
        line = "\n".join(document.sentences[begin : begin + length])
        begin += length
        first = _digest(line.encode()) | 1
        keys += [first] + [first ^ place << 1 ^ 1 for place in range(1, length)]
    keys = np.array(keys, _KEY_DTYPE)
    return token_files.Fingerprint(keys, _digest(keys.tobytes()))


def _digest(data: bytes) -> int:
    found = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(found, "little")


class _ScatterJob(NamedTuple):
    piece: str
    scattered: str
    num_buckets: int


class _BucketJob(NamedTuple):
    scattered: Sequence[str]
    bucket: int
    found: str


class _CopyJob(NamedTuple):
    piece: str
    number: int
    is_kept: np.ndarray  # [documents] bool.
    found: Sequence[str]
    copy: str
    vocab_size: int


def drop(
    pieces: Sequence[str],
    kinds: Sequence[str],
    work: str,
    vocab_size: int,
    workers: progress.Engine,
) -> list[str]:
    """Returns copies of pieces, without what is there before.

    Args:
      pieces: made with keys and digests.
      kinds: of KINDS.
      work: folder for the copies; one that is there is not made again.
      vocab_size: of the tokens.
      workers: who does the work.
    """
    name = hashlib.sha256("\n".join([*kinds, *pieces]).encode()).hexdigest()
    begin = os.path.join(work, f"{name[:12]}-")
    copies = [f"{begin}piece-{number}" for number in range(len(pieces))]
    if all(storage.exists(f"{copy}.json") for copy in copies):
        return copies
    is_kept = _first_documents(pieces, "documents" in kinds)
    found = []
    if "lines" in kinds:
        found = _find_lines(pieces, begin, workers)
    jobs = [
        _CopyJob(piece, number, is_kept[number], found, copy, vocab_size)
        for number, (piece, copy) in enumerate(zip(pieces, copies, strict=True))
        if not storage.exists(f"{copy}.json")
    ]
    weights = [_size(f"{job.piece}.tokens") for job in jobs]
    for _ in workers.run(
        _copy, jobs, weights, name="drop duplicates", unit="bytes"
    ):
        pass
    return copies


def _first_documents(pieces, is_wanted):
    """Returns [documents] bool for each piece: whether none before is equal."""
    digests = [
        storage.read_array(f"{piece}.digests", _KEY_DTYPE) for piece in pieces
    ]
    counts = [len(part) for part in digests]
    is_kept = np.ones(sum(counts), bool)
    if is_wanted:
        is_kept[:] = False
        _, first = np.unique(np.concatenate(digests), return_index=True)
        is_kept[first] = True
    return np.split(is_kept, np.cumsum(counts)[:-1])


def _find_lines(pieces, begin, workers):
    """Returns a file for each bucket, of sentences that are there before."""
    keys = [_size(f"{piece}.keys") // 8 for piece in pieces]
    num_buckets = max(1, -(-sum(keys) // _KEYS_IN_BUCKET))
    scattered = [f"{begin}scattered-{place}" for place in range(len(pieces))]
    jobs = [
        _ScatterJob(piece, path, num_buckets)
        for piece, path in zip(pieces, scattered, strict=True)
    ]
    for _ in workers.run(_scatter, jobs, keys, name="sort lines", unit="lines"):
        pass
    found = [f"{begin}found-{bucket}" for bucket in range(num_buckets)]
    jobs = [
        _BucketJob(scattered, bucket, path) for bucket, path in enumerate(found)
    ]
    weights = [sum(keys) // num_buckets] * num_buckets
    for _ in workers.run(
        _search, jobs, weights, name="compare lines", unit="lines"
    ):
        pass
    return found


def _scatter(job: _ScatterJob) -> None:
    """Sorts a piece's keys by bucket, a chunk at a time."""
    bounds = []
    total = _size(f"{job.piece}.keys") // 8
    with (
        storage.atomic_file(f"{job.scattered}.keys", "wb") as keys_file,
        storage.atomic_file(f"{job.scattered}.places", "wb") as places_file,
    ):
        for begin in range(0, total, _CHUNK):
            keys = storage.read_array(
                f"{job.piece}.keys",
                _KEY_DTYPE,
                begin,
                min(begin + _CHUNK, total),
            )
            # By bits above the lowest, which says no more than "first".
            bucket = (keys >> np.uint64(1)) % np.uint64(job.num_buckets)
            order = np.argsort(bucket, kind="stable")
            keys_file.write(keys[order].data)
            places_file.write((begin + order).astype("<i8").data)
            counts = np.bincount(
                bucket.astype(np.int64), minlength=job.num_buckets
            )
            bounds.append(begin + np.concatenate([[0], np.cumsum(counts)]))
        bounds = np.array(bounds, np.int64).reshape(-1, job.num_buckets + 1)
        with storage.atomic_file(f"{job.scattered}.npy", "wb") as file:
            np.save(file, bounds)


def _search(job: _BucketJob) -> None:
    """Writes the places of sentences whose key came before, by piece."""
    keys, places, counts = [], [], []
    for path in job.scattered:
        count = 0
        bounds = token_files.load(f"{path}.npy")[:, job.bucket : job.bucket + 2]
        for begin, end in bounds.tolist():
            for found, name, dtype in (
                (keys, "keys", _KEY_DTYPE),
                (places, "places", "<i8"),
            ):
                found.append(
                    storage.read_array(f"{path}.{name}", dtype, begin, end)
                )
            count += end - begin
        counts.append(count)
    keys = np.concatenate(keys) if keys else np.zeros(0, _KEY_DTYPE)
    places = np.concatenate(places) if places else np.zeros(0, np.int64)
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    again.sort()  # By piece, and by place in it.
    ends = np.searchsorted(again, np.cumsum(counts))
    with storage.atomic_file(f"{job.found}.npy", "wb") as file:
        np.save(file, np.concatenate([[0], ends]))
    with storage.atomic_file(f"{job.found}.places", "wb") as file:
        file.write(places[again].astype("<i8").data)


def _copy(job: _CopyJob) -> None:
    """Copies a piece without what came before, and counts that."""
    bounds = token_files.read_bounds(job.piece)
    # [sentences] bool each.
    is_in_kept = np.repeat(job.is_kept, np.diff(bounds[:, 1]))
    is_again = np.zeros(len(is_in_kept), bool)
    for path in job.found:
        begin, end = token_files.load(f"{path}.npy")[job.number :][:2]
        places = storage.read_array(f"{path}.places", "<i8", begin, end)
        is_again[places] = True
    token_files.copy_piece(
        job.piece, job.copy, is_in_kept & ~is_again, job.vocab_size
    )
    keys = storage.read_array(f"{job.piece}.keys", _KEY_DTYPE)
    with storage.open_bytes(f"{job.piece}.json") as file:
        statistics = json.load(file)
    statistics["duplicate_documents"] = int((~job.is_kept).sum())
    # The first sentence of each line counts it.
    statistics["duplicate_lines"] = int((keys[is_in_kept & is_again] & 1).sum())
    # Last: it says that the copy is whole.
    token_files.write_json(f"{job.copy}.json", statistics)


def _size(path: str) -> int:
    return storage.version(path)[0]
