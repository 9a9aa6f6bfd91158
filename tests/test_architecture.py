"""Rules of the code base: imports, module docstrings, sizes."""

import ast
import collections
import functools
import graphlib
import importlib
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
MAX_LINES_OF_A_FUNCTION = 75

MAX_MODULES_OF_A_FOLDER = 12
MAX_SCRIPTS = 29

# Budgets: what there is, and 2 % of air. CONTRIBUTING.md says how one is moved.
MAX_LINES = {
    "tfrecords": 19_100,
    "bert_tf/model": 3300,
    "bert_tf/tasks": 4590,
    "bert_tf/checkpoint": 6735,
    "bert_tf/training": 3830,
    "bert_tf/serving": 5225,
    "bert_tf/workflows": 5210,
    "bert_tf/contrib/search": 3630,
    "bert_tf/contrib/runtimes": 3050,
    "bert_tf/contrib/apps": 3890,
    "bert_tf/contrib/formats": 1370,
    "bert_tf": 750,
    "run_scripts": 3240,
}
LONG_FILE, MAX_LONG_FILES = 400, 31
# Of a command with more than `MAX_FLAGS`, and of all `option(...)`.
MAX_OPTIONS, MAX_FLAGS = 279, 31
MAX_FLAGS_OF = {
    "doctor": 44,
    "make_pretraining_records": 33,
    "run_embeddings": 72,
    "run_few_shot": 81,
    "run_glue": 81,
    "run_ner": 64,
    "run_pretraining": 60,
    "run_ranking": 80,
    "run_squad": 65,
    "run_swag": 56,
}

# A module may import modules of its own folder and of the folders listed above
# it.
TFRECORDS_ORDER = (
    ("libraries", "options", "schema", "random_numbers"),
    ("io",),
    ("text", "engines"),
    ("tables",),
    ("tasks", "pretraining"),
    ("reading", "inspection"),
)
BERT_TF_ORDER = (
    ("config", "text_preprocessor"),
    ("model",),
    ("tasks",),
    ("checkpoint",),
    ("training",),
    ("serving",),
    ("workflows",),
    ("contrib",),
)
# Folder of bert_tf -> modules of tfrecords that it may import.
TFRECORDS_IMPORTS = {
    "config": ("tfrecords.io",),
    "text_preprocessor": ("tfrecords.text",),
    "model": ("tfrecords.schema", "tfrecords.io"),
    "tasks": ("tfrecords.schema", "tfrecords.io", "tfrecords.tasks"),
    "training": ("tfrecords.schema", "tfrecords.io"),
    "checkpoint": ("tfrecords.schema", "tfrecords.io", "tfrecords.text"),
    "workflows": ("tfrecords",),
    "serving": ("tfrecords",),
    "contrib": ("tfrecords",),
}
# Package -> third-party modules that it must not import.
FORBIDDEN = {
    "run_scripts": ("tensorflow_text",),
    "bert_tf": ("tensorflow_text", "absl.flags"),
    "tfrecords": ("keras", "absl.flags"),
}
USE_TENSORFLOW_TEXT = (
    "tfrecords/text/words.py",
    "tfrecords/text/word_pieces.py",
    "tfrecords/text/segments.py",
)
# Scripts are not libraries; only this script, which runs them, imports them.
RUNS_SCRIPTS = "run_scripts/quickstart/tour.py"


@functools.cache
def parsed(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def imports(path):
    """Yields line and full name of all imports, including local ones."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} import is relative"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def has_prefix(name, prefixes):
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


def wrong_imports(is_wrong):
    """Returns `file:line imports name` for each import that breaks a rule."""
    return [
        f"{path}:{line} imports {name}"
        for path in MODULES
        for line, name in imports(path)
        if is_wrong(path, name)
    ]


def first_line(path):
    return (ast.get_docstring(parsed(path)) or "").partition("\n")[0]


def allowed_imports(path):
    """Returns prefixes of the modules of this repository it may import."""
    package, folder = path.parts[0], path.with_suffix("").parts[1]
    own = ".".join(path.parent.parts)
    if package == "run_scripts":
        return PACKAGES
    order = TFRECORDS_ORDER if package == "tfrecords" else BERT_TF_ORDER
    if folder in ("__init__", "__main__"):
        return (package, "tfrecords.libraries")
    allowed = []
    for folders in order:
        if folder in folders:
            break
        allowed += [f"{package}.{name}" for name in folders]
    else:
        raise AssertionError(f"{path}: {folder} is missing in the order")
    allowed.append(f"{package}.{folder}")
    for_all = ("tfrecords.options", "tfrecords.libraries")
    return (own, *allowed, *for_all, *TFRECORDS_IMPORTS.get(folder, ()))


def test_imports_go_one_way():
    assert not wrong_imports(
        lambda path, name: (
            has_prefix(name, PACKAGES)
            and not has_prefix(name, allowed_imports(path))
        )
    )


def room(name):
    """Returns the room of contrib that a module belongs to, or None."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["bert_tf", "contrib"] else None


def test_the_core_imports_nothing_of_contrib():
    """Inside functions neither; scripts do."""
    assert not wrong_imports(
        lambda path, name: (
            has_prefix(name, ("bert_tf.contrib",))
            and path.parts[:2] != ("bert_tf", "contrib")
            and path.parts[0] != "run_scripts"
        )
    )


def test_no_room_of_contrib_imports_another():
    assert not wrong_imports(
        lambda path, name: (
            path.parts[1] == "contrib"
            and room(name) not in (None, path.parts[2])
        )
    )


def files_imported_by_file():
    """Returns file -> files of the packages that it imports, in functions too.

    A folder's __init__.py counts where a name is imported from it.
    """
    files = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    return {
        path.as_posix(): {
            (files.get(name) or files[name.rpartition(".")[0]]).as_posix()
            for _, name in imports(path)
            if has_prefix(name, PACKAGES)
        }
        for path in MODULES
    }


def test_no_modules_import_each_other():
    circle = []
    try:
        graphlib.TopologicalSorter(files_imported_by_file()).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1][::-1]  # It begins with an imported file.
    assert not circle, " imports ".join(circle)


