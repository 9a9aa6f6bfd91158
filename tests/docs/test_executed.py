"""Notebooks with outputs have the code of the notebooks of today."""

import json

import pytest

from docs import executed

PAGES = [
    executed.FOLDER / "notebooks" / f"{path.stem}.md"
    for path in sorted(executed.EXECUTED.glob("*.ipynb"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_with_outputs_has_the_code_of_its_page(page):
    path = executed.EXECUTED / f"{page.stem}.ipynb"
    assert f"(executed/{path.name})" in page.read_text("utf-8")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    found = ["".join(cell["source"]).strip() for cell in cells]
    assert found == executed.cells_of(page), "Run docs/executed.py."
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert len(outputs) > 5
    assert all(output["output_type"] != "error" for output in outputs)
    assert path.stat().st_size < 300_000


def test_long_outputs_are_shortened_and_numbers_of_runs_left_out():
    lines = [f"{i}\n" for i in range(100)]
    noise = "I0000 00:00:1.5 port.cc:153] oneDNN\n"
    cell = {
        "cell_type": "code",
        "metadata": {"execution": "12:00"},
        "id": "x",
        "execution_count": 7,
        "outputs": [{"output_type": "stream", "text": noise + "".join(lines)}],
    }
    notebook = {"cells": [cell], "metadata": {"kernelspec": {}}}
    (found,) = executed.clean(notebook)["cells"]
    (output,) = found["outputs"]
    assert output["text"][5:7] == ["5\n", "... 80 lines ...\n"]
    assert output["text"][-14:] == lines[-14:]
    assert (found["execution_count"], found["metadata"]) == (None, {})
    assert "id" not in found
