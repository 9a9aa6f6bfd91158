"""planted_faults.py: its list fits the code, and what becomes of faults."""

import re
import subprocess

import pytest

from tools import planted_faults

CODE = """\
def half(x):
    return x // 2


def is_small(x):
    return x < 10
"""
TESTS = """\
import code_of_tests


def test_half():
    assert code_of_tests.half(4) == 2


def test_small():
    assert code_of_tests.is_small(3)
"""
FAULTS = """\
# Comments are skipped.

room/code_of_tests.py  order
- return x // 2
+ return 2 // x
tests/test_code.py::test_half

room/code_of_tests.py  bound
- return x < 10
+ return x <= 10
tests/test_code.py

room/code_of_tests.py  sign
- return x < 10
+ return x > 10
tests/test_code.py::test_half
tests/test_code.py::test_small

room/code_of_tests.py  constant
- return x < 10
+ return x < 11
= Both are small.
tests/test_code.py

room/code_of_tests.py  check
- return x < 9
+ return True
tests/test_code.py
"""


@pytest.fixture
def tree(tmp_path):
    """A working tree with five faults in its list."""
    root = tmp_path / "tree"
    files = {
        "room/code_of_tests.py": CODE,
        "tests/test_code.py": TESTS,
        "pytest.ini": "[pytest]\npythonpath = room\n",
        planted_faults.LIST: FAULTS,
        ".gitignore": "*.log\n",
        "ignored.log": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def test_every_fault_fits_the_code():
    faults = planted_faults.read(planted_faults.ROOT / planted_faults.LIST)
    assert len(faults) >= 60
    assert len({fault[1:5] for fault in faults}) == len(faults)
    wrong = []
    for fault in faults:
        try:
            planted_faults.planted(fault, planted_faults.ROOT)
        except ValueError as error:
            wrong.append(f"{fault}: {error}")
    assert not wrong


def test_faults_are_found_live_or_are_stale(tree, capsys):
    with pytest.raises(SystemExit) as ended:
        planted_faults.main([], tree)
    assert ended.value.code == 1
    *lines, _ = capsys.readouterr().out.splitlines()
    outcomes = {int(line.split()[2]): line.split()[1] for line in lines[:5]}
    assert outcomes == {
        1: "found",
        2: "lived",
        3: "found",
        4: "equal",
        5: "stale",
    }
    assert "| room | 5 | 2 | 1 | 1 | 1 |" in lines
    assert (tree / "room/code_of_tests.py").read_text() == CODE


def test_tests_without_end_are_killed(tree, tmp_path):
    (tree / "tests/test_code.py").write_text(
        "import time\n\n\ndef test_long():\n    time.sleep(60)\n"
    )
    found = planted_faults.failed_test(tree, ["tests/test_code.py"], 1)
    assert found == "no end after 1 s"


def test_a_reason_that_is_wrong_is_stale(tree):
    path = tree / planted_faults.LIST
    path.write_text(FAULTS.replace("+ return 2 // x", "+ return 2 // x\n= No."))
    (fault, *_) = planted_faults.read(path)
    (result,) = planted_faults.try_all([fault], tree)
    assert (result.outcome, result.detail) == (
        "stale",
        "it changes something: tests/test_code.py::test_half",
    )


def test_tests_that_fail_without_a_fault_are_named(tree):
    with (tree / "tests/test_code.py").open("a") as file:
        file.write("\n\ndef test_wrong():\n    assert False\n")
    with pytest.raises(SystemExit, match="Without a fault: .*::test_wrong"):
        planted_faults.main(["--only=room"], tree)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("room/code", "room/other", "room/other_of_tests.py does not exist"),
        ("- return x // 2", "- return x", "0 lines are 'return x', not 1"),
        ("+ return 2 // x", "+ return 2 //", "'return 2 //' does not parse"),
        ("+ return 2 // x", "+ return (x // 2)", "is the same code"),
        ("::test_half", "::test_third", "::test_third does not exist"),
    ],
)
def test_a_fault_that_does_not_fit_says_why(tree, old, new, message):
    path = tree / planted_faults.LIST
    path.write_text(FAULTS.replace(old, new, 1))
    (fault, *_) = planted_faults.read(path)
    with pytest.raises(ValueError, match=message):
        planted_faults.planted(fault, tree)


@pytest.mark.parametrize(
    ("arguments", "faults", "message"),
    [
        (["--only=rooms"], FAULTS, "--only: 'rooms' is neither a number of 1"),
        (["--jobs=0"], FAULTS, "--jobs=0 should be at least 1"),
        ([], FAULTS.replace("  sign", "  sing"), "entry 3, .*: expected"),
        ([], FAULTS.replace("+ return 2 // x\n", ""), "entry 1, .*: expected"),
    ],
)
def test_wrong_flags_and_entries_are_named(
    tree, capsys, arguments, faults, message
):
    (tree / planted_faults.LIST).write_text(faults)
    with pytest.raises(SystemExit):
        planted_faults.main(arguments, tree)
    assert re.search(message, capsys.readouterr().err)


def test_copies_have_what_git_does_not_ignore(tree, tmp_path):
    planted_faults.copy_tree(tree, tmp_path / "copy")
    copied = {
        path.relative_to(tmp_path / "copy").as_posix()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert copied == {
        ".gitignore",
        "pytest.ini",
        "room/code_of_tests.py",
        "tests/test_code.py",
        planted_faults.LIST,
    }
