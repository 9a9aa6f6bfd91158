"""A local folder -> a store, gs://, with the functions of tf.io.gfile.

Like an object store it has no folders of its own and renames only files. It
stands in for tf.io.gfile in `tfrecords.io.storage`; TensorFlow's ram:// takes
every prefix of a name for a folder.
"""

import contextlib
import errno
import glob
import os
import shutil
import stat
import types

from tfrecords.io import storage

SCHEME = "gs://"


class FolderStore:
    """The store; addresses are paths in the folder `top`."""

    def __init__(self, top):
        self.top = str(top)

    def _path(self, address):
        if not address.startswith(SCHEME):
            return address  # A local file, to copy from.
        if "//" in address.removeprefix(SCHEME):
            raise FileNotFoundError(errno.ENOENT, "has an empty part", address)
        return os.path.join(self.top, address.removeprefix(SCHEME))

    def _address(self, path):
        return SCHEME + os.path.relpath(path, self.top)

    def exists(self, address):
        return os.path.exists(self._path(address))

    def isdir(self, address):
        return os.path.isdir(self._path(address))

    def glob(self, pattern):
        return [self._address(p) for p in glob.glob(self._path(pattern))]

    def listdir(self, address):
        return os.listdir(self._path(address))

    def stat(self, address):
        state = os.stat(self._path(address))
        return types.SimpleNamespace(
            length=state.st_size,
            mtime_nsec=state.st_mtime_ns,
            is_directory=stat.S_ISDIR(state.st_mode),
        )

    def remove(self, address):
        path = self._path(address)
        os.remove(path)
        # A folder without objects does not exist.
        with contextlib.suppress(OSError):
            while path := os.path.dirname(path):
                os.rmdir(path)

    def rmtree(self, address):
        shutil.rmtree(self._path(address))

    def rename(self, source, target, overwrite):
        assert overwrite
        if self.isdir(source):
            raise OSError(errno.ENOTSUP, "stores do not rename folders", source)
        self._make_parent(target)
        os.replace(self._path(source), self._path(target))

    def copy(self, source, target, overwrite):
        assert overwrite
        self._make_parent(target)
        shutil.copyfile(self._path(source), self._path(target))

    def _make_parent(self, address):
        os.makedirs(os.path.dirname(self._path(address)), exist_ok=True)

    def GFile(self, address, mode):  # noqa: N802, named as in TensorFlow.
        self._make_parent(address)
        return open(self._path(address), mode)


def use(top) -> None:
    """Makes `storage` use a FolderStore, in place of all stores."""
    store = FolderStore(top)
    storage._gfile = lambda path: contextlib.nullcontext(store)
