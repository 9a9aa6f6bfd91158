"""Rows and answers -> CSV, TSV and Parquet, read back by their libraries."""

import csv
import datetime
import math
import sys

import pytest

from bert_tf.serving import answer_files, text_rows

TEXTS = ['a "fine", film', "=1+1", "two\nlines", "a\ttab", "cr\rlf\r\n", " "]


def write(path, *pairs):
    """Writes a table of pairs of cells and answer; an answer may be BadLine."""
    with answer_files.open_file(str(path)) as add:
        for i, (cells, found) in enumerate(pairs):
            add([(text_rows.Row(i, {}, cells), found)])


def read(path, **settings):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True, **settings))


@pytest.mark.parametrize(
    ("name", "separator"), [("T.CSV", ","), ("t.tsv", "\t")]
)
def test_texts_are_read_back_as_they_were(tmp_path, name, separator):
    pairs = [({"text": text}, {"label": "x"}) for text in TEXTS]
    assert answer_files.is_table(name)
    write(tmp_path / name, *pairs)
    rows = read(tmp_path / name, delimiter=separator)
    assert rows == [["text", "label"], *([text, "x"] for text in TEXTS)]
    # Rows end as those of other tools do.
    assert (tmp_path / name).read_text().splitlines(True)[0][-6:] == "label\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_all_rows_have_the_columns_of_all_and_errors_are_last(tmp_path):
    bad = text_rows.BadLine(2, "t.jsonl:2: no text")
    write(
        tmp_path / "t.csv",
        ({}, bad),
        ({"n": 1, "label": "a", "error": None}, {"label": "b", "p": 0.5}),
        ({"m": [1, {"x": None}], "n": math.nan}, {"label": "c", "p": True}),
    )
    assert read(tmp_path / "t.csv") == [
        ["n", "input_label", "input_error", "m", "label", "p", "error"],
        ["", "", "", "", "", "", "t.jsonl:2: no text"],
        ["1", "a", "", "", "b", "0.5", ""],
        ["", "", "", '[1, {"x": null}]', "c", "true", ""],
    ]


def test_without_errors_there_is_no_such_column_and_nothing_is_empty(tmp_path):
    write(tmp_path / "t.csv", ({"a": 1}, {"b": 2}))
    assert read(tmp_path / "t.csv") == [["a", "b"], ["1", "2"]]
    write(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b""


def test_an_error_leaves_the_file_that_was_there(tmp_path):
    (tmp_path / "t.csv").write_text("before")
    with pytest.raises(ValueError, match="column 'b' has bytes.*parquet"):
        write(tmp_path / "t.csv", ({"a": 1}, {}), ({"b": b"\0"}, {}))
    assert (tmp_path / "t.csv").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_column_of_parquet_keeps_its_type_and_is_text_if_it_has_two(
    tmp_path, monkeypatch
):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(answer_files, "_ROWS_AT_ONCE", 2)
    day = datetime.date(2020, 1, 2)
    cells = [
        {"day": day, "n": 1, "x": 1, "y": None, "raw": b"\0", "s": "a"},
        {"day": None, "n": 2.5, "x": "one", "y": None},
        {"day": day, "n": None, "x": [True], "y": ["b"]},
    ]
    answers = [{"tags": [{"word": "a"}]}, {"tags": []}, {"tags": []}]
    write(tmp_path / "t.parquet", *zip(cells, answers, strict=True))
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == {
        "day": [day, None, day],
        "n": [1.0, 2.5, None],
        "x": ["1", "one", "[true]"],
        "y": [None, None, ["b"]],
        "raw": [b"\0", None, None],
        "s": ["a", None, None],
        "tags": [[{"word": "a"}], [], []],
    }


def test_tables_are_told_by_their_names():
    names = ("-", "answers.jsonl", "answers", "answers.json.gz", "csv")
    assert not any(map(answer_files.is_table, names))
    with pytest.raises(ValueError, match=r"not compressed.*ends in \.csv"):
        answer_files.is_table("answers.csv.gz")
    with pytest.raises(ValueError, match=r"tables are \.csv, \.tsv or"):
        answer_files.is_table("answers.XLSX")


def test_pyarrow_is_asked_for_before_anything_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"x\.parquet needs.*\[parquet\]"):
        answer_files.is_table("x.parquet")
