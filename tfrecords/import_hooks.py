"""Name of a library, function -> the function wraps its next import."""

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import subprocess
import sys
import types
from collections.abc import Callable

# Lines of the C++ logger at level INFO, and its warning about itself.
_NOTES = r"^(I[0-9]{4} [0-9:.]+ |WARNING: All log messages before absl::Init)"


def quiet_tensorflow() -> None:
    """Lets the next import of TensorFlow, if it is the first, be quiet.

    TensorFlow 2.21 writes notes that no GPU was found, and that oneDNN is used,
    before it reads TF_CPP_MIN_LOG_LEVEL (tensorflow#100442).
    """
    sys.meta_path.insert(0, Hook("tensorflow", _load_quietly))


class Hook(importlib.abc.MetaPathFinder):
    """Wraps the import of a library: a finder for `sys.meta_path`.

    It removes itself when the library is imported.

    Args:
      name: name of the library.
      execute: called with the loader's `exec_module` and the module, to call
        the one with the other.
    """

    def __init__(
        self, name: str, execute: Callable[[Callable, types.ModuleType], None]
    ):
        self.name = name
        self.execute = execute
        self.is_finding = False

    def find_spec(self, name, path=None, target=None):
        """Returns the library's spec; None for every other module.

        Others may ask for it to see whether the library is there.
        """
        if name != self.name or self.is_finding:
            return None
        self.is_finding = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_finding = False
        if spec and spec.loader:
            load = spec.loader.exec_module
            spec.loader.exec_module = functools.partial(self._execute, load)
        return spec

    def _execute(self, load: Callable, module: types.ModuleType) -> None:
        """Executes the module; the hook is no longer needed."""
        with contextlib.suppress(ValueError):  # Another spec was executed.
            sys.meta_path.remove(self)
        self.execute(load, module)


def _load_quietly(load, module) -> None:
    """Executes a module while another process filters stderr.

    Another process, since the import can abort this one: its reason still has
    to be shown.
    """
    try:
        filtering = subprocess.Popen(
            [
                "grep",
                "--line-buffered",
                "--text",
                "--invert-match",
                "-E",
                _NOTES,
            ],
            stdin=subprocess.PIPE,
            stdout=2,
        )
    except OSError:  # No grep, or no memory: the notes are shown.
        return load(module)
    stderr = os.dup(2)
    try:
        os.dup2(filtering.stdin.fileno(), 2)
        filtering.stdin.close()
        load(module)
    finally:
        os.dup2(stderr, 2)  # Closes the pipe, so that grep ends.
        os.close(stderr)
        filtering.wait()
