"""predict.py without a runtime: lines, flags, messages.

Its answers are in tests/contracts/test_answers.py.
"""

import importlib
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from bert_tf.contrib.runtimes import config, tokenizer

pytestmark = pytest.mark.slow


# The model answers with the fields of the line.
ECHO = """
import sys
import predict
class Model(predict.Model):
    def __init__(self, folder, prompt_name):
        self.kind, self.settings = sys.argv[1], {"outputs": []}
    def answer(self, texts):
        return super().answer(texts) if self.kind == "encoder" else texts
predict.Model = Model
predict.main(sys.argv[2:])
"""


def echo(kind: str, given, *words: str) -> subprocess.CompletedProcess:
    """Answers lines: bytes, or a value, as one line of JSON."""
    if not isinstance(given, bytes):
        given = json.dumps(given).encode()
        words = ("--input_format=jsonl", *words)
    return subprocess.run(
        [sys.executable, "-B", "-c", ECHO, kind, *words],
        input=given,
        cwd=pathlib.Path(config.__file__).parent,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )


def fields_of(process) -> list[dict]:
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("line", ["{}", '{"text": "a"}', "[1]", "who?"])
def test_a_line_without_the_fields_is_refused(line):
    process = echo("question_answering", f"{line}\n".encode())
    assert process.returncode == 1
    assert b"expected JSON with question, context" in process.stderr
    assert "expected JSON" in json.loads(process.stdout)["error"]


@pytest.mark.parametrize(
    ("kind", "line", "wanted"),
    [
        ("classification", {"text_a": [3]}, "text_a is [3]; expected a str"),
        ("classification", {"text_a": math.nan}, "text_a is NaN; expected a"),
        ("regression", {"text_a": None}, "text_a is null; expected a string"),
        ("regression", {"text_a": "a", "text_b": []}, "text_b is []; expected"),
        ("tagging", {"words": "the cat"}, 'words is "the cat"; expected a li'),
        ("tagging", {"words": ["a", None]}, 'words is ["a", null]; expected'),
        (
            "multiple_choice",
            {"context": "a", "endings": "b"},
            'endings is "b"; expected a list of strings',
        ),
        (
            "ranking",
            {"query": "a", "passages": "b"},
            'passages is "b"; expected a list of strings',
        ),
    ],
)
def test_fields_that_are_not_text_are_refused(kind, line, wanted):
    process = echo(kind, line)
    assert process.returncode == 1
    assert process.stderr.decode().startswith("line 1: ")
    assert wanted in process.stderr.decode()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("classification", {"text_a": "a", "text_b": None}),
        ("tagging", {"text": "a", "words": None}),
        ("tagging", {"text": None, "words": ["a"]}),
    ],
)
def test_fields_that_may_be_missing_may_be_null(kind, line):
    assert json.loads(echo(kind, line).stdout) == line


def test_numbers_are_texts():
    process = echo("classification", {"text_a": 3, "text_b": True})
    assert fields_of(process) == [{"text_a": "3", "text_b": "true"}]


def test_an_answer_that_is_not_finite_is_an_error():
    process = echo("classification", {"text_a": "a", "score": math.nan})
    (answer,) = fields_of(process)
    assert answer["error"].startswith("line 1: the answer has a number that")
    assert process.returncode == 1


def test_lines_are_utf_8_on_every_system():
    process = echo(
        "classification",
        b"\xef\xbb\xbf" + "naïve 漢\rcat\r\n".encode() + b"caf\xe9\na",
    )
    assert process.returncode == 1
    first, bad, last = fields_of(process)
    assert (first, last) == ({"text_a": "naïve 漢\rcat"}, {"text_a": "a"})
    error = "line 2: byte 0xe9 is not UTF-8. Convert the file to UTF-8."
    assert bad == {"error": error}
    assert process.stderr.decode().splitlines() == [
        error,
        "error: 1 of 3 rows have no answer.",
    ]


@pytest.mark.parametrize("words", [(), ("--input_format=text",)])
def test_json_that_is_read_as_text_has_a_note(words):
    process = echo("classification", b'{"text_a": "a"}\n', *words)
    assert fields_of(process) == [{"text_a": '{"text_a": "a"}'}]
    shown = process.stderr.decode().splitlines()
    assert [x[:22] for x in shown] == ["note: line 1 is JSON, "] * (not words)


BRACES = ['{"text_a": "a"}', "{curly} film", "", "a fine film"]


