"""Damaged exports and streams -> predict.py's one line and exit status.

See `conftest.folder` for the runtime of the export.
"""

import hashlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

_DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


class Case(NamedTuple):
    """Files of an export that are wrong, and the line about them.

    Attributes:
      message: part of the line that is printed.
      files: name -> content; a function instead changes the content, and None
        deletes the file.
    """

    message: str
    files: Mapping[str, bytes | Callable[[bytes], bytes] | None]

    def __str__(self) -> str:
        return " ".join([*self.files, self.message])[:80]


def _with(**changes):
    """A change of entries of model.json; `...` removes one."""

    def change(content):
        settings = json.loads(content) | changes
        kept = {n: x for n, x in settings.items() if x is not ...}
        return json.dumps(kept).encode()

    return change


def _settings(message, **changes):
    return Case(message, {"model.json": _with(**changes)})


def _with_digest(content):
    """A vocabulary, and the model.json that was exported with it."""
    digest = hashlib.sha256(content).hexdigest()
    return {"vocab.txt": content, "model.json": _with(vocab_sha256=digest)}


_QUESTIONS = {
    "kind": "question_answering",
    "doc_stride": 2,
    "max_query_length": 2,
    "n_best_size": 3,
    "max_answer_length": 3,
    "version_2_with_negative": False,
    "null_score_diff_threshold": 0.0,
}
CASES = [
    # model.json is not an object of JSON.
    Case("model.json", {"model.json": None}),
    Case("model.json is not JSON (Expecting", {"model.json": b""}),
    Case("model.json is not JSON (", {"model.json": lambda x: x[:99]}),
    Case("model.json is not JSON (", {"model.json": b"\xff\x80" * 9}),
    Case("model.json is not JSON (", {"model.json": _DEEP}),
    Case("model.json has []; expected an", {"model.json": b"[]"}),
    Case("model.json has None; expected an", {"model.json": b"null"}),
    # What every kind needs.
    _settings("kind is None; expected one of classification", kind=...),
    _settings("kind is 'guessing'; expected one of", kind="guessing"),
    _settings("kind is ['tagging']; expected one of", kind=["tagging"]),
    _settings("format is 'jax'; expected one of litert", format="jax"),
    _settings("format is None; expected one of litert", format=...),
    _settings("file is missing; expected a string", file=...),
    _settings("file is 3; expected a string", file=3),
    _settings("other.onnx", file="other.onnx"),
    _settings("inputs is missing; expected a list", inputs=...),
    _settings("inputs is []; expected a list", inputs=[]),
    _settings("inputs is [1]; expected a list, each a st", inputs=[1]),
    _settings("outputs is missing; expected a list", outputs=...),
    _settings("do_lower_case is missing", do_lower_case=...),
    _settings("is 'false'; expected true or", do_lower_case="false"),
    _settings("max_seq_length is missing", max_seq_length=...),
    _settings("is '8'; expected a positive", max_seq_length="8"),
    _settings("is True; expected a positive", max_seq_length=True),
    _settings("is -8; expected a positive", max_seq_length=-8),
    _settings("max_seq_length is 2, which is too", max_seq_length=2),
    # Classes.
    _settings("labels is missing; expected a list", labels=...),
    _settings("labels is 'ab'; expected a list, each", labels="ab"),
    _settings("labels is []; expected a list", labels=[]),
    _settings("labels is ['a', 2]; expected a list", labels=["a", 2]),
    _settings("1 labels in model.json", labels=["bad"]),
    _settings("3 labels in model.json", labels=["a", "b", "c"]),
    Case("3 outputs of model.onnx", {"model.onnx": b"3"}),
    _settings("num_classes is missing", num_classes=...),
    _settings("num_classes is '2'; expected", num_classes="2"),
    # The vocabulary.
    _settings("vocab_size is missing", vocab_size=...),
    _settings("vocab_sha256 is missing", vocab_sha256=...),
    _settings("vocab_sha256 is 8; expected", vocab_sha256=8),
    Case("vocab.txt", {"vocab.txt": None}),
    Case("vocab.txt has 0 entries", {"vocab.txt": b""}),
    Case("but the model was exported with 8 and ", {"vocab.txt": b""}),
    # Without most of "film\nfine\n"; and as many entries in another order.
    Case("vocab.txt has 6 entries", {"vocab.txt": lambda x: x[:-6]}),
    Case(
        "copied in part. Copy the whole folder again.",
        {"vocab.txt": lambda x: b"\n".join(x.split(b"\n")[::-1][1:]) + b"\n"},
    ),
    Case("vocab.txt is not UTF-8", _with_digest(b"\xff\n")),
    Case("vocab.txt has no entry [UNK]", _with_digest(b"")),
    # Another kind than that of the network.
    _settings(
        "kind is regression; expected score in outputs", kind="regression"
    ),
    _settings("kind is encoder; expected", kind="encoder"),
    _settings(
        "labels, num_classes belong to another kind", kind="multiple_choice"
    ),
    # The other kinds.
    _settings("doc_stride is missing", kind="tagging"),
    _settings("is 0; expected", kind="tagging", doc_stride=0),
    *(
        _settings(f"{name} is {shown}", **_QUESTIONS | {name: value})
        for name in list(_QUESTIONS)[1:]
        for value, shown in ((..., "missing"), ("1", "'1'; expected"))
    ),
    _settings(
        "null_score_diff_threshold is nan",
        **_QUESTIONS | {"null_score_diff_threshold": float("nan")},
    ),
    _settings("which is too few", **_QUESTIONS | {"max_query_length": 6}),
    _settings(
        "null_score_diff_threshold is 1000000000",
        **_QUESTIONS | {"null_score_diff_threshold": 10**400},
    ),
    *(
        _settings(
            f"thresholds is {shown}; expected a list, each a number above 0",
            **{"kind": "multi_label", "thresholds": value},
        )
        for value, shown in (
            *((0.5, "0.5"), ([0, 1], "[0, 1]"), (["0.5", 1], "['0.5', 1]")),
            *(([True, 1], "[True, 1]"), ([1.5, 1], "[1.5, 1]"), ([], "[]")),
            ([float("nan"), 1], "[nan, 1]"),
        )
    ),
    *(
        _settings(
            f"has {number} thresholds in model.json",
            **{"kind": "multi_label", "thresholds": [0.5] * number},
        )
        for number in (1, 3)
    ),
    # Prompts, which other kinds ignore.
    _settings("prompt is 3; expected a string", prompt=3),
    _settings("prompts is ['q']; expected an object", prompts=["q"]),
    _settings("is {'query': None}; expected an", prompts={"query": None}),
    # The network. Our runtime, like others, raises what it likes.
    Case("model.onnx", {"model.onnx": None}),
    Case("model.onnx cannot be opened", {"model.onnx": b""}),
    Case("model.onnx cannot be opened", {"model.onnx": b"\xff"}),
    Case("model.onnx cannot be run", {"model.onnx": b"1"}),
    _settings("model.onnx cannot be run (", inputs=["ids"]),
    _settings(
        "model.onnx cannot be used ('it has no output score')",
        outputs=["logits", "probabilities", "score"],
    ),
    Case("pip install onnxruntime", {"onnxruntime.py": b"import nowhere"}),
    Case("No module named 'tokenizer'", {"tokenizer.py": None}),
]


