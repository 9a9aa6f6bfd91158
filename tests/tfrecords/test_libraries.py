"""libraries.py: what fits together, and what an import writes to stderr."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

from tfrecords import libraries

ROOT = pathlib.Path(__file__).parents[2]
REQUIRES = ["absl-py>=1.0.0", "protobuf<8.0.0,>=6.31.1"]


FITTING = {
    "tensorflow": "2.21.0",
    "tensorflow-text": "2.21.1",
    "protobuf": "7.36.2",
}


def installed(monkeypatch, versions):
    """Lets only these packages be installed."""

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIRES)


def test_what_is_installed_here_fits():
    libraries.check()
    assert libraries.version("tensorflow") >= "2.20"
    assert libraries.version("no such package") is None


@pytest.mark.parametrize("versions", [FITTING, {"tensorflow-tpu": "2.20.0"}])
def test_what_fits_and_other_names_of_tensorflow_pass(monkeypatch, versions):
    installed(monkeypatch, versions)
    libraries.check()


@pytest.mark.parametrize(
    "text, found", [("2.20.1", "2.20.1 is"), (None, "none is")]
)
def test_tensorflow_text_of_another_minor_is_named(monkeypatch, text, found):
    versions = FITTING | {"tensorflow-text": text}
    installed(monkeypatch, {name: v for name, v in versions.items() if v})
    with pytest.raises(ImportError) as raised:
        libraries.check()
    assert str(raised.value) == (
        f"TensorFlow 2.21.0 needs TensorFlow Text 2.21; {found} installed. "
        "pip install 'tensorflow-text==2.21.*'"
    )


@pytest.mark.parametrize("version", ["5.29.4", "6.9.2", "6.31.0rc1"])
def test_an_old_protobuf_is_named(monkeypatch, version):
    installed(monkeypatch, FITTING | {"protobuf": version})
    with pytest.raises(ImportError) as raised:
        libraries.check()
    assert str(raised.value) == (
        "TensorFlow 2.21.0 needs protobuf<8.0.0,>=6.31.1; "
        f"{version} is installed. pip install 'protobuf<8.0.0,>=6.31.1'"
    )


def test_an_old_python_is_named(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(ImportError, match=r"^bert_tf needs Python 3.10 to 3.1"):
        libraries.check()


def test_versions_of_records_are_those_installed():
    found = libraries.of_records("no such package")
    version = importlib.metadata.version("tensorflow-text")
    assert found == {"tensorflow-text": version}


def test_a_missing_extra_is_named():
    with pytest.raises(ValueError) as raised:
        with libraries.extra("parquet", "Reading a.parquet"):
            import no_such_module  # noqa: F401
    assert str(raised.value) == (
        "Reading a.parquet needs no_such_module, which is not installed: "
        "pip install 'bert_tf[parquet]'."
    )


def test_every_named_extra_exists():
    named = set()
    for package in ("bert_tf", "tfrecords", "run_scripts"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8")
            for part in text.split('libraries.extra("')[1:]:
                named.update(part.partition('"')[0].split(","))
    assert {"pretraining", "parquet", "explore"} <= named
    provided = importlib.metadata.metadata("bert_tf").get_all("Provides-Extra")
    assert named <= set(provided)


def test_a_command_says_it_in_one_line(tmp_path):
    """In front of a TensorFlow Text of another minor, without a traceback."""
    folder = tmp_path / "tensorflow_text-2.19.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow-text\nVersion: 2.19.0\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "run_scripts.predict", "--help"],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: TensorFlow 2.2")
    assert "2.19.0 is installed. pip install 'tensorflow-text==2.2" in line


def test_what_removes_docstrings_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "run_scripts.make_vocab", "--help"],
        cwd=ROOT,
        env=os.environ | {"PYTHONOPTIMIZE": "2"},
        capture_output=True,
        text=True,
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout
    assert line.startswith("error: TensorFlow Text needs its docstrings, which")


# Hooks of imports.

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
from tfrecords import libraries

libraries.quiet_tensorflow()
importlib.util.find_spec("tensorflow")  # As libraries see what is there.
import tensorflow
import tensorflow
sys.stderr.write("after")
print(tensorflow.VALUE, len([x for x in sys.meta_path if "Hook" in repr(x)]))
"""


def run_program(folder, end):
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
    done = run_program(tmp_path, "")
    assert done.returncode == 0
    assert done.stdout.decode() == "3 0\n"
    assert done.stderr.decode().split("\n") == [*KEPT, "after"]


@pytest.mark.parametrize(
    "end, status", [("os.abort()", -6), ("raise ImportError('no')", 1)]
)
def test_the_reason_of_a_failed_import_is_kept(tmp_path, end, status):
    done = run_program(tmp_path, end)
    assert done.returncode == status and not done.stdout
    lines = done.stderr.decode().splitlines()
    assert lines[:2] == KEPT
    assert (lines[-1] == "ImportError: no") == (status == 1)


def test_tensorflow_is_imported_without_keras_which_can_follow(tmp_path):
    code = """
import sys
from tfrecords import libraries
libraries.quiet_tensorflow()
libraries.leave_out_keras()
import tensorflow
import keras
libraries.leave_out_keras()  # Too late: it does nothing.
print(tensorflow.VALUE, keras.VALUE, "tensorflow_text" in sys.modules)
print(len([x for x in sys.meta_path if "Hook" in repr(x)]))
"""
    (tmp_path / "keras.py").write_text("VALUE = 'later'")
    (tmp_path / "tensorflow.py").write_text(
        "try:\n    import keras\n    VALUE = 'with'\n"
        "except ImportError:\n    VALUE = 'without'\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    found = subprocess.check_output(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
    )
    assert found.split() == ["without", "later", "False", "0"]


def test_a_module_that_is_missing_stays_missing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'tensorflow'"


@pytest.mark.parametrize("value", ["1", "true"])
def test_legacy_keras_is_refused_by_the_name_of_its_variable(
    monkeypatch, value
):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
    installed(monkeypatch, FITTING | {"tf-keras": "2.21.0"})
    libraries.check()
    installed(monkeypatch, FITTING)
    with pytest.raises(ImportError, match="TF_USE_LEGACY_KERAS asks"):
        libraries.check()


def test_keras_is_imported_without_libraries_that_stay_at_hand(tmp_path):
    (tmp_path / "sklearn.py").write_text("")
    (tmp_path / "keras.py").write_text(
        "try:\n    import sklearn\n    found = True\n"
        "except ImportError:\n    found = False\n"
        "import gc\nassert not gc.isenabled()\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from tfrecords import libraries; libraries.lean_imports(); "
            "import gc, keras, sklearn; "
            "print(keras.found, sklearn.__name__, gc.isenabled())",
        ],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False sklearn True\n", done.stderr
