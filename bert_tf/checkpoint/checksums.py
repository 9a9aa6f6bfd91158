"""Files of a folder <-> their sizes and sha256, in its state.json.

A folder without state.json has no checksums, and its files are not checked.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping

from tfrecords.io import atomic_files, json_files

STATE = "state.json"
_FILES = "files"
# Forms of what is read of state.json, see `json_files.check`.
_KIND = {_FILES: dict, "step?": range(2**63)}
_SUMS = {"bytes": int, "sha256": str}
# Key of the sha256 of state.json's other entries.
_OWN = "state_sha256"
# Largest file whose sha256 `check_quickly` computes. Metadata is smaller; the
# weights of a base model are 440 MB.
_QUICK_BYTES = 1 << 24


class DamagedError(ValueError):
    """A file was truncated, changed or removed after it was written."""


def damaged(folder: str, fault: str) -> DamagedError:
    """Returns the error for a fault of a folder."""
    return DamagedError(f"{folder} is damaged: {fault}.")


def _own_sum(state: Mapping) -> str:
    text = json.dumps(state, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_checksums(folder: str, state: Mapping) -> None:
    """Writes `state.json`: a state, and the checksums of a folder's files.

    Args:
      folder: a folder from `atomic_files.atomic_folder`, complete except for
        `state.json`.
      state: a dict that JSON can represent.
    """
    files = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        files[name] = {
            "bytes": os.path.getsize(path),
            # Reads the page cache, while the kernel writes the file to disk.
            "sha256": atomic_files.digest(path),
        }
    values = dict(state) | {_FILES: files}
    json_files.write(
        os.path.join(folder, STATE), values | {_OWN: _own_sum(values)}
    )


def read_state(folder: str) -> dict:
    """Returns the content of a folder's state.json.

    Raises:
      DamagedError: if it is missing or was changed.
    """
    path = os.path.join(folder, STATE)
    with _faults_named(folder, STATE), open(path, "rb") as file:
        content = file.read()
    try:
        state = json_files.parse(content, STATE, _KIND)
        for name, sums in state[_FILES].items():
            json_files.check(sums, _SUMS, STATE, f"{_FILES}.{name}")
    except ValueError as error:
        raise damaged(folder, str(error).removesuffix(".")) from error
    if state.pop(_OWN, None) != _own_sum(state):
        raise damaged(folder, f"{STATE} does not match its checksum")
    return state


def check(folder: str, names: Collection[str] | None = None) -> None:
    """Checks the size and sha256 of files, reading every byte.

    Args:
      folder: a folder, with or without checksums.
      names: names of the files to check; None for all. Files without a
        checksum are skipped.

    Raises:
      DamagedError: if a file is damaged, naming folder, file and fault.
    """
    for name, expected in _sums(folder).items():
        if names is None or name in names:
            _check(folder, name, expected, is_quick=False)


def check_quickly(folder: str) -> None:
    """Checks the sizes of all files, and the sha256 of small ones.

    Changed bytes in weights are not detected here, but when they are read.

    Raises:
      DamagedError: if a file is damaged, naming folder, file and fault.
    """
    for name, expected in _sums(folder).items():
        _check(folder, name, expected, is_quick=True)


def _sums(folder: str) -> dict[str, dict]:
    """Returns name -> bytes and sha256; {} if there is no state.json."""
    if not os.path.exists(os.path.join(folder, STATE)):
        return {}
    return read_state(folder)[_FILES]


def _check(
    folder: str, name: str, expected: Mapping, *, is_quick: bool
) -> None:
    with _faults_named(folder, name):
        fault = _fault(os.path.join(folder, name), expected, is_quick=is_quick)
    if fault:
        raise damaged(folder, f"{name} {fault}")


@contextlib.contextmanager
def _faults_named(folder: str, name: str) -> Iterator[None]:
    """Translates OSErrors that indicate damage into DamagedErrors."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise damaged(folder, f"{name} is missing") from None
    except OSError as error:
        # A disk failure is damage; temporary errors, e.g. too many open files,
        # are not.
        if error.errno not in (errno.EIO, errno.EISDIR):
            raise
        fault = f"{name} cannot be read ({error.strerror})"
        raise damaged(folder, fault) from error


def _fault(path: str, expected: Mapping, *, is_quick: bool) -> str | None:
    """Returns the fault of a file; None if it is intact."""
    size = os.path.getsize(path)
    if size != expected["bytes"]:
        return f"has {size} bytes instead of {expected['bytes']}"
    if is_quick and size > _QUICK_BYTES:
        return None
    sha256 = atomic_files.digest(path)
    if sha256 != expected["sha256"]:
        return (
            f"has been changed: its sha256 is {sha256} instead of "
            f"{expected['sha256']}"
        )
    return None
