"""A file or folder in a store <-> its copy on this machine.

TensorFlow's readers and writers know stores such as gs://, most libraries do
not. So inputs in a store are read from local copies; and a script works in a
local folder, whose changes are copied to the store in commits.

A commit changes many files at once, although a store can only write, rename and
remove single ones. New contents are written to `<folder>/.commit/<token>/`;
then `.commit/commit.json` lists them, and the files to remove; then each file
gets its place. Killed before commit.json is there, a writer changed nothing;
killed later, it has changed everything: the next writer finishes the commit,
and readers take the files of the list from where they are.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from absl import logging
from tqdm import tqdm

from tfrecords import options
from tfrecords.io import atomic_files, json_files, leases, storage

CACHE_VARIABLE = "BERT_TF_CACHE_DIR"
_COMMIT = ".commit"
_LIST = f"{_COMMIT}/commit.json"
# Forms of its entries, see `json_files.check`.
_LISTED = {"token": str, "files": [str], "removed": [str]}
# Files of the processes that use a folder, not of its content.
_NOT_CONTENT = (leases.NAME, leases.LOCK)
_SECONDS_WITHOUT_BAR = 3
_BLOCK_BYTES = 1 << 23
_SMALL_BYTES = 1 << 24  # More than any config or vocabulary has.
_ATTEMPTS = 3  # A writer may move files between their listing and reading.


class _File(NamedTuple):
    path: str  # Where it is in the store.
    version: tuple[int, int]  # Size, modification time in ns.


class _ChangedError(OSError):
    """A file changed size while it was copied."""


def cache_dir() -> str:
    """Returns the folder for local copies: $BERT_TF_CACHE_DIR, or a default."""
    default = os.path.join(os.path.expanduser("~"), ".cache", "bert_tf")
    given = os.environ.get(CACHE_VARIABLE, "")
    options.check_path(f"${CACHE_VARIABLE}", given)
    return os.path.abspath(given or default)


def _copy_path(folder: str, address: str) -> str:
    scheme, _, rest = address.partition("://")
    return _inside(os.path.join(cache_dir(), folder, scheme), rest.strip("/"))


def _inside(folder: str, name: str) -> str:
    """Returns the path of an object in a local folder, never one outside."""
    parts = name.split("/")
    if {"", ".", ".."} & set(parts):
        raise ValueError(
            f"{name!r} in a store has an empty part, . or .., and so cannot be "
            "copied to a folder. Correct the address, or rename it."
        )
    return os.path.join(folder, *parts)


def fetch(path: str) -> str:
    """Returns the path of a local file or folder with the content of `path`.

    Files that were copied before, and have the same size and modification time
    in the store, are not copied again.

    Args:
      path: a local path, which is returned as it is; or an address in a store,
        of a file or folder, or the prefix of a TensorFlow checkpoint, whose
        folder is copied without other large files; or a glob of files, for
        which their paths are returned, separated by commas.

    Raises:
      FileNotFoundError: if it does not exist.
      OSError: if the store cannot be reached, or a file changes.
    """
    if storage.is_local(path):
        return path
    path = path.rstrip("/")  # In gs://, folder//name is not folder/name.
    target = _copy_path("inputs", path)
    if storage.is_folder(path):
        _fetch_folder(path, target)
    elif storage.exists(path):
        _fetch_file(_File(path, storage.version(path)), target)
    elif found := sorted(storage.find(path)):
        return ",".join(map(fetch, found))
    else:
        return _fetch_prefix(path)
    return target


def _fetch_prefix(address: str) -> str:
    """Copies a TensorFlow checkpoint, its config and its vocabulary."""
    folder, _, prefix = address.rpartition("/")
    names = storage.names_in(folder)
    if not any(name.startswith(f"{prefix}.") for name in names):
        raise FileNotFoundError(
            errno.ENOENT, os.strerror(errno.ENOENT), address
        )
    wanted = {}
    for name in names:
        path = f"{folder}/{name}"
        if not storage.is_folder(path):
            file = _File(path, storage.version(path))
            if name.startswith(prefix) or file.version[0] <= _SMALL_BYTES:
                wanted[name] = file
    _fetch_files(wanted, _copy_path("inputs", folder))
    return _copy_path("inputs", address)


def _fetch_files(files: Mapping[str, _File], folder: str) -> None:
    """Copies files to a local folder, with a progress bar if it takes long."""
    sizes = [file.version[0] for file in files.values()]
    with tqdm(
        total=sum(sizes),
        desc=f"copy to {folder}",
        unit="B",
        unit_scale=True,
        delay=_SECONDS_WITHOUT_BAR,
        disable=None,
    ) as bar:
        for name, file in files.items():
            _fetch_file(file, _inside(folder, name))
            bar.update(file.version[0])


def _fetch_file(source: _File, target: str) -> None:
    """Copies a file with its modification time, unless the copy has both."""
    size, time = source.version
    # Some stores, such as ram://, have no times.
    is_known = time and os.path.isfile(target)
    if is_known and storage.version(target) == source.version:
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with (
        storage.open_bytes(source.path) as file,
        atomic_files.atomic_file(target, "wb") as copy,
    ):
        shutil.copyfileobj(file, copy, _BLOCK_BYTES)
        if copy.tell() != size:
            raise _ChangedError(
                errno.EIO,
                f"{copy.tell()} bytes were read instead of {size}: it is "
                "truncated, or changes. Run the same command again",
                source.path,
            )
    os.utime(target, ns=(time, time))


def _fetch_folder(address: str, target: str) -> None:
    """Makes a local folder equal to one in a store."""
    for _ in range(_ATTEMPTS):
        try:
            stored = _list_stored(address)
            _fetch_files(stored, target)
            if _list_stored(address) == stored:
                break
        except (FileNotFoundError, _ChangedError) as error:
            logging.info("copying again, as a file has changed: %s", error)
    else:
        raise OSError(
            errno.EBUSY,
            "changes while it is copied. Run the same command again later",
            address,
        )
    for name in _content(target).keys() - stored.keys():
        os.remove(os.path.join(target, name))
    for folder, _, _ in os.walk(target, topdown=False):
        with contextlib.suppress(OSError):  # Not empty.
            os.rmdir(folder)


def _content(folder: str) -> dict[str, tuple[int, int]]:
    """Returns name -> `storage.version` of the content of a local folder."""
    found = storage.files_in(folder)
    return {n: v for n, v in found.items() if n not in _NOT_CONTENT}


def _list_stored(address: str) -> dict[str, _File]:
    """Returns name -> file of a folder, as the last commit has left it."""
    found = storage.files_in(address)
    files = {
        name: _File(f"{address}/{name}", version)
        for name, version in found.items()
        if not name.startswith(f"{_COMMIT}/") and name not in _NOT_CONTENT
    }
    if _LIST in found:
        listed = _read_list(address)
        for name in listed["files"]:
            aside = f"{_COMMIT}/{listed['token']}/{name}"
            if aside in found:
                files[name] = _File(f"{address}/{aside}", found[aside])
        for name in listed["removed"]:
            files.pop(name, None)
    return files


def _read_list(address: str) -> dict:
    path = f"{address}/{_LIST}"
    with storage.open_bytes(path) as file:
        return json_files.parse(file.read(), path, _LISTED)


class StoredFolder:
    """A folder in a store, and a local folder that is worked in instead.

    Args:
      address: address of the folder, which need not exist.

    Attributes:
      path: the local folder, equal to that in the store after `pull`.
    """

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        self.path = _copy_path("outputs", self.address)
        # If it is missing, the local folder was emptied: not a change to copy.
        name = hashlib.sha256(self.address.encode()).hexdigest()
        self._mark = os.path.join(cache_dir(), "outputs", "marks", name)
        self._stored: dict[str, tuple[int, int]] = {}

    def pull(self) -> None:
        """Makes the local folder equal to that in the store.

        Changes of an earlier process that were not committed are lost.

        Raises:
          OSError: if the store cannot be reached.
        """
        self._finish()
        storage.remove_leftovers(self.address)
        _fetch_folder(self.address, self.path)
        os.makedirs(self.path, exist_ok=True)
        self._stored = _content(self.path)
        os.makedirs(os.path.dirname(self._mark), exist_ok=True)
        with atomic_files.atomic_file(self._mark) as file:
            file.write(f"{self.path} is a copy of {self.address}.\n")

    def commit(self, check: Callable[[], None] = lambda: None) -> None:
        """Makes the folder in the store equal to the local one, as one change.

        Args:
          check: called before the change; raises an error if this process may
            not write any more.

        Raises:
          OSError: if the store cannot be reached; its folder is then as before,
            or the next `pull` finishes the change. Or if the local folder was
            removed.
        """
        found = _content(self.path)
        if not os.path.exists(self._mark) or (self._stored and not found):
            raise OSError(
                errno.ENOENT,
                "was removed while it was in use. Nothing is removed from "
                f"{self.address}; run the same command again",
                self.path,
            )
        changed = [n for n, v in found.items() if self._stored.get(n) != v]
        removed = sorted(self._stored.keys() - found.keys())
        if not changed and not removed:
            return
        check()
        self._finish()  # If an error has interrupted the last commit.
        token = secrets.token_hex(8)
        for name in changed:
            source = os.path.join(self.path, name)
            storage.copy(source, f"{self.address}/{_COMMIT}/{token}/{name}")
        check()  # Copying may have taken long.
        listed = {"token": token, "files": changed, "removed": removed}
        with storage.atomic_file(f"{self.address}/{_LIST}") as file:
            json.dump(listed, file)
        self._stored = found
        self._finish()

    def _finish(self) -> None:
        """Finishes the commit of a writer that was killed, or undoes it."""
        commit = f"{self.address}/{_COMMIT}"
        if storage.exists(f"{self.address}/{_LIST}"):
            listed = _read_list(self.address)
            for name in listed["files"]:
                aside = f"{commit}/{listed['token']}/{name}"
                if storage.exists(aside):  # Otherwise it was moved before.
                    storage.move(aside, f"{self.address}/{name}")
            for name in listed["removed"]:
                storage.remove(f"{self.address}/{name}")
            # Last: without it, what is left is no commit.
            storage.remove(f"{self.address}/{_LIST}")
        storage.remove_folder(commit)


class Outputs:
    """The outputs of a script that are in stores; see `outputs`."""

    def __init__(self, stack: contextlib.ExitStack):
        self._files: dict[str, str] = {}  # Address -> local path.
        self._folders: dict[str, tuple[StoredFolder, leases.Lease]] = {}
        self._stack = stack  # Releases the leases.

    def open_file(self, address: str) -> str:
        """Returns the local path of a file to write instead of another.

        Raises:
          ValueError: if the store cannot be written to safely.
          OSError: if it cannot be written to at all, which a small file that
            is removed again shows before the work.
        """
        _check(address)
        # Also raises if the store cannot be reached.
        if address.endswith("/") or storage.is_folder(address):
            raise IsADirectoryError(
                errno.EISDIR, os.strerror(errno.EISDIR), address
            )
        folder, _, name = address.rpartition("/")
        trial = f"{folder}/.{name}.{secrets.token_hex(8)}.tmp"
        try:
            with storage.atomic_file(trial, "wb"):
                pass
            storage.remove(trial)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot be written ({error.strerror}). Check that the bucket "
                "or folder exists, and that you may write to it",
                address,
            ) from error
        path = _copy_path("outputs", address)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)  # Of an earlier process.
        self._files[address] = path
        return path

    def open_folder(self, address: str) -> str:
        """Returns the local path of a folder to work in instead of another.

        Raises:
          ValueError: if another process works in the folder, or the store
            cannot be written to safely.
          OSError: if the store cannot be reached.
        """
        _check(address)
        address = address.rstrip("/")
        for other in self._folders.keys() - {address}:
            if f"{other}/".startswith(f"{address}/") or (
                address.startswith(f"{other}/")
            ):
                raise ValueError(
                    f"{address} and {other} overlap: one is inside the other. "
                    "Omit one of the flags, or give separate folders."
                )
        if address not in self._folders:
            lease = self._stack.enter_context(leases.Lease(address))
            folder = StoredFolder(address)
            folder.pull()
            self._folders[address] = folder, lease
        return self._folders[address][0].path

    def commit(self) -> None:
        """Copies all changes to the stores, those of a folder as one change.

        Raises:
          ValueError: if another process has taken the lease of a folder.
          OSError: if a store cannot be reached. The next commit copies what
            this one did not.
        """
        for folder, lease in self._folders.values():
            folder.commit(lease.check)
        for address, path in list(self._files.items()):
            if os.path.exists(path):
                with (
                    open(path, "rb") as file,
                    storage.atomic_file(address, "wb") as copy,
                ):
                    shutil.copyfileobj(file, copy, _BLOCK_BYTES)


def _check(address: str) -> None:
    """Raises ValueError if outputs cannot be in a store."""
    storage.check_writable(address)
    if address.startswith("ram:"):
        raise ValueError(
            f"{address} is in the memory of this process, and would be lost at "
            "its end. Give a folder on a disk or in another store."
        )


_current: Outputs | None = None


@contextlib.contextmanager
def outputs() -> Iterator[Outputs]:
    """Yields the outputs in stores, and commits them at the end.

    They are also committed if the body fails, since a run writes nothing that
    is incomplete, so that it resumes from there.
    """
    global _current
    with contextlib.ExitStack() as stack:
        _current = found = Outputs(stack)
        try:
            yield found
        finally:
            _current = None
            found.commit()


def open_output(path: str, what: str) -> str:
    """Returns the local path to write to; `path` itself if it is local.

    Args:
      path: path or address of an output.
      what: "file" or "folder".

    Raises:
      ValueError, OSError: as the methods of `Outputs`.
    """
    if storage.is_local(path) or path == "-":
        return path
    if _current is None:
        raise RuntimeError(f"{path} can be written only within `outputs`.")
    if what == "file":
        return _current.open_file(path)
    return _current.open_folder(path)


def commit() -> None:
    """Commits the outputs of this process that are in stores, if any.

    Raises:
      ValueError, OSError: as `Outputs.commit`.
    """
    if _current:
        _current.commit()


def address(text: str) -> str:
    """Returns a text with addresses in place of the paths of local copies."""
    top = re.escape(cache_dir() + os.sep)
    return re.sub(rf"{top}(?:inputs|outputs)/([^/,]+)/", r"\1://", text)


def check_kept(source: str, folder: str) -> None:
    """Raises ValueError if replacing a folder would remove the source."""
    kept, replaced = (
        os.path.realpath(address(name)) for name in (source, folder)
    )
    if os.path.commonpath([kept, replaced]) == replaced:
        raise ValueError(
            f"{folder} contains the source, {source}, which would be replaced. "
            "Choose another folder."
        )
