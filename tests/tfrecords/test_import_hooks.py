"""import_hooks.py: which lines of an import reach stderr."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTES = [
    "WARNING: All log messages before absl::InitializeLog() is called are w",
    "I0000 00:00:1795656872.296581   29045 port.cc:153] oneDNN custom ope",
]
KEPT = [
    "E0000 00:00:1795656885.382102   29045 cuda_platform.cc:52] failed call",
    "no notes: \N{LATIN SMALL LETTER U WITH DIAERESIS} I0000",
]
PROGRAM = """
import importlib.util
import sys
from tfrecords import import_hooks

import_hooks.quiet_tensorflow()
importlib.util.find_spec("tensorflow")  # As libraries see what is there.
import tensorflow
import tensorflow
sys.stderr.write("after")
print(tensorflow.VALUE, len([x for x in sys.meta_path if "Hook" in repr(x)]))
"""


def run(folder, end):
    """Runs PROGRAM with a module `tensorflow` that writes and then ends so."""
    lines = "\n".join(NOTES + KEPT) + "\n"
    (folder / "tensorflow.py").write_text(
        f"import os\nos.write(2, {lines.encode()!r})\nVALUE = 3\n{end}\n"
    )
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
    )


def test_notes_are_dropped_and_all_else_is_kept(tmp_path):
    done = run(tmp_path, "")
    assert done.returncode == 0
    assert done.stdout.decode() == "3 0\n"
    assert done.stderr.decode().split("\n") == [*KEPT, "after"]


@pytest.mark.parametrize(
    "end, status", [("os.abort()", -6), ("raise ImportError('no')", 1)]
)
def test_the_reason_of_a_failed_import_is_kept(tmp_path, end, status):
    done = run(tmp_path, end)
    assert done.returncode == status and not done.stdout
    lines = done.stderr.decode().splitlines()
    assert lines[:2] == KEPT
    assert (lines[-1] == "ImportError: no") == (status == 1)


def test_a_module_that_is_missing_stays_missing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'tensorflow'"
