"""Files of texts for calibration and report."""

import gzip
import json

import pytest

from bert_tf.contrib.runtimes import rows
from bert_tf.serving.kinds import by_name


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def read(write):
    """Name of a file, its text, kind -> its rows."""

    def read(name, text, kind="classification", **more):
        return rows.read(write(name, text), by_name(kind), **more)

    return read


def test_lines_are_the_first_field(read):
    lines = "a\tb\n\nc\r\n"
    found = read("texts.txt", lines)
    assert found == [{"text_a": "a\tb"}, {"text_a": ""}, {"text_a": "c"}]
    assert read("texts.txt", lines, "tagging", most=1) == [{"text": "a\tb"}]


def test_tables_name_their_columns(read):
    found = read("t.tsv", "id\ttext_b\ttext_a\tlabel\n1\tb\ta\tgood\n")
    assert found == [{"text_a": "a", "text_b": "b", "label": "good"}]
    found = read("t.tsv", "text_a\tlabel\na\t1\nb\n\n")
    assert found[1] == {"text_a": "b"}


@pytest.mark.parametrize(
    ("kind", "found", "more"),
    [
        ("multiple_choice", {"context": "c", "endings": ["a", "b"]}, {"n": 1}),
        ("tagging", {"words": ["a", "b"], "label": "1"}, {"label": 1}),
        ("regression", {"text_a": "a"}, {"label": None}),  # Unknown.
    ],
)
def test_objects_have_the_fields(read, kind, found, more):
    assert read("t.jsonl", json.dumps(found | more) + "\n", kind) == [found]


LABEL = "classification"
CHOICE, QUESTION = "multiple_choice", "question_answering"


@pytest.mark.parametrize(
    ("kind", "name", "text", "message"),
    [
        (LABEL, "t.tsv", "sentence\tlabel\na\t1\n", "t.tsv:2 has .* no text_a"),
        (LABEL, "t.tsv", "text_a\ttext_a\na\tb\n", "2 columns .* 'text_a'"),
        (LABEL, "t.jsonl", '{"text_a": [3]}\n', "t.jsonl:1: text_a"),
        (LABEL, "t.jsonl", "[]\n", "t.jsonl:1"),
        (LABEL, "t.txt", "", "has no texts"),
        (LABEL, "t.parquet", "PAR1", "t.parquet is a Parquet file"),
        (LABEL, "t.csv", "text_a,label\na,b,1\n", "t.csv:2 has 3 columns whe"),
        (LABEL, "t.csv", '"text_a\n', "t.csv:1: unexpected end of data"),
        (CHOICE, "t.tsv", "context\tendings\nc\ta\n", "t.tsv: .* hold a list"),
        ("ranking", "t.csv", "query,passages\nc,a\n", "a list of passages"),
        (QUESTION, "t.txt", "who?\n", "t.txt:1 is not JSON"),
        (QUESTION, "t.jsonl", '{"question": "?"}\n', "l:1 has .* no context"),
    ],
)
def test_wrong_files_are_refused(read, kind, name, text, message):
    with pytest.raises(ValueError, match=message):
        read(name, text, kind)


@pytest.mark.parametrize(
    ("kind", "label", "message"),
    [
        ("regression", "good", "a score should be a number"),
        ("regression", "nan", "a score should be a number"),
        ("regression", "inf", "a score should be a number"),
        ("regression", "", "a score should be a number"),
        ("classification", "2", "the model's are 1.5, good"),
        ("classification", "", "the model's are 1.5, good"),
    ],
)
def test_labels_without_a_score_are_refused(write, kind, label, message):
    path = write("t.tsv", f"text_a\tlabel\na\t1.5\nb\t{label}\n")
    kind, labels = by_name(kind), ["1.5", "good"]
    texts = rows.read(path, kind)
    match = f"t.tsv:3 has the label '{label}'; {message}"
    with pytest.raises(ValueError, match=match):
        rows.check_labels(path, texts, kind, labels)
    rows.check_labels(path, texts[:1], kind, labels)
    rows.check_labels(path, [{"text_a": "a"}], kind, labels)
    rows.check_labels(path, texts, by_name("encoder"), ())


def test_lines_are_json_where_one_text_is_not_enough(read):
    line = '{"question": "who?", "context": "a cat"}'
    found = read("t.txt", f"{line}\n", "question_answering")
    assert found == [{"question": "who?", "context": "a cat"}]
    assert read("t.txt", f"{line}\n", "regression") == [{"text_a": line}]


def test_a_csv_has_commas_quotes_and_line_breaks(read):
    text = 'text_a,label\n"a warm film, long",good\n"dull\nand ""slow""",bad\n'
    assert read("t.csv", text) == [
        {"text_a": "a warm film, long", "label": "good"},
        {"text_a": 'dull\nand "slow"', "label": "bad"},
    ]


def test_compressed_files_have_the_format_of_their_content(tmp_path):
    path = tmp_path / "t.tsv.gz"
    path.write_bytes(gzip.compress(b"id\ttext_a\n1\ta\n"))
    assert rows.read(str(path), by_name("regression")) == [{"text_a": "a"}]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises((ValueError, OSError), match="none.txt"):
        rows.read(str(tmp_path / "none.txt"), by_name("classification"))
