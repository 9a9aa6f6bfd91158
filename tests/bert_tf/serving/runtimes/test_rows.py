"""Files of texts for calibration and report."""

import gzip

import pytest

from bert_tf.serving.kinds import by_name
from bert_tf.serving.runtimes import rows


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_lines_are_the_first_field(write):
    path = write("texts.txt", "a\tb\n\nc\r\n")
    assert rows.read(path, by_name("classification")) == [
        {"text_a": "a\tb"},
        {"text_a": ""},
        {"text_a": "c"},
    ]
    assert rows.read(path, by_name("tagging"), most=1) == [{"text": "a\tb"}]


def test_tables_name_their_columns(write):
    path = write("t.tsv", "id\ttext_b\ttext_a\tlabel\n1\tb\ta\tgood\n")
    assert rows.read(path, by_name("classification")) == [
        {"text_a": "a", "text_b": "b", "label": "good"}
    ]


def test_objects_have_the_fields(write):
    path = write("t.jsonl", '{"context": "c", "endings": ["a", "b"], "n": 1}\n')
    assert rows.read(path, by_name("multiple_choice")) == [
        {"context": "c", "endings": ["a", "b"]}
    ]
    path = write("t.jsonl", '{"words": ["a", "b"], "label": 1}\n')
    assert rows.read(path, by_name("tagging")) == [
        {"words": ["a", "b"], "label": "1"}
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.tsv", "sentence\tlabel\na\t1\n", "t.tsv:2 has .* no text_a"),
        ("t.tsv", "text_a\tlabel\na\t1\nb\n\n", None),
        ("t.tsv", "text_a\ttext_a\na\tb\n", "2 columns have the name 'text_a'"),
        ("t.jsonl", '{"text_a": 3}\n', "t.jsonl:1: text_a"),
        ("t.jsonl", "[]\n", "t.jsonl:1"),
        ("t.txt", "", "has no texts"),
    ],
)
def test_wrong_files_are_refused(write, name, text, message):
    path = write(name, text)
    if message is None:
        assert rows.read(path, by_name("classification"))[1] == {"text_a": "b"}
        return
    with pytest.raises(ValueError, match=message):
        rows.read(path, by_name("classification"))


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


def test_a_label_may_be_unknown(write):
    path = write("t.jsonl", '{"text_a": "a", "label": null}\n')
    assert rows.read(path, by_name("regression")) == [{"text_a": "a"}]


def test_files_that_cannot_hold_the_fields_are_refused(write):
    path = write("t.tsv", "context\tendings\nc\ta ship\n")
    with pytest.raises(ValueError, match="t.tsv: a column cannot hold a list"):
        rows.read(path, by_name("multiple_choice"))
    path = write("t.txt", "who?\n")
    with pytest.raises(ValueError, match="t.txt:1 is not JSON"):
        rows.read(path, by_name("question_answering"))


def test_lines_are_json_where_one_text_is_not_enough(write):
    path = write("t.txt", '{"question": "who?", "context": "a cat"}\n')
    assert rows.read(path, by_name("question_answering")) == [
        {"question": "who?", "context": "a cat"}
    ]
    path = write("t.txt", '{"text_a": "a"}\n')
    assert rows.read(path, by_name("regression")) == [
        {"text_a": '{"text_a": "a"}'}
    ]


def test_a_csv_has_commas_quotes_and_line_breaks(write):
    text = 'text_a,label\n"a warm film, long",good\n"dull\nand ""slow""",bad\n'
    texts = rows.read(write("t.csv", text), by_name("classification"))
    assert texts == [
        {"text_a": "a warm film, long", "label": "good"},
        {"text_a": 'dull\nand "slow"', "label": "bad"},
    ]
    with pytest.raises(ValueError, match="t.csv:2 has 3 columns where the hea"):
        rows.read(
            write("t.csv", "text_a,label\na,b,1\n"), by_name("classification")
        )
    with pytest.raises(ValueError, match="t.csv:1: unexpected end of data"):
        rows.read(write("t.csv", '"text_a\n'), by_name("classification"))


def test_compressed_files_have_the_format_of_their_content(tmp_path):
    path = tmp_path / "t.tsv.gz"
    path.write_bytes(gzip.compress(b"id\ttext_a\n1\ta\n"))
    assert rows.read(str(path), by_name("regression")) == [{"text_a": "a"}]


def test_a_text_without_one_of_two_fields_is_refused(write):
    path = write("q.jsonl", '{"question": "who?"}\n')
    with pytest.raises(ValueError, match="q.jsonl:1 has .* no context"):
        rows.read(path, by_name("question_answering"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises((ValueError, OSError), match="none.txt"):
        rows.read(str(tmp_path / "none.txt"), by_name("classification"))