def write(files: Mapping, folder) -> None:
    """Writes, changes or deletes the files of a case."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        if callable(content):
            content = content(path.read_bytes())
        path.write_bytes(content)


def in_shell(
    folder, words="", given="a fine film\n"
) -> subprocess.CompletedProcess:
    """Runs predict.py with flags and redirections of a shell."""
    command = f"exec {sys.executable} -B {folder}/predict.py {words}"
    return subprocess.run(
        ["bash", "-c", command], input=given, capture_output=True, text=True
    )


@pytest.fixture
def run(folder, monkeypatch, capfd):
    """Runs predict.py as a script in this process, which is faster.

    Returns its exit status or message, what is in stdout, lines of stderr.
    """

    def run():
        monkeypatch.syspath_prepend(folder)
        for name in ("tokenizer", "onnxruntime"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setattr(sys, "argv", ["predict.py"])
        before = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as stop:
                runpy.run_path(str(folder / "predict.py"), run_name="__main__")
        finally:
            signal.signal(signal.SIGINT, before)
            for name in ("tokenizer", "onnxruntime"):
                sys.modules.pop(name, None)
        output = capfd.readouterr()
        return stop.value.code, output.out, output.err.splitlines()

    return run


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_damaged_export_gets_one_line(case, folder, run):
    write(case.files, folder)
    line, output, notes = run()
    assert output == ""
    assert all(note.startswith("note: ") for note in notes)
    assert line.startswith("error: ") and case.message in line
    assert "\n" not in line and len(line) < 500


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("> /dev/full", "error: stdout: No space left on device; the out"),
        ("--input_file=/", "error: [Errno 21] Is a directory: '/'"),
        ("--prompt_name=x", "error: --prompt_name=x: the prompts of this mo"),
        ("--prompt_name=", "error: --prompt_name=: the prompts of this model"),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_stream_that_cannot_be_used_is_one_line(folder, words, line):
    process = in_shell(folder, words)
    assert (process.returncode, process.stdout) == (1, "")
    (shown,) = process.stderr.splitlines()
    assert shown.startswith(line)


def test_a_closed_pipe_ends_it_without_a_message(folder):
    words = "| head -1; exit ${PIPESTATUS[0]}"
    process = in_shell(folder, words, "film\n" * 1000)
    assert process.returncode == 128 + signal.SIGPIPE
    assert process.stderr == "" and process.stdout.count("\n") == 1


# What reads from stdin, and prints a line before it.
IMPORTS = b"import sys; print(1, flush=True); sys.stdin.read()"


@pytest.mark.parametrize("files", [{}, {"tokenizer.py": IMPORTS}])
def test_ctrl_c_is_one_line(folder, files):
    write(files, folder)
    process = subprocess.Popen(
        [sys.executable, "-B", folder / "predict.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if not files:
        process.stdin.write("film\n")
        process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, shown = process.communicate(timeout=60)
    assert (process.returncode, output, shown) == (130, "", "stopped\n")


def test_json_nested_deep_is_a_bad_line(folder):
    lists = "[" * 100_000 + "]" * 100_000
    rows = lists, f'{{"text_a": {lists}}}', f'{{"b": {lists}, "text_a": "a"}}'
    process = in_shell(folder, "--input_format=jsonl", "\n".join(rows))
    assert process.returncode == 1
    *lines, total = process.stderr.splitlines()
    assert [line[:7] for line in lines] == ["line 1:", "line 2:", "line 3:"]
    assert total == "error: 3 of 3 rows have no answer."
