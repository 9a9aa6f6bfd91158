"""predict.py without a runtime: lines, tables, flags, messages.

Its answers are in tests/contracts/test_answers.py.
"""

import importlib
import json
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
        ("classification", {"text_a": 3}, "text_a is 3; expected a string"),
        ("regression", {"text_a": None}, "text_a is null; expected a string"),
        ("regression", {"text_a": "a", "text_b": []}, "text_b is []; expected"),
        ("tagging", {"words": "the cat"}, 'words is "the cat"; expected a li'),
        ("tagging", {"words": ["the", 1]}, 'words is ["the", 1]; expected a'),
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


def test_lines_are_utf_8_on_every_system():
    process = echo(
        "classification",
        b"\xef\xbb\xbf" + "naïve 漢\rcat\n".encode() + b"caf\xe9\n",
    )
    assert process.returncode == 0
    lines = process.stdout.decode().splitlines()
    texts = [json.loads(line)["text_a"] for line in lines]
    assert texts == ["naïve 漢\rcat", "caf\ufffd"]
    assert process.stderr.decode().splitlines() == [
        "warning: stdin:2: byte 0xe9 is not UTF-8; such bytes are replaced"
    ]


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


CSV = b'text,label\r\n"a warm film, and a long one",1\r\n\r\n'
CSV += b'"dull\nand ""slow""",0\r\na film, and too many,1\r\nlast,2\r\n'


def test_a_csv_has_commas_quotes_and_line_breaks(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV)
    words = f"--input_file={path}", "--columns=text_a=text"
    process = echo("classification", b"", *words)
    first, second, bad, last = fields_of(process)
    assert first == {"text_a": "a warm film, and a long one"}
    assert second == {"text_a": 'dull\nand "slow"'}
    assert bad["error"].startswith("line 6: 3 columns, too few or too many")
    assert last == {"text_a": "last"}


@pytest.fixture
def predict(monkeypatch):
    """predict.py, imported as in the folder of an export."""
    monkeypatch.syspath_prepend(pathlib.Path(config.__file__).parent)
    module = importlib.import_module("predict")
    for name in ("predict", "tokenizer"):  # As it is here without its folder.
        monkeypatch.delitem(sys.modules, name)
    return module


def test_a_broken_row_of_a_csv_is_named_and_a_long_cell_ends_the_reading(
    predict, monkeypatch
):
    def read(*lines):
        return list(predict.parse_table(lines, [("text_a", "0")], True))

    (_, bad), row = read('"a"b,0\n', "c,1\n")
    assert "Is a quote not closed?" in str(bad)
    assert row == (2, {"text_a": "c"})
    with monkeypatch.context() as patch:
        patch.setattr(predict, "_MAX_CELL", 3)
        with pytest.raises(ValueError, match=r"larger than field limit \(3\)"):
            read("abcd,0\n", "c,1\n")
    assert read("abcd,0\n") == [(1, {"text_a": "abcd"})]


def test_quotes_of_a_tsv_are_text_and_indices_need_no_header():
    given = b'7\t"the cat\n8\n9\ta\rb\n'
    process = echo("regression", given, "--columns=text_a=1")
    first, bad, last = fields_of(process)
    assert (first, last) == ({"text_a": '"the cat'}, {"text_a": "a\rb"})
    assert bad["error"].startswith("line 2: 1 columns")


TABLE = ["--input_format=csv", "--columns=text_a=t"]


@pytest.mark.parametrize(
    ("given", "words", "message"),
    [
        (b'"a\nb', TABLE, "unexpected"),
        (b"a,b\n", TABLE, "0 times"),
        (b"t,t\n", TABLE, "2 times"),
        (b"", ["--columns=text=t"], "fields of this model are text_a, text_b"),
        (b"", ["--columns=text_b=t"], "needs a column for text_a"),
        (b"", ["--columns=text_a=t,text_a=u"], "each once"),
        (b"", ["--input_file=x.csv"], "csv and tsv need --columns"),
        (b"", ["--input_format=text", "--columns=text_a=t"], "others have no"),
        (b"", ["--input_file=missing.txt"], "missing.txt"),
        ("a\n".encode("utf-16"), [], "stdin is UTF-16; convert it to UTF-8."),
    ],
)
def test_a_wrong_table_or_flag_is_one_line(given, words, message):
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


# The score of a passage is its number of characters.
RANK = """
import json
import predict
class Model(predict.Model):
    def __init__(self):
        self.kind = "ranking"
        self.settings = {"kind": "ranking", "max_seq_length": 8}
        self.tokenizer = self
    def outputs(self, encoded):
        return ({"score": row} for row in encoded)
class Tokenizer(Model):
    def encode(self, *texts, max_seq_length=0):
        if max_seq_length:
            return len(texts[1])
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
