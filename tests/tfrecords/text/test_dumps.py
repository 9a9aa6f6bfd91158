"""dumps.py: rows of JSON lines and Parquet; errors name file and line."""

import os
import sys

import pytest

from tfrecords.io.inputs import file_kinds
from tfrecords.text import documents, dumps, text_files


@pytest.fixture
def read(tmp_path):
    """Reads lines as a file of JSON lines; returns texts and statistics."""

    def call(*lines, text_field="text"):
        statistics = text_files.ReadStatistics()
        rows = dumps.read_json_lines(lines, "a.jsonl", text_field, statistics)
        return list(rows), statistics

    return call


def test_each_line_with_a_text_is_a_row(read):
    rows, statistics = read(
        '{"text": "One.\\nTwo.", "id": 1}', "", '{"text": null}', '{"text": ""}'
    )
    assert rows == [(1, "One.\nTwo."), (4, "")]
    assert statistics.rows_without_text == 1


def test_the_field_may_have_another_name(read):
    assert read('{"body": "One."}', text_field="body")[0] == [(1, "One.")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "{'text': 'One.'}",
            "^a.jsonl:2 is not JSON .*: \"{'text': 'One.'}\"",
        ),
        (
            '{"text": "One.',
            "a.jsonl:2 is not JSON .*column 10.* object such a",
        ),
        ('{"body": "One."}', r"a.jsonl:2: .* fields \['body'\]; expected the"),
        ('"One."', "a.jsonl:2: the content is 'One.'; it should be an object"),
        (
            '{"text": ["One."]}',
            "a.jsonl:2: text is .* should be a string.*--t",
        ),
        ('{"text": "\\ud800"}', "a.jsonl:2: text is .* not valid text: a surr"),
    ],
)
def test_an_invalid_line_is_named(read, line, message):
    with pytest.raises(ValueError, match=message):
        read('{"text": "One."}', line)


def test_json_is_an_object_on_one_line():
    assert documents.is_json('{"text": 1}')
    for line in ("", "{", '["text"]', "text", '{"text": 1} {'):
        assert not documents.is_json(line)


@pytest.fixture
def table(tmp_path):
    """Writes columns to a Parquet file; returns its path."""
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="no pyarrow: the extra parquet"
    )
    import pyarrow

    def write(columns, name="a.parquet"):
        path = str(tmp_path / name)
        parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
        return path

    return write


def read_parquet(path, text_field="text"):
    statistics = text_files.ReadStatistics()
    rows = list(dumps.read_parquet(path, text_field, statistics))
    return rows, statistics


def test_rows_of_parquet_are_read(table):
    path = table({"text": ["One.", None, "Three."], "id": [1, 2, 3]})
    assert file_kinds.is_table(path)
    rows, statistics = read_parquet(path)
    assert rows == [(1, "One."), (3, "Three.")]
    assert statistics.rows_without_text == 1


def test_parquet_is_detected_by_its_first_bytes(table, tmp_path):
    path = table({"text": ["A cat sat. It purred.", "A sail."]}, "a.txt")
    found = list(documents.read_documents([path]))
    assert [row.sentences for row in found] == [
        ["A cat sat.", "It purred."],
        ["A sail."],
    ]
    assert found[1].source.endswith("a.txt:2")
    (tmp_path / "b.txt").write_text("PA")
    assert not file_kinds.is_table(str(tmp_path / "b.txt"))
    assert not file_kinds.is_table(str(tmp_path / "none"))


def test_a_missing_column_is_named(table):
    path = table({"body": ["One."], "id": [1]})
    message = r"columns \['body', 'id'\] and no 'text'.*--text_fi"
    with pytest.raises(ValueError, match=message):
        read_parquet(path)
    assert read_parquet(path, "body")[0] == [(1, "One.")]


def test_a_column_of_numbers_and_damage_are_named(table):
    path = table({"text": [7] * 50})
    with pytest.raises(ValueError, match="parquet:1: text is 7; it should be"):
        read_parquet(path)
    os.truncate(path, 200)
    with pytest.raises(ValueError, match="a.parquet is damaged or not a Parq"):
        read_parquet(path)


def test_without_pyarrow_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"pip install 'bert_tf\[parquet\]'"):
        read_parquet(str(tmp_path / "a.parquet"))