def test_folders_have_few_modules():
    counts = collections.Counter(
        path.parent.as_posix() for path in MODULES if path.name != "__init__.py"
    )
    limits = {"run_scripts": MAX_SCRIPTS, "bert_tf/serving/answers": 14}
    too_large = {
        folder: count
        for folder, count in counts.items()
        if count > limits.get(folder, MAX_MODULES_OF_A_FOLDER)
    }
    assert not too_large


def test_packages_do_not_import_forbidden_libraries():
    assert not wrong_imports(
        lambda path, name: has_prefix(name, FORBIDDEN[path.parts[0]])
    )


def test_only_three_modules_import_tensorflow_text():
    assert not wrong_imports(
        lambda path, name: (
            has_prefix(name, ("tensorflow_text",))
            and path.as_posix() not in USE_TENSORFLOW_TEXT
        )
    )


def test_the_model_knows_no_adapters():
    assert not wrong_imports(
        lambda path, name: (
            path.parts[:2] == ("bert_tf", "model")
            and has_prefix(name, ("bert_tf.model.lora",))
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
            has_prefix(name, scripts) and path.as_posix() != RUNS_SCRIPTS
        )
    )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_module_docstrings_begin_with_input_and_output(path):
    line = first_line(path)
    # `<->` for conversions in both directions.
    assert " -> " in line or " <-> " in line, f"{path}: {line!r}"
    assert len(line) < 80


def lines_of_code(function):
    """Returns the number of lines from `def`, without the docstring."""
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
        and lines_of_code(node) > MAX_LINES_OF_A_FUNCTION
    ]
    assert not long


# File and class -> the most methods and attributes that it has.
BASE_CLASSES = {
    ("bert_tf/serving/answers/kind.py", "Kind"): (14, 12),
    ("bert_tf/tasks/task.py", "FineTuningTask"): (13, 5),
}


@pytest.mark.parametrize("where", BASE_CLASSES, ids=" ".join)
def test_base_classes_are_small(where):
    path, name = where
    (body,) = (
        node.body
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    methods = [x for x in body if isinstance(x, ast.FunctionDef)]
    attributes = [x for x in body if isinstance(x, ast.Assign | ast.AnnAssign)]
    most_methods, most_attributes = BASE_CLASSES[where]
    assert len(methods) <= most_methods
    assert len(attributes) <= most_attributes


BUDGET = "take something out, or move the budget as CONTRIBUTING.md says"
SCRIPTS = sorted(
    path.stem
    for path in MODULES
    if path.parent.as_posix() == "run_scripts" and path.name != "__init__.py"
)


def num_lines(path):
    return len((ROOT / path).read_bytes().splitlines())


def test_rooms_keep_to_their_budgets():
    lines = collections.Counter()
    for path in MODULES:
        rooms = [x for x in MAX_LINES if path.as_posix().startswith(f"{x}/")]
        lines[max(rooms, key=len)] += len(
            (ROOT / path).read_bytes().splitlines()
        )
    over = {x: n for x, n in lines.items() if n > MAX_LINES[x]}
    assert not over, f"{over}: {BUDGET}"


def test_few_files_are_long():
    long = [path.as_posix() for path in MODULES if num_lines(path) >= LONG_FILE]
    assert len(long) <= MAX_LONG_FILES, f"{long}: {BUDGET}"


def test_options_keep_to_their_budgets():
    count = sum(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "option"
        for path in MODULES
        for node in ast.walk(parsed(path))
    )
    assert count <= MAX_OPTIONS, f"{count} options: {BUDGET}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_commands_keep_to_their_budgets(name):
    module = importlib.import_module(f"run_scripts.{name}")
    flags = getattr(module, "FLAGS", None)
    if flags is None:
        pytest.skip("the command has no flags of its own")
    count = len(set(flags))
    most = MAX_FLAGS_OF.get(name, MAX_FLAGS)
    assert count <= most, f"{name} has {count} flags: {BUDGET}"


def test_imports_do_not_load_optional_libraries():
    code = """
import sys
import tfrecords.schema
unwanted = {"tensorflow_text", "torch", "apache_beam", "official"}
unwanted |= {"sentencex", "tokenizers", "tensorboard"}
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
