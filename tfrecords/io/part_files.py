"""Parts -> one file, written atomically; a rerun writes only missing parts.

Parts are in a hidden sibling folder, `.<name>.parts`, each complete or absent.
So a job of hours loses one part when it is killed, and the file is renamed when
all of it exists.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np
from absl import logging

from tfrecords.io import atomic_files, progress

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
    """Writes a file of parts; resumes where an earlier call was stopped.

    Args:
      path: of the file; one that is there is replaced.
      settings: everything that decides the parts, as JSON. Parts of other
        settings are removed.
      weights: work in each part, in units; as many as there are parts.
      make_part: number -> its bytes.
      join: (file, () -> the parts in order) writes the file of them.
      unit: of the weights, for progress lines.

    Raises:
      OSError: that names a file, if it cannot be written; the parts before it
        stay.
    """
    folder, name = os.path.split(os.path.abspath(path))
    aside = os.path.join(folder, f".{name}.parts")
    _begin(aside, dict(settings))
    parts = [
        os.path.join(aside, f"{number:06d}") for number in range(len(weights))
    ]
    missing = [i for i, part in enumerate(parts) if not os.path.exists(part)]
    if len(missing) < len(parts):
        logging.info(
            "%s  %d of %d parts exist from before",
            path,
            len(parts) - len(missing),
            len(parts),
        )

    def results():
        for index, number in enumerate(missing):
            with atomic_files.atomic_file(parts[number], "wb") as file:
                file.write(make_part(number))
            yield index, None

    for _ in progress.show(
        results(),
        missing,
        [weights[number] for number in missing],
        name=name,
        unit=unit,
    ):
        pass

    def contents() -> Iterator[bytes]:
        for part in parts:
            with open(part, "rb") as file:
                yield file.read()

    with atomic_files.atomic_file(path, "wb") as file:
        join(file, contents)
    shutil.rmtree(aside)


def concatenate(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes the concatenated parts: a `join`."""
    for part in parts():
        file.write(part)


def begin_array(
    file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]
) -> None:
    """Writes the header of a .npy; its parts follow, row by row."""
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, header)


def _begin(aside: str, settings: dict) -> None:
    """Makes the folder of the parts, or keeps that of the same settings."""
    path = os.path.join(aside, _SETTINGS)
    if os.path.isfile(path) and atomic_files.read_json(path) == settings:
        atomic_files.remove_leftovers(aside)
        return
    if os.path.isdir(aside):
        logging.warning("%s  has other settings; starting again", aside)
        shutil.rmtree(aside)
    os.makedirs(aside)
    atomic_files.write_json(path, settings)
