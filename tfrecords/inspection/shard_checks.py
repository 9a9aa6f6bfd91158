"""Path of records -> the intact shards, diagnostics of the others."""

import functools
import os

import numpy as np

from tfrecords.inspection import diagnostics
from tfrecords.inspection.diagnostics import NOTE, Diagnostic
from tfrecords.io import records as records_lib
from tfrecords.io import shards

_CHECK = "shards"
_attempt = functools.partial(diagnostics.attempt, _CHECK)


def open_intact(
    path: str,
) -> tuple[records_lib.Records | None, list[Diagnostic]]:
    """Opens records as `Records.open`, but skips damaged shards.

    Args:
      path: as for `Records.open`.

    Returns:
      The records of the intact shards, or None if there are none; and a
      diagnostic for each shard that is missing, truncated or not of the size in
      the manifest.
    """
    manifest = None
    if os.path.isdir(path):
        manifest, problems = _attempt(records_lib.Manifest.read, path)
        if manifest is None:
            return None, problems
        num_bytes = {
            os.path.join(path, shard.name): shard.num_bytes
            for shard in manifest.shards
        }
    else:
        num_bytes = dict.fromkeys(records_lib.find_shards(path))
    checks = {name: _check_shard(name, num_bytes[name]) for name in num_bytes}
    problems = sum(checks.values(), [])
    intact = [name for name, found in checks.items() if not found]
    if intact:
        opened, more = _attempt(records_lib.Records, intact, manifest)
        return opened, problems + more
    return None, problems or _attempt(records_lib.Records.open, path)[1]


def _check_shard(path: str, num_bytes: int | None) -> list[Diagnostic]:
    problems = []
    if num_bytes is not None:
        _, problems = _attempt(records_lib.check_shard, path, num_bytes)
    return problems or _attempt(shards.Shard, path)[1]


def check_digests(
    records: records_lib.Records, most_bytes: int | None
) -> list[Diagnostic]:
    """Compares the sha256 of shards with the manifest.

    Args:
      records: result of `open_intact`.
      most_bytes: maximum to read, but at least one shard; None for all. The
        shards read are spread over the set.

    Returns:
      A diagnostic for each shard that differs, and a note if not all were read;
      [] without a manifest.
    """
    if records.manifest is None:
        return []
    listed = {shard.name: shard for shard in records.manifest.shards}
    problems, num_read, num_bytes = [], 0, 0
    for index in _spread_order(len(records.paths)):
        path = records.paths[index]
        shard = listed[os.path.basename(path)]
        if most_bytes is not None and num_read:
            if num_bytes + shard.num_bytes > most_bytes:
                break
        num_read, num_bytes = num_read + 1, num_bytes + shard.num_bytes
        problems += _attempt(records_lib.check_digest, path, shard)[1]
    if num_read < len(records.paths):
        text = (
            f"the sha256 of {num_read} of {len(records.paths)} shards was "
            "compared with the manifest; --all compares all."
        )
        problems.append(Diagnostic(NOTE, _CHECK, text))
    return problems


def _spread_order(count: int) -> np.ndarray:
    """Returns 0 to count - 1, ordered so that every prefix is spread evenly."""
    # The van der Corput sequence in base 2: halves, quarters, eighths.
    bits = max(1, int(count - 1).bit_length())
    numbers = np.arange(count)
    flipped = sum(
        ((numbers >> bit) & 1) << (bits - 1 - bit) for bit in range(bits)
    )
    return np.argsort(flipped, kind="stable")
