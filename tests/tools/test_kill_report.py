"""kill_report.py: its table, and wrong flags; nothing is killed."""

import sys

import pytest

from tools import kill_report, store_kill_report


def test_a_row_shows_which_files_differ():
    weights = "checkpoints/step-00000004/model.safetensors"
    names = [*kill_report.PARTS, "other files"]
    for path, column in ((weights, "weights"), ("run.json", "other files")):
        cells = kill_report.row("x", [], [path])[-len(names) :]
        assert [
            name
            for name, cell in zip(names, cells, strict=True)
            if cell != "equal"
        ] == [column]


@pytest.mark.parametrize(
    ("tool", "flag", "message"),
    [
        (kill_report, "--runs=float33", "--runs: 'float33' should be one of"),
        (store_kill_report, "--kills=0", "--kills=0 should be at least 1"),
    ],
)
def test_wrong_flags_are_refused_before_the_work(
    tool, flag, message, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["report", flag])
    with pytest.raises(SystemExit):
        tool.main()
    assert message in capsys.readouterr().err