def test_a_text_may_begin_with_a_brace():
    process = echo("classification", "\n".join(BRACES).encode())
    assert process.returncode == 0
    assert fields_of(process) == [{"text_a": line} for line in BRACES]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "{" + "x" * 500,
            f"line 2: '{{{'x' * 98}...: expected JSON with text_a.",
        ),
        ("[" * 100_000, "line 2: "),
        ('{"text_a": "\\ud800"}', "line 2: "),  # Python cannot write it.
    ],
)
def test_a_bad_line_is_named_and_the_others_are_answered(line, message):
    given = "\n".join(['{"text_a": "a"}', line, "", '{"text_a": "b"}'])
    words = "--input_format=jsonl"
    process = echo("classification", given.encode(), words)
    assert process.returncode == 1
    first, bad, last = fields_of(process)
    assert (first, last) == ({"text_a": "a"}, {"text_a": "b"})
    assert list(bad) == ["error"] and bad["error"].startswith(message)
    named, total = process.stderr.decode().splitlines()
    assert named == bad["error"]
    assert total == "error: 1 of 3 rows have no answer."


@pytest.fixture
def predict(monkeypatch):
    """predict.py, imported as in the folder of an export."""
    monkeypatch.syspath_prepend(pathlib.Path(config.__file__).parent)
    module = importlib.import_module("predict")
    for name in ("predict", "tokenizer"):  # As it is here without its folder.
        monkeypatch.delitem(sys.modules, name)
    return module


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--input_file=reviews.csv"], "reviews.csv"),
        (["--input_file=data/R.TSV"], "data/R.TSV"),
        (["--input_file=a.parquet"], "a.parquet"),
        (["--input_file=a.txt", "--columns=text_a=review"], "a.txt"),
        (["--columns=text_a=0"], "stdin"),
        (["--input_format=csv"], "stdin"),
        (["--input_format=tsv", "--input_file=a.txt"], "a.txt"),
    ],
)
def test_a_table_is_refused_with_what_to_do(words, name):
    process = echo("classification", b"text\na fine film\n", *words)
    refused(process, f"error: {name}: predict.py reads lines of text and of")
    refused(process, "Convert it to JSON lines, or use bert-predict of bert_tf")


@pytest.mark.parametrize(
    ("given", "words", "message"),
    [
        (b"", ["--input_format=xml"], "(--input_format=text or jsonl)"),
        (b"", ["--input_file=missing.txt"], "missing.txt"),
    ],
)
def test_a_wrong_flag_is_one_line(given, words, message):
    refused(echo("classification", given, *words), message)


def refused(process, message):
    assert process.returncode == 1 and process.stdout == b""
    (line,) = process.stderr.decode().splitlines()
    assert line.startswith("error: ") and message in line


def test_a_kind_that_cannot_answer_says_why():
    refused(echo("encoder", b""), "this model has no pooled_output")
    process = echo("question_answering", b"who?", "--input_format=text")
    refused(process, "not enough for question, context")


def test_an_answer_has_at_most_the_longest_length(predict):
    window = tokenizer.Window(
        row={"input_mask": [1] * 7},
        tokens=[tokenizer.Token(5, i, i + 1) for i in range(4)],
        offset=2,
        has_max_context=[True] * 4,
    )
    logits = {name: np.zeros(7) for name in ("start_logits", "end_logits")}
    settings = {"n_best_size": 7, "max_answer_length": 2}
    spans = predict._find_spans([window], [logits], settings)
    assert {end - start for _, start, end in spans} == {1, 2}


def test_a_label_is_an_answer_from_its_threshold_on(predict):
    model = predict.Model.__new__(predict.Model)
    model.settings = {"labels": ["a", "b", "c"], "thresholds": [0.5, 0.7, 0.7]}
    row = {"probabilities": np.array([0.5, 0.7, 0.69], np.float32)}
    assert model._multi_label({}, row)["labels"] == ["a", "b"]


# The score of a passage is its number of characters.
RANK = """
import json
import predict
class Model(predict.Model):
    def __init__(self):
        self.kind = "ranking"
        self.settings = {"kind": self.kind, "max_seq_length": 8, "outputs": []}
        self.tokenizer = self
    def outputs(self, encoded):
        return ({"score": row["length"]} for row in encoded)
class Tokenizer(Model):
    def encode(self, *texts, max_seq_length=0):
        if max_seq_length:
            return {"length": len(texts[1])}
        return super().encode(*texts)
print(json.dumps(Tokenizer().answer([
    {"query": "a", "passages": ["", "bb", "aa", "", "ccc", "d"]},
    {"query": "a", "passages": [""]},
    {"query": "b", "passages": ["d", "bb"]},
])))
"""


def test_passages_that_are_empty_are_left_out_and_equal_ones_in_order():
    process = subprocess.run(
        [sys.executable, "-B", "-c", RANK],
        cwd=pathlib.Path(config.__file__).parent,
        capture_output=True,
        check=True,
    )
    first, none, last = json.loads(process.stdout)
    assert first == {
        "ranked": ["ccc", "bb", "aa", "d"],
        "scores": [3.0, 2.0, 2.0, 1.0],
        "order": [4, 1, 2, 5],
    }
    assert none == {"ranked": [], "scores": [], "order": []}
    assert last["order"] == [1, 0]
