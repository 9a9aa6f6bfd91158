"""Parts -> one file, written atomically; a rerun writes only missing parts.

Parts are files in a hidden folder, `.<name>.parts`, each written atomically, so
that a run of hours loses at most one part when it is killed. A part begins with
a checksum of the settings, its number and its bytes: a damaged one, or one of
another run, is made again.
"""

import contextlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np
from absl import logging

from tfrecords.io import atomic_files, json_files, leases, progress, streams

_SETTINGS = "settings.json"
_CHECKSUM_BYTES = 4


def write(
    path: str,
    settings: Mapping,
    weights: Sequence[int],
    make_part: Callable[[int], bytes],
    join: Callable[[IO[bytes], Callable[[], Iterator[bytes]]], None],
    finish: Callable[[], None] = lambda: None,
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
      finish: called when the file is written, before the parts are removed.
      unit: name of the unit of weights, for progress lines.

    Raises:
      ValueError: if another process is writing the file.
      OSError: naming the file, if it cannot be written; finished parts remain.
    """
    with _parts_folder(path, dict(settings)) as parts_dir:
        parts = _Parts(parts_dir, settings)
        numbers = range(len(weights))
        missing = [number for number in numbers if not parts.has(number)]
        if done := len(numbers) - len(missing):
            text = "%s  %d of %d parts exist already"
            logging.info(text, path, done, len(numbers))

        def results():
            for index, number in enumerate(missing):
                parts.write(number, make_part(number))
                yield index, None

        missing_weights = [weights[number] for number in missing]
        name = os.path.basename(path)
        for _ in progress.show(
            results(), missing, missing_weights, name=name, unit=unit
        ):
            pass

        with atomic_files.atomic_file(path, "wb") as file:
            join(file, lambda: map(parts.read, numbers))
        finish()


class _Parts:
    """The files of parts in a folder, of a run with these settings."""

    def __init__(self, folder: str, settings: Mapping):
        self._folder = folder
        self._settings = json.dumps(settings)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:06d}")

    def _checksum(self, number: int, content: bytes) -> bytes:
        seed = zlib.crc32(f"{number} {self._settings}".encode())
        return zlib.crc32(content, seed).to_bytes(_CHECKSUM_BYTES, "big")

    def write(self, number: int, content: bytes) -> None:
        """Writes a part."""
        with atomic_files.atomic_file(self._path(number), "wb") as file:
            file.write(self._checksum(number, content))
            file.write(content)

    def read(self, number: int) -> bytes:
        """Returns a part; raises ValueError if its checksum is another."""
        path = self._path(number)
        with open(path, "rb") as file:
            checksum, content = file.read(_CHECKSUM_BYTES), file.read()
        if checksum != self._checksum(number, content):
            raise ValueError(
                f"{path} is damaged, or of another run. Run the command again, "
                "which makes this part again."
            )
        return content

    def has(self, number: int) -> bool:
        """Returns whether a part exists, undamaged; otherwise logs why not."""
        try:
            self.read(number)
        except FileNotFoundError:
            return False
        except ValueError:
            text = "%s  made again: it is damaged, or of another run"
            logging.warning(text, self._path(number))
            return False
        return True


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

    Parts that it contains already were made with the same settings. Until then
    no other process may write the file.
    """
    with contextlib.ExitStack() as stack:
        folder, name = os.path.split(os.path.realpath(path))
        if streams.is_stream(path):  # No parts in /dev.
            folder = stack.enter_context(atomic_files.temporary_folder())
        parts_dir = os.path.join(folder, f".{name}.parts")
        stack.enter_context(leases.lock_folder(parts_dir, path))
        settings_file = os.path.join(parts_dir, _SETTINGS)
        made_with = None
        with contextlib.suppress(FileNotFoundError, ValueError):
            made_with = json_files.read(settings_file)
        if made_with not in (None, settings):
            logging.warning("%s  deleted: made with other settings", parts_dir)
            _empty(parts_dir)
        atomic_files.remove_leftovers(parts_dir)
        json_files.write(settings_file, settings)
        yield parts_dir
        _empty(parts_dir)
    with contextlib.suppress(OSError):  # Another process may use it now.
        os.rmdir(parts_dir)


def _empty(parts_dir: str) -> None:
    """Removes all files of a folder but its lock."""
    for name in os.listdir(parts_dir):
        if name != leases.LOCK:
            os.remove(os.path.join(parts_dir, name))
