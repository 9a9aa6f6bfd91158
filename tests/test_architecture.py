"""The rules of the house that a machine can check: imports, names, sizes."""

import ast
import collections
import functools
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("tfrecords", "bert_tf", "run_scripts")
MODULES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
)
MOST_LINES_OF_A_FUNCTION = 75

MOST_MODULES_OF_A_FOLDER = 12
MOST_SCRIPTS = 20

# Folder or module -> what of ours it may import; the longest name counts.
# Inside one folder everything may import everything.
TFRECORDS_ORDER = (
    ("options", "schema", "random_numbers"),
    ("io",),
    ("text", "engines"),
    ("tasks", "pretraining"),
    ("reading", "inspection"),
)
BERT_TF_ORDER = (
    ("config",),
    ("model",),
    ("tasks",),
    ("training",),
    ("conversion",),
    ("export",),
    ("workflows",),
    ("prediction",),
)
# What the rooms of bert_tf may import of tfrecords.
OF_TFRECORDS = {
    "config": ("tfrecords.io",),
    "model": ("tfrecords.schema", "tfrecords.io"),
    "tasks": ("tfrecords.schema", "tfrecords.io", "tfrecords.tasks"),
    "training": ("tfrecords.schema", "tfrecords.io"),
    "conversion": ("tfrecords.schema", "tfrecords.io"),
    "prediction": ("tfrecords",),
    "workflows": ("tfrecords",),
    "export": ("tfrecords",),
}
# Of others: who may not import what.
FORBIDDEN = {
    "run_scripts": ("tensorflow_text",),
    "bert_tf": ("tensorflow_text", "absl.flags"),
    "tfrecords": ("keras", "absl.flags"),
}
READ_STRINGS = (
    "tfrecords/text/words.py",
    "tfrecords/text/word_pieces.py",
    "tfrecords/text/segments.py",
)
# A script is no library; only the script that runs all of them imports them.
RUNS_SCRIPTS = "run_scripts/quickstart/tour.py"


@functools.cache
def parsed(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def imports(path):
    """Full names of what a module imports, inside functions too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} import is relative"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def is_of(name, prefixes):
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


def wrong_imports(is_wrong):
    """`file:line imports name` of each import that breaks a rule."""
    return [
        f"{path}:{line} imports {name}"
        for path in MODULES
        for line, name in imports(path)
        if is_wrong(path, name)
    ]


def first_line(path):
    return (ast.get_docstring(parsed(path)) or "").partition("\n")[0]


def allowed_imports(path):
    """Prefixes of what of ours a module may import."""
    package, room = path.parts[0], path.with_suffix("").parts[1]
    own = ".".join(path.parent.parts)
    if package == "run_scripts":
        return PACKAGES
    order = TFRECORDS_ORDER if package == "tfrecords" else BERT_TF_ORDER
    if room == "__init__":
        return (package,)
    below = []
    for rooms in order:
        if room in rooms:
            break
        below += [f"{package}.{name}" for name in rooms]
    else:
        raise AssertionError(f"{path}: {room} has no place in the order")
    below.append(f"{package}.{room}")
    of_all = ("tfrecords.options",)
    return (own, *below, *of_all, *OF_TFRECORDS.get(room, ()))


def test_imports_go_one_way():
    assert not wrong_imports(
        lambda path, name: (
            is_of(name, PACKAGES) and not is_of(name, allowed_imports(path))
        )
    )


def test_folders_hold_few_modules():
    counts = collections.Counter(
        path.parent.as_posix() for path in MODULES if path.name != "__init__.py"
    )
    most = {"run_scripts": MOST_SCRIPTS}
    crowded = {
        folder: count
        for folder, count in counts.items()
        if count > most.get(folder, MOST_MODULES_OF_A_FOLDER)
    }
    assert not crowded


def test_libraries_stay_where_they_belong():
    assert not wrong_imports(
        lambda path, name: is_of(name, FORBIDDEN[path.parts[0]])
    )


def test_only_three_modules_need_tensorflow_text():
    assert not wrong_imports(
        lambda path, name: (
            is_of(name, ("tensorflow_text",))
            and path.as_posix() not in READ_STRINGS
        )
    )


def test_scripts_are_not_imported():
    scripts = [
        f"run_scripts.{path.stem}"
        for path in MODULES
        if path.parts[0] == "run_scripts"
        and any(
            isinstance(node, ast.FunctionDef) and node.name == "main"
            for node in parsed(path).body
        )
    ]
    assert scripts
    assert not wrong_imports(
        lambda path, name: (
            is_of(name, scripts) and path.as_posix() != RUNS_SCRIPTS
        )
    )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_says_first_what_it_turns_into_what(path):
    before, arrow, after = first_line(path).partition(" -> ")
    # `<->` for both ways.
    assert arrow or " <-> " in before, f"{path}: {first_line(path)!r}"
    assert len(first_line(path)) < 80


def lines_of_code(function):
    """Lines from `def` to the end, without those of the docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_functions_are_short():
    long = [
        f"{path}:{node.lineno} {node.name} has {lines_of_code(node)} lines"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and lines_of_code(node) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


def test_cheap_imports_stay_cheap():
    code = """
import sys
import tfrecords.schema
unwanted = {"tensorflow_text", "torch", "apache_beam", "official"}
print(*{"bert_tf", *unwanted} & set(sys.modules))
import bert_tf
print(*unwanted & set(sys.modules))
"""
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert loaded.split() == []
