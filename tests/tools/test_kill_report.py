"""kill_report.py: its table; nothing is killed."""

from tools import kill_report


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
