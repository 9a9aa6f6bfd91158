"""Parts -> one file, written atomically; a rerun writes only missing parts.

Parts are files in a hidden folder, `.<name>.parts`, each written atomically, so
that a run of hours loses at most one part when it is killed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np
from absl import logging

from tfrecords.io import atomic_files, json_files, progress, streams

_SETTINGS = "settings.json"


def write(
    path: str,
    settings: Mapping,
    weights: Sequence[int],
    make_part: Callable[[int], bytes],
    join: Callable[[IO[bytes], Callable[[], Iterator[bytes]]], None],
    *,
    unit: str,
) -> None:
    """Writes a file in parts; resumes where an earlier call was stopped.

    Args:
      path: path of the file; an existing one is replaced. For a pipe or
        device, the parts are in a temporary folder, and lost with the run.
      settings: everything that the parts depend on, as JSON. Parts made with
        other settings are deleted.
      weights: amount of work in each part.
      make_part: called with a part's number; returns its bytes.
      join: called with the file and a function that iterates over the parts in
        order; writes the file.
      unit: name of the unit of weights, for progress lines.

    Raises:
      OSError: naming the file, if it cannot be written; finished parts remain.
    """
    with contextlib.ExitStack() as stack:
        folder, name = os.path.split(os.path.realpath(path))
        if streams.is_stream(path):  # No parts in /dev.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        parts_dir = os.path.join(folder, f".{name}.parts")
        _open_folder(parts_dir, dict(settings))
        _write(path, parts_dir, weights, make_part, join, unit)


def _write(path, parts_dir, weights, make_part, join, unit) -> None:
    """Makes the missing parts and joins all of them."""
    name = os.path.basename(path)
    parts = [os.path.join(parts_dir, f"{i:06d}") for i in range(len(weights))]
    missing = [i for i, part in enumerate(parts) if not os.path.exists(part)]
    if done := len(parts) - len(missing):
        logging.info("%s  %d of %d parts exist already", path, done, len(parts))

    def results():
        for index, number in enumerate(missing):
            with atomic_files.atomic_file(parts[number], "wb") as file:
                file.write(make_part(number))
            yield index, None

    missing_weights = [weights[number] for number in missing]
    for _ in progress.show(
        results(), missing, missing_weights, name=name, unit=unit
    ):
        pass

    def contents() -> Iterator[bytes]:
        for part in parts:
            with open(part, "rb") as file:
                yield file.read()

    with atomic_files.atomic_file(path, "wb") as file:
        join(file, contents)
    shutil.rmtree(parts_dir)


def concatenate(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes the parts one after the other; a `join` for `write`."""
    for part in parts():
        file.write(part)


def begin_array(
    file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]
) -> None:
    """Writes the header of a .npy file; the rows follow, part by part."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, header)


def _open_folder(parts_dir: str, settings: dict) -> None:
    """Creates the folder of the parts, or keeps one of the same settings."""
    path = os.path.join(parts_dir, _SETTINGS)
    with contextlib.suppress(FileNotFoundError, ValueError):
        if json_files.read(path) == settings:
            atomic_files.remove_leftovers(parts_dir)
            return
    if os.path.isdir(parts_dir):
        logging.warning("%s  deleted: made with other settings", parts_dir)
        shutil.rmtree(parts_dir)
    os.makedirs(parts_dir)
    json_files.write(path, settings)
