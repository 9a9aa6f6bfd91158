"""The wheel contains every file and works in a separate environment."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
PACKAGES = ("bert_tf", "tfrecords", "run_scripts")
# Files that the wheel is built from, besides the packages.
BUILD_FILES = ("setup.py", "pyproject.toml", "README.md")

pytestmark = pytest.mark.slow


def run(*command, **keywords):
    """Runs a command; shows its output if it fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        list(map(str, command)),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **keywords,
    )
    assert not done.returncode, done.stdout
    return done.stdout


def package_files():
    """Returns the paths of all files of the three packages."""
    return {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the checkout, which may keep `build/`."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in [*package_files(), *BUILD_FILES]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(
        *(*pip, "wheel", "--no-deps", "--no-build-isolation"),
        *("--no-index", "--wheel-dir", folder / "dist", folder),
        cwd=folder,
    )
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel, outside the checkout.

    What the wheel requires is not installed once more: a .pth file adds the
    site-packages of this interpreter behind those of the environment. Its own
    .pth files are not read then, so that an editable bert_tf stays unknown.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
        *("--python", python, "install", "--no-deps", "--no-index", wheel),
    )
    (packages,) = folder.glob("lib/python3*/site-packages")
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(paths)))
    return folder


def test_the_wheel_contains_every_file_of_the_packages(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = {n for n in file.namelist() if ".dist-info/" not in n}
    assert names == package_files()


def test_all_modules_and_commands_come_from_the_wheel(environment, tmp_path):
    """Imports every module and finds the function of every command."""
    program = """
import importlib, importlib.metadata, json, os, pkgutil, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
names = []
for package in sys.argv[1:]:
    names.append(package)
    path = importlib.import_module(package).__path__
    names += [m.name for m in pkgutil.walk_packages(path, f"{package}.")]
files = []
for name in names:
    if name.endswith("__main__"):
        continue
    try:
        files.append(importlib.import_module(name).__file__)
    except ModuleNotFoundError as error:  # Of an extra, such as keras_hub.
        if error.name.partition(".")[0] in sys.argv[1:]:
            raise
        files.append(importlib.util.find_spec(name).origin)
commands = importlib.metadata.distribution("bert_tf").entry_points
for command in commands:
    command.load()
report = {"files": files, "commands": [c.name for c in commands]}
print(json.dumps(report | {"path": list(map(os.path.abspath, sys.path))}))
"""
    python = environment / "bin" / "python"
    output = run(python, "-c", program, *PACKAGES, cwd=tmp_path)
    report = json.loads(output.splitlines()[-1])
    modules = [name for name in package_files() if name.endswith(".py")]
    mains = [name for name in modules if name.endswith("__main__.py")]
    assert len(report["files"]) == len(modules) - len(mains)
    assert all(
        pathlib.Path(path).is_relative_to(environment)
        for path in report["files"]
    )
    assert str(ROOT) not in report["path"]
    commands = {path.name for path in (environment / "bin").glob("bert-*")}
    assert commands == set(report["commands"])
    assert {"bert-make-vocab", "bert-quickstart"} <= commands


def test_commands_pretrain_outside_of_the_checkout(environment, tmp_path):
    def command(name, *flags):
        return run(environment / "bin" / name, *flags, cwd=tmp_path)

    printed = command("bert-make-vocab", "--help")
    assert "--vocab_size" in printed
    shutil.copyfile(DATA / "sentences.txt", tmp_path / "text.txt")
    command(
        "bert-make-vocab",
        *("--input_file=text.txt", "--output_file=vocab.txt"),
        "--vocab_size=200",
    )
    command(
        "bert-make-pretraining-records",
        *("--input_file=text.txt", "--vocab_file=vocab.txt"),
        *("--output_dir=records", "--held_out_prob=0.2"),
        *("--max_seq_length=32", "--max_predictions_per_seq=5"),
    )
    sizes = {
        "vocab_size": len((tmp_path / "vocab.txt").read_text().splitlines()),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
    }
    (tmp_path / "bert_config.json").write_text(json.dumps(sizes))
    command(
        "bert-run-pretraining",
        *("--input_file=records/train", "--eval_input_file=records/held_out"),
        *("--vocab_file=vocab.txt", "--bert_config_file=bert_config.json"),
        *("--output_dir=run", "--train_batch_size=4"),
        *("--num_train_steps=2", "--num_warmup_steps=1"),
    )
    results = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    assert results["step"] == 2
    assert results["masked_lm_loss"] > 0
