"""Wrong input of every script: one line, status 1, and no file is changed."""

import fcntl
import os

import pytest
from hostile import (
    commands,
    damaged_inputs,
    models,
    outputs,
    runs,
    served,
    settings,
    texts,
)

CASES = [
    *damaged_inputs.CASES,
    *models.CASES,
    *outputs.CASES,
    *runs.CASES,
    *served.CASES,
    *settings.CASES,
    *texts.CASES,
]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_wrong_input_gets_one_line(case, folder, monkeypatch, capfd, caplog):
    commands.write(case.files, folder)
    before = commands.digests(folder, case.left)
    assert commands.run(case, monkeypatch) == case.code
    output = capfd.readouterr().err
    printed = output + caplog.text
    assert "Traceback" not in printed
    errors = [line for line in output.splitlines() if line[:7] == "error: "]
    assert len(errors) == bool(case.code), printed
    assert case.message in (errors[0] if errors else printed)
    assert not commands.foreign_flags(case, output)
    assert commands.digests(folder, case.left) == before


@pytest.mark.parametrize(
    "task", ["pretraining", "glue", "squad", "swag", "ner"]
)
def test_records_are_made_by_one_process(task, folder, monkeypatch, capfd):
    case = commands.Case(f"make_{task}_records", "", "")
    os.mkdir("out")
    with open("out/run.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert commands.run(case, monkeypatch) == 1
        error = capfd.readouterr().err
        assert "error: out is in use by another run, which has just" in error
    assert commands.run(case, monkeypatch) == 0
    assert "run.lock" not in os.listdir("out")
