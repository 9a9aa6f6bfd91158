"""Files of a folder <-> their sizes and sha256, kept in its state.json.

A folder without a state.json has none: nothing is checked there but what its
readers see by themselves.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping

from tfrecords.io import atomic_files

STATE = "state.json"
_FILES = "files"
# Of state.json without this line, so that it vouches for itself too.
_OWN = "state_sha256"
# Metadata is below; the weights of a base model are 440 MB.
_QUICK_BYTES = 1 << 24


class DamagedError(ValueError):
    """A file is not what was written: cut short, changed or gone."""


def damaged(folder: str, what: str) -> DamagedError:
    """Returns the error that says what is wrong with a folder."""
    return DamagedError(f"{folder} is damaged: {what}.")


def _own_sum(state: Mapping) -> str:
    text = json.dumps(state, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_checksums(folder: str, state: Mapping) -> None:
    """Writes `state.json`: a state, and what the files beside it are.

    Args:
      folder: a folder from `atomic_files.atomic_folder`, otherwise complete.
      state: what JSON can say.
    """
    files = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        files[name] = {
            "bytes": os.path.getsize(path),
            # Read back from the system's cache while it writes to the disk.
            "sha256": atomic_files.digest(path),
        }
    values = dict(state) | {_FILES: files}
    atomic_files.write_json(
        os.path.join(folder, STATE), values | {_OWN: _own_sum(values)}
    )


def read_state(folder: str) -> dict:
    """Returns the content of a folder's state.json.

    Raises:
      DamagedError: if it is missing, or not what was written.
    """
    with _faults_named(folder, STATE):
        try:
            state = atomic_files.read_json(os.path.join(folder, STATE))
        except ValueError as error:
            raise damaged(folder, f"{STATE} is no JSON") from error
    if not isinstance(state, dict):
        raise damaged(folder, f"{STATE} is no JSON object")
    if state.pop(_OWN, None) != _own_sum(state):
        raise damaged(folder, f"{STATE} is not what was written")
    return state


def check(folder: str, names: Collection[str] | None = None) -> None:
    """Checks files against their sha256: reads every byte of them.

    Args:
      folder: with or without sums.
      names: of files; what has no sum is not checked. All if None.

    Raises:
      DamagedError: that names the folder, the file and what is wrong.
    """
    for name, expected in _sums(folder).items():
        if names is None or name in names:
            _check(folder, name, expected, is_quick=False)


def check_quickly(folder: str) -> None:
    """Checks all sizes, and the sha256 of what is small.

    A changed bit in weights is not seen; who reads them sees it.

    Raises:
      DamagedError: that names the folder, the file and what is wrong.
    """
    for name, expected in _sums(folder).items():
        _check(folder, name, expected, is_quick=True)


def _sums(folder: str) -> dict[str, dict]:
    """Returns name -> bytes and sha256, {} without a state.json."""
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
    """Turns what the system says of a file into damage, if it is one."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise damaged(folder, f"{name} is missing") from None
    except OSError as error:
        # A disk that fails. What may pass, as too many open files, is none.
        if error.errno not in (errno.EIO, errno.EISDIR):
            raise
        what = f"{name} cannot be read ({error.strerror})"
        raise damaged(folder, what) from error


def _fault(path: str, expected: Mapping, *, is_quick: bool) -> str | None:
    """Returns the fault of a file; None for none."""
    size = os.path.getsize(path)
    if size != expected["bytes"]:
        return f"has {size} bytes, written were {expected['bytes']}"
    if is_quick and size > _QUICK_BYTES:
        return None
    sha256 = atomic_files.digest(path)
    if sha256 != expected["sha256"]:
        return (
            f"has been changed: its sha256 is {sha256}, written was "
            f"{expected['sha256']}"
        )
    return None
