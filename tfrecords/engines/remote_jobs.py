"""Jobs on other machines -> their results, or user errors.

The machines of a cluster read and write the same folder under the same path: a
network file system, or a store that all of them reach. Every job checks this
first.
"""

import contextlib
import errno
import functools
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tfrecords.engines import processes
from tfrecords.io import storage


class Marker(NamedTuple):
    """A file written by the driver, which every machine must see."""

    path: str
    driver: str  # Host name of the driver, for messages.

    def check(self) -> None:
        """Raises ValueError on a machine that does not see the file."""
        if not storage.exists(self.path):
            raise ValueError(
                f"{socket.gethostname()} does not see {self.path!r}, which the "
                f"driver on {self.driver} wrote. All machines need input "
                "files, vocabulary and --output_dir under the same paths: put "
                "them on a shared file system, then run the same command again."
            )


class Failed(NamedTuple):
    """Returned instead of a result: an error that a retry cannot fix."""

    error: Exception


def checked(result: Any) -> Any:
    """Returns a result of `attempt`, or raises the error of a `Failed`."""
    if isinstance(result, Failed):
        raise result.error
    return result


@contextlib.contextmanager
def marker_in(folder: str) -> Iterator[Marker]:
    """Yields a marker in a folder; makes the folder if necessary."""
    storage.make_folder(folder)
    folder = storage.absolute_path(folder)
    path = os.path.join(folder, f"shared-{secrets.token_hex(8)}")
    with storage.atomic_file(path, "wb"):
        pass
    try:
        yield Marker(path, socket.gethostname())
    finally:
        storage.remove(path)


def attempt(function: Callable[[Any], Any], marker: Marker, job: Any) -> Any:
    """Runs a job on this machine.

    Returns:
      Its result, or `Failed` for an error that the user has to fix.

    Raises:
      Exception: any other error, which may not occur on another machine.
    """
    _prepare()
    try:
        marker.check()
        return function(job)
    except ValueError as error:
        return Failed(error)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Failed(error)
        raise


_prepare = functools.cache(processes.use_one_core)
