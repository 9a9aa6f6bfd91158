"""Every recipe is valid for its script, as are the commands in its comment."""

import copy
import importlib
import pathlib
import re
import shlex

import pytest

from run_scripts.flags import common_flags

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = sorted(
    [
        *(ROOT / "run_scripts" / "recipes").glob("*.flags"),
        *(ROOT / "experiments").rglob("*.flags"),
    ]
)


def comment(path):
    """Returns the comment of a recipe, each command on one line."""
    lines = path.read_text("utf-8").splitlines()
    text = "\n".join(
        line.removeprefix("#") for line in lines if line.startswith("#")
    )
    return text.replace("\\\n", " ")


def commands(path):
    """Yields script and arguments of each command in a recipe's comment."""
    for line in comment(path).splitlines():
        if "python -m" in line:
            python, m, module, *arguments = shlex.split(line)
            assert (python, m) == ("python", "-m")
            yield module, arguments


def flags_of(module):
    """Returns a copy of a script's flags, since tests share the original."""
    if module == "run_scripts.quickstart":
        module = "run_scripts.quickstart.tour"
    return copy.deepcopy(importlib.import_module(module).FLAGS)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_script_accepts_the_flags_of_its_recipe(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # Where the commands are meant to be run.
    name = path.relative_to(ROOT).as_posix()
    assert list(commands(path))
    for module, arguments in commands(path):
        assert arguments[0] == f"--flagfile={name}"
        flags = flags_of(module)
        # Unknown flags, and required ones that are missing, are errors.
        common_flags.parse(flags, [module, *arguments], "")
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("--"):
                assert flags[re.match(r"--(\w+)", line)[1]].present, line


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_states_expected_scores_and_cost(path):
    text = " ".join(comment(path).split())
    expected, _, cost = text.partition("Expected: ")[2].partition("Cost: ")
    assert re.search(r"one seed|three seeds|five seeds|no score", expected)
    assert re.search("cores|GPU|TPU", cost)
    assert re.search("minutes|seconds|hours|not recorded", cost)
    assert all(len(line) <= 80 for line in path.read_text().splitlines())
