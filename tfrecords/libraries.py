"""Installed libraries -> their versions, errors and hooks of their imports.

Imported before everything else, by every supported and unsupported Python: it
imports nothing but the standard library.
"""

import atexit
import contextlib
import functools
import gc
import importlib.abc
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import types

_OLDEST_PYTHON = (3, 10)
# Their versions can change tokens, and so records.
_TENSORFLOW_TEXT = "tensorflow-text"
# Lines of the C++ logger at level INFO, and its warning about itself.
_NOTES = r"^(I[0-9]{4} [0-9:.]+ |WARNING: All log messages before absl::Init)"


def check():
    """Checks that Python, TensorFlow, TensorFlow Text and protobuf fit.

    Without it their imports fail later, or with errors that do not name the
    cause. Reads their metadata only, in 20 ms.

    Raises:
      ImportError: if they do not, with the command that installs what does.
    """
    if sys.version_info < _OLDEST_PYTHON:
        raise ImportError(
            "bert_tf needs Python 3.10 to 3.13; this is Python {}.{}. Install "
            "one of these, and make an environment with it.".format(
                *sys.version_info
            )
        )
    if sys.flags.optimize > 1:
        raise ImportError(
            "TensorFlow Text needs its docstrings, which PYTHONOPTIMIZE=2 and "
            "python -OO remove. Unset it, or use PYTHONOPTIMIZE=1."
        )
    # TensorFlow's own condition; the import of TensorFlow Text fails with it.
    is_legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")
    if is_legacy and not version("tf-keras"):
        raise ImportError(
            "TF_USE_LEGACY_KERAS asks TensorFlow for tf_keras, which is not "
            "installed. Unset it: bert_tf uses Keras 3."
        )
    tensorflow = version("tensorflow")
    # TensorFlow of another name, such as tensorflow-tpu, is not checked.
    if not tensorflow:
        return
    text, wanted = version(_TENSORFLOW_TEXT), _minor(tensorflow)
    if not text or _minor(text) != wanted:
        found = f"{text} is" if text else "none is"
        raise ImportError(
            f"TensorFlow {tensorflow} needs TensorFlow Text {wanted}; {found} "
            f"installed. pip install '{_TENSORFLOW_TEXT}=={wanted}.*'"
        )
    protobuf = version("protobuf") or "0"
    for line in importlib.metadata.requires("tensorflow") or ():
        oldest = re.match(r"protobuf\b.*>=([0-9.]+)", line)
        if oldest and _numbers(protobuf) < _numbers(oldest[1]):
            raise ImportError(
                f"TensorFlow {tensorflow} needs {line}; {protobuf} is "
                f"installed. pip install '{line}'"
            )


def _minor(version_):
    """Returns 2.20 for 2.20.1."""
    return ".".join(version_.split(".")[:2])


def _numbers(version_):
    """Returns (6, 31, 1) for 6.31.1."""
    return [int(number) for number in re.findall(r"[0-9]+", version_)]


def version(name):
    """Returns the installed version of a package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def of_records(*names):
    """Returns the versions that tokens of records depend on, by name.

    Args:
      *names: further packages, such as the one that splits sentences.
    """
    found = {name: version(name) for name in (_TENSORFLOW_TEXT, *names)}
    return {name: found[name] for name in found if found[name]}


@contextlib.contextmanager
def extra(name, purpose):
    """Context for imports of libraries that only an extra installs.

    Args:
      name: the extra in setup.py that has the library.
      purpose: subject of the message, such as "--runner=beam".

    Raises:
      ValueError: if one is missing, with the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{purpose} needs {error.name}, which is not installed: "
            f"pip install 'bert_tf[{name}]'."
        ) from error


def quiet_tensorflow():
    """Lets the next import of TensorFlow, if it is the first, be quiet.

    TensorFlow 2.21 writes notes that no GPU was found, and that oneDNN is used,
    before it reads TF_CPP_MIN_LOG_LEVEL (tensorflow#100442).
    """
    sys.meta_path.insert(0, Hook("tensorflow", _load_quietly))


def lean_imports():
    """Lets the next imports of TensorFlow and Keras, if the first, be quick.

    If they are installed, Keras imports Matplotlib and scikit-learn, for plots
    and wrappers that no command uses: 1.2 of 4.1 seconds. Collections of
    garbage, of which an import leaves none, take 0.5 of them; and 1.1 seconds
    at the end of the process, which then searches all that was imported.
    """
    atexit.register(gc.freeze)
    execute = functools.partial(_load_without, {"matplotlib", "sklearn"})
    for name in ("tensorflow", "keras"):
        sys.meta_path.insert(0, Hook(name, execute))


def leave_out_keras():
    """Lets the next import of TensorFlow, if it is the first, leave out Keras.

    For processes that make no model: Keras and what it imports are a third of
    the time of the import, and 100 MB. It cannot be imported as part of
    TensorFlow, `tensorflow.keras`, afterwards.
    """
    if "tensorflow" not in sys.modules:
        # Layers of Keras, which TensorFlow Text would import.
        name = "tensorflow_text.python.keras"
        sys.modules.setdefault(name, types.ModuleType(name))
        execute = functools.partial(_load_without, {"keras"})
        sys.meta_path.insert(0, Hook("tensorflow", execute))


class Hook(importlib.abc.MetaPathFinder):
    """Wraps the import of a library: a finder for `sys.meta_path`.

    It removes itself when the library is imported.

    Args:
      name: name of the library.
      execute: called with the loader's `exec_module` and the module, to call
        the one with the other.
    """

    def __init__(self, name, execute):
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

    def _execute(self, load, module):
        """Executes the module; the hook is no longer needed."""
        with contextlib.suppress(ValueError):  # Another spec was executed.
            sys.meta_path.remove(self)
        self.execute(load, module)


def _load_quietly(load, module):
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


def _load_without(names, load, module):
    """Executes a module for which libraries of these names are not there."""
    hidden = names - sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden))  # Their imports fail.
    collects = gc.isenabled()  # One of the two may import the other.
    gc.disable()
    try:
        load(module)
    finally:
        if collects:
            gc.enable()
        for name in hidden:
            del sys.modules[name]
