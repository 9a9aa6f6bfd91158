"""Parts -> one file, written atomically; a rerun writes only missing parts.

Parts are files in a hidden folder, `.<name>.parts`, each written atomically, so
that a run of hours loses at most one part when it is killed.
"""

import contextlib
import io
import os
import shutil
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
    with _parts_folder(path, dict(settings)) as parts_dir:
        numbers = range(len(weights))
        parts = [os.path.join(parts_dir, f"{i:06d}") for i in numbers]
        missing = [i for i in numbers if not os.path.exists(parts[i])]
        if done := len(parts) - len(missing):
            text = "%s  %d of %d parts exist already"
            logging.info(text, path, done, len(parts))

        def results():
            for index, number in enumerate(missing):
                with atomic_files.atomic_file(parts[number], "wb") as file:
                    file.write(make_part(number))
                yield index, None

        missing_weights = [weights[number] for number in missing]
        name = os.path.basename(path)
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


def concatenate(file: IO[bytes], parts: Callable[[], Iterator[bytes]]) -> None:
    """Writes the parts one after the other; a `join` for `write`."""
    for part in parts():
        file.write(part)


def to_npz(**arrays) -> bytes:
    """Returns a part with named arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def loaded(
    parts: Callable[[], Iterator[bytes]],
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields the arrays of each part, open until the next one is asked for."""
    for part in parts():
        with np.load(io.BytesIO(part)) as arrays:
            yield arrays


def join_array(
    file: IO[bytes],
    parts: Callable[[], Iterator[bytes]],
    name: str,
    num_rows: int,
) -> None:
    """Writes an array of all `loaded` parts, of `num_rows` rows, as .npy."""
    for number, arrays in enumerate(loaded(parts)):
        rows = arrays[name]
        if not number:
            begin_array(file, rows.dtype, (num_rows, *rows.shape[1:]))
        file.write(rows.tobytes())


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


@contextlib.contextmanager
def _parts_folder(path: str, settings: dict) -> Iterator[str]:
    """Yields the folder of a file's parts; removes it when they are joined.

    Parts that it contains already were made with the same settings.
    """
    with contextlib.ExitStack() as stack:
        folder, name = os.path.split(os.path.realpath(path))
        if streams.is_stream(path):  # No parts in /dev.
            folder = stack.enter_context(atomic_files.temporary_folder())
        parts_dir = os.path.join(folder, f".{name}.parts")
        settings_file = os.path.join(parts_dir, _SETTINGS)
        made_with = None
        with contextlib.suppress(FileNotFoundError, ValueError):
            made_with = json_files.read(settings_file)
        if made_with == settings:
            atomic_files.remove_leftovers(parts_dir)
        else:
            if os.path.isdir(parts_dir):
                logging.warning(
                    "%s  deleted: made with other settings", parts_dir
                )
                shutil.rmtree(parts_dir)
            os.makedirs(parts_dir)
            json_files.write(settings_file, settings)
        yield parts_dir
        shutil.rmtree(parts_dir)
