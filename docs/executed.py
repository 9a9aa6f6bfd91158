"""Notebooks that `make docs` ran -> the same with outputs, in the repository.

    make docs && python docs/executed.py

The site computes outputs with each build; who reads the repository finds these.
"""

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
EXECUTED = FOLDER / "notebooks" / "executed"
_OF_TENSORFLOW = r"WARNING: All log messages|[IWE]0000 "
_FIRST, _LAST = 6, 14  # Lines that are kept of a long output.


def cells_of(page: pathlib.Path) -> list[str]:
    """Returns the code of the cells of a notebook in Markdown."""
    fenced = r"^```\{code-cell\}[^\n]*\n(?::tags:[^\n]*\n\n)?(.*?)^```$"
    text = page.read_text(encoding="utf-8")
    found = re.findall(fenced, text, re.MULTILINE | re.DOTALL)
    return [code.strip() for code in found]


def shorten(lines: list[str]) -> list[str]:
    """Returns the first and last lines, and how many there are between.

    Lines of TensorFlow's own log are left out.
    """
    lines = [line for line in lines if not re.match(_OF_TENSORFLOW, line)]
    left_out = len(lines) - _FIRST - _LAST
    if left_out <= 1:
        return lines
    return [*lines[:_FIRST], f"... {left_out} lines ...\n", *lines[-_LAST:]]


def clean(notebook: dict) -> dict:
    """Returns a notebook without what differs between builds, and shortened."""
    kernel = notebook["metadata"]["kernelspec"]
    notebook |= {"metadata": {"kernelspec": kernel}, "nbformat_minor": 4}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
            for output in cell["outputs"]:
                if "text" in output:
                    lines = "".join(output["text"]).splitlines(keepends=True)
                    output["text"] = shorten(lines)
                if "execution_count" in output:
                    output["execution_count"] = None
    return notebook


def main(built: pathlib.Path = FOLDER / "_build" / "jupyter_execute"):
    """Writes the notebooks of a build."""
    EXECUTED.mkdir(exist_ok=True)
    for path in sorted((built / "notebooks").glob("*.ipynb")):
        notebook = clean(json.loads(path.read_text(encoding="utf-8")))
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        (EXECUTED / path.name).write_text(text, encoding="utf-8")
        print(EXECUTED / path.name)


if __name__ == "__main__":
    main()
