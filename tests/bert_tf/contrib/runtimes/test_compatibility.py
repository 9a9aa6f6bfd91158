"""The ONNX export that 022eb49 wrote, see tests/compatibility/make_files.py."""

import json
import os
import shutil
import subprocess
import sys

import exports
import numpy as np
import pytest
from compatibility import make_files


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("is_of_today", [False, True])
def test_an_export_gives_the_answers_of_022eb49(tmp_path, is_of_today):
    exports.need_format("onnx")
    old = make_files.FOLDER / "export_onnx"
    folder = tmp_path / "export_onnx"
    if is_of_today:
        model = make_files.FOLDER / "model"
        exports.write(model, folder, "--format=onnx", "--noreport")
        settings = json.loads((folder / "model.json").read_text("utf-8"))
        before = json.loads((old / "model.json").read_text("utf-8"))
        assert before.items() <= settings.items()
    else:
        shutil.copytree(old, folder)
    script = [sys.executable, "-B", str(folder / "predict.py")]
    if is_of_today:
        # On purpose, the lines of stdin are texts otherwise. The script of
        # 022eb49 had no flags and read an object wherever a line was one.
        script.append("--input_format=jsonl")
    process = subprocess.run(
        script,
        cwd=tmp_path,  # Nothing of this repository is at hand.
        env={n: x for n, x in os.environ.items() if n != "PYTHONPATH"},
        input=(make_files.FOLDER / "texts" / "rows.jsonl").read_bytes(),
        capture_output=True,
        check=True,
    )
    found = lines_of(process.stdout.decode())
    answers = (make_files.FOLDER / "answers_onnx.jsonl").read_text("utf-8")
    for line, expected in zip(found, lines_of(answers), strict=True):
        assert expected.keys() <= line.keys()
        assert line["label"] == expected["label"]
        np.testing.assert_allclose(
            line["probabilities"], expected["probabilities"], atol=1e-6
        )
