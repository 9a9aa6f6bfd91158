"""Markdown -> its blocks of code, or cells, run in order at a tiny size."""

import importlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import types
from typing import NamedTuple
from unittest import mock

import tensorflow as tf

from bert_tf.training import stopping
from run_scripts.quickstart import corpus

ROOT = pathlib.Path(__file__).parent.parent

_TINY_TRAINING = (
    "--train_batch_size=4 --gradient_accumulation_steps=1 --eval_batch_size=4 "
    "--log_every_steps=1 --precision=float32"
)
_TINY_FINE_TUNING = f"{_TINY_TRAINING} --num_train_epochs=1"
# Flags appended to a command, which replace its own: sizes, and nothing else.
SIZES = {
    "make_vocab": "--vocab_size=300",
    "make_pretraining_records": "--dupe_factor=2 --num_processes=1",
    "run_pretraining": f"{_TINY_TRAINING} --num_train_steps=10 "
    "--num_warmup_steps=1 --max_eval_steps=1",
    "run_glue": f"{_TINY_FINE_TUNING} --max_seq_length=32",
    "run_ranking": f"{_TINY_FINE_TUNING} --max_seq_length=32",
    "run_few_shot": f"{_TINY_FINE_TUNING} --max_seq_length=32",
    "run_swag": f"{_TINY_FINE_TUNING} --max_seq_length=32",
    "run_squad": f"{_TINY_FINE_TUNING} --max_seq_length=64 --doc_stride=32 "
    "--max_query_length=24",
    "run_ner": f"{_TINY_FINE_TUNING} --max_seq_length=32",
    "run_ner_features": f"{_TINY_FINE_TUNING} --max_seq_length=32 "
    "--lstm_units=8",
    "run_embeddings": f"{_TINY_FINE_TUNING} --max_seq_length=32",
}
# Of notebooks, whose batches are small: several rows at once take less time.
NOTEBOOK_SIZES = {
    name: words
    for name, words in SIZES.items()
    if name not in ("run_glue", "run_embeddings")
}
# The same where a flag is there only sometimes.
SMALLER = {
    r"--bert_config_name=\w+": "--bert_config_name=tiny",
    # Each is a process; tests/bert_tf/workflows/test_trials.py has several.
    r"--num_restarts=\d+": "--num_restarts=1",
    r"--warmup_proportion=\S+": "",  # A size has the number of steps.
    # Pages name recipes by their place in a clone, which is not the working
    # directory here: a folder run_scripts in it would hide the package.
    r"--flagfile=run_scripts/": f"--flagfile={ROOT}/run_scripts/",
}

_BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*) -->\n+)?```(?P<language>sh|python)\n"
    r"(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_OURS = re.compile(
    r"(?:(?P<input>.*\S) *\| *)?python -m (?P<module>[\w.]+) ?(?P<args>[^<|]*)"
    r"(?:< *(?P<file>\S+))?"
)

_CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?::[^\n]*\n|\n)*(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
# Cells that install packages: `make docs` runs them, and those that need these.
_INSTALLS = ("pip download", "pip install", "PYTHONPATH=converters")
# Parts of the documentation of libraries, which notebooks read as text.
_FOLDERS = (
    *("asyncio", "email", "logging", "unittest", "xml"),
    *("numpy/lib", "scipy/fft"),  # Classes of a task.
)


class Block(NamedTuple):
    """A fenced block of code.

    Attributes:
      language: sh or python.
      code: its lines.
      exempt: why it is not run; empty if it is.
      line: number of its first line in the page.
    """

    language: str
    code: str
    exempt: str
    line: int


def blocks(page: pathlib.Path) -> list[Block]:
    """Returns the shell and Python blocks of a page, in order."""
    text = page.read_text("utf-8")
    result = []
    for match in _BLOCK.finditer(text):
        note = match["note"] or ""
        assert not note or note.startswith("not run: "), (page, note)
        line = text.count("\n", 0, match.start("code")) + 1
        exempt = note.removeprefix("not run: ")
        result.append(Block(match["language"], match["code"], exempt, line))
    return result


def run(page: pathlib.Path) -> None:
    """Runs the blocks of a page in the working directory.

    Raises:
      AssertionError: if one fails, with its page, line and code.
    """
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.exempt:
            continue
        try:
            if block.language == "python":
                exec(compile(block.code, str(page), "exec"), names)
            elif "<<" in block.code:
                _bash(block.code)
            else:
                for command in commands(block.code):
                    _run_command(command)
        except (Exception, SystemExit) as error:
            place = f"{page.relative_to(ROOT)}:{block.line}"
            raise AssertionError(f"{place}\n{block.code}") from error


def run_notebook(page: pathlib.Path) -> None:
    """Runs the cells of a notebook in the working directory.

    Raises:
      AssertionError: if one fails, with its page, line and code.
    """
    names = {"__name__": "__main__"}
    text = page.read_text("utf-8")
    # Of the extra `docs`; the pages are not shown here.
    display = types.SimpleNamespace(HTML=str)
    all_files = corpus._python_files

    def few_files(folder):
        for path in all_files(folder):
            if any(f"/{name}/" in path for name in _FOLDERS):
                yield path

    with (
        mock.patch.dict(sys.modules, {"IPython.display": display}),
        mock.patch.object(corpus, "_python_files", few_files),
    ):
        for match in _CELL.finditer(text):
            try:
                _run_cell(match["code"], page, names)
            except (Exception, SystemExit) as error:
                line = text.count("\n", 0, match.start("code")) + 1
                place = f"{page.relative_to(ROOT)}:{line}"
                raise AssertionError(f"{place}\n{match['code']}") from error


def _run_cell(code: str, page: pathlib.Path, names: dict) -> None:
    """Runs a cell, unless it needs packages that it installs."""
    if any(word in code for word in _INSTALLS):
        return
    if not code.startswith("%%bash\n"):
        exec(compile(code, str(page), "exec"), names)
        return
    code = code.removeprefix("%%bash\n")
    if "<<" in code:
        _bash(code)
        return
    for command in commands(code):
        if not command.startswith("set -"):
            # What hides lines of the output from the page.
            command = re.sub(r" *2>&1 *\|.*", "", command)
            _run_command(command, NOTEBOOK_SIZES)


def commands(code: str) -> list[str]:
    """Returns the commands of a shell block, each as one line."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and line[0] != "#"]


def _run_command(command: str, sizes: dict[str, str] = SIZES) -> None:
    """Runs a script of ours in this process, anything else in bash."""
    ours = _OURS.fullmatch(command.strip())
    if ours is None:
        _bash(command)
        return
    text = _bash(ours["input"]) if ours["input"] else b""
    if ours["file"]:
        text = pathlib.Path(ours["file"]).read_bytes()
    module, args = ours["module"], ours["args"]
    for pattern, smaller in SMALLER.items():
        args = re.sub(pattern, smaller, args)
    name = module.rpartition(".")[2]
    argv = [name, *shlex.split(args), *sizes.get(name, "").split()]
    if "--virtual_devices=2" in argv:
        # TensorFlow makes virtual devices once in a process.
        subprocess.run([sys.executable, "-m", module, *argv[1:]], check=True)
        return
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        with io.TextIOWrapper(file, "utf-8") as stdin:
            # A few steps take less time than their graph.
            tf.config.run_functions_eagerly(name.startswith("run_"))
            try:
                with mock.patch.object(sys, "stdin", stdin):
                    importlib.import_module(module).main(argv)
            except stopping.Stopped as stopped:
                assert stopped.exit_code == 0, stopped  # --stop_at_step
            finally:
                tf.config.run_functions_eagerly(False)


def _bash(code: str) -> bytes:
    """Runs shell code, in which no script of ours may be hidden."""
    assert "python -m" not in code, code
    command = ["bash", "-e", "-o", "pipefail", "-c", code]
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PATH": path},
    ).stdout
