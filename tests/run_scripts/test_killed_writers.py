"""A writer of a model is killed -> the next one leaves only the model."""

import os
import pathlib
import subprocess
import sys
import time

import exports
import pytest

from run_scripts import convert_checkpoint, export_savedmodel

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "model"
    model = exports.make_model("classification")
    exports.save_model(model, "classification", folder)
    return folder


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (
            convert_checkpoint,
            "--from={} --to=hugging_face --output_dir={}",
        ),
        pytest.param(
            export_savedmodel,
            "--model_dir={} --export_dir={}",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_next_command_removes_what_a_killed_one_left(
    script, flags, model_dir, tmp_path
):
    name = script.__name__
    words = flags.format(model_dir, tmp_path / "out").split()
    process = subprocess.Popen(
        [sys.executable, "-m", name, *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    while not os.listdir(tmp_path):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    process.kill()
    process.communicate()
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".out.")
    script.main([name, *words])
    assert os.listdir(tmp_path) == ["out"]
