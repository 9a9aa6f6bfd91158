"""Installed libraries -> their versions, or an error with the command to run.

Imported before everything else, by every supported and unsupported Python: it
imports nothing but the standard library.
"""

import contextlib
import importlib.metadata
import re
import sys

_OLDEST_PYTHON = (3, 10)
# Their versions can change tokens, and so records.
_TENSORFLOW_TEXT = "tensorflow-text"


def check():
    """Checks that Python, TensorFlow, TensorFlow Text and protobuf fit.

    Without it their imports fail with undefined symbols, or later. Reads their
    metadata only, in 20 ms.

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
