"""docs/guide/reading.md: files and names that it tells to read exist."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "reading.md"
TEXT = PAGE.read_text("utf-8")
LINK = r"\[`[\w.]+`\]\(([\w./]+\.py)\)"


def names_to_read():
    """Yields path of a file and a name that the page says it has."""
    for path, names in re.findall(rf"{LINK}: ((?:`[\w.]+`(?:, )?)+)", TEXT):
        for name in re.findall(r"`([\w.]+)`", names):
            yield path, name
    files = re.findall(rf"minutes\. {LINK}", TEXT)
    sections = re.findall(r"^\|[- :|]*\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    for path, rows in zip(files, sections, strict=False):
        for row in rows.splitlines():
            for name in re.findall(r"`(\w+)`", row.split(" | ")[1]):
                yield path, name


def defined(path):
    """Returns names that a file defines; of methods, `Class.method`."""
    found = set()
    for node in ast.parse((PAGE.parent / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [x for x in node.body if isinstance(x, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            found |= {target.id} if isinstance(target, ast.Name) else set()
    return found


@pytest.mark.parametrize(("path", "name"), sorted({*names_to_read()}))
def test_a_name_to_read_is_in_its_file(path, name):
    assert name in defined(path)


def test_the_page_begins_with_attention_and_names_its_minutes():
    names = [name for _, name in names_to_read()]
    assert len(names) > 40
    rows = re.findall(r"^\| (\d+) \| (.*)", TEXT, re.MULTILINE)
    assert rows[0][1].startswith("`attention_weights`")
    assert sum(int(minutes) for minutes, _ in rows) == 30
    for section in TEXT.split("\n## ")[1:4]:
        said = re.search(r"(\w+) minutes\. ", section)[1]
        minutes = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
        named = {"Eight": 8, "Ten": 10, "Twelve": 12}
        assert sum(map(int, minutes)) == named[said]
