"""libraries.py: what fits together, and what names the missing extra."""

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
    assert {"pretraining", "plots", "parquet", "explore"} <= named
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
