"""Facts of reading lines, TSV rows and pipes."""

import json
import os

import pytest
import tensorflow as tf

from bert_tf.workflows import text_rows


def test_invalid_utf8_is_replaced_and_counted(tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"caf\xe9 \xff\nna\xc3\xafve \xef\xbf\xbd\n")
    with text_rows.open_lines(str(path)) as lines:
        rows = list(text_rows.read_texts(lines, "text", 1))
    assert [row.values for row in rows] == [
        {"text": "caf\ufffd \ufffd"},
        {"text": "na\xefve \ufffd"},
    ]
    assert lines.num_replaced == 2  # The last one stood in the file.


def test_a_line_longer_than_a_block_is_one_line(tmp_path):
    path = tmp_path / "input"
    path.write_text("x" * 200_000 + "\nend", encoding="utf-8")
    with text_rows.open_lines(str(path)) as lines:
        assert [len(line) for line in lines] == [200_000, 3]


def test_what_has_come_is_answered_before_waiting_for_more():
    reader, writer = os.pipe()
    rows = text_rows.read_texts(text_rows.Lines(reader, "stdin"), "text", 1)
    batches = text_rows.make_batches(rows, 2)
    os.write(writer, b"one\ntwo\nthree\nfo")
    assert [row.values["text"] for row in next(batches)] == ["one", "two"]
    assert [row.values["text"] for row in next(batches)] == ["three"]
    os.write(writer, b"ur")
    os.close(writer)
    assert [row.line for row in next(batches)] == [4]
    assert next(batches, None) is None
    os.close(reader)


def rows_of(path, read, *arguments):
    with text_rows.open_lines(str(path)) as lines:
        return [row for row in read(lines, *arguments) if row is not None]


def write(tmp_path, *values):
    path = tmp_path / "input.jsonl"
    lines = [x if isinstance(x, str) else json.dumps(x) for x in values]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


RANKS = {"context": 1, "endings": 2}


def test_words_stand_between_spaces(tmp_path):
    (tmp_path / "input").write_text("the old  cat\n\n")
    rows = rows_of(tmp_path / "input", text_rows.read_texts, "words", 2)
    assert [row.values["words"] for row in rows] == [["the", "old", "cat"], []]


def test_json_lines_keep_what_the_model_does_not_take(tmp_path):
    one = {"id": 7, "context": "a", "endings": ["b", "c"]}
    path = write(tmp_path, one, "", {"context": "", "endings": []})
    first, second = rows_of(path, text_rows.read_objects, RANKS)
    assert first == (1, one)
    assert second == (3, {"context": "", "endings": []})


def test_what_is_optional_may_be_left_out(tmp_path):
    path = write(tmp_path, {"text_a": "a"})
    ranks = {"text_a": 1, "text_b": 1}
    rows = rows_of(path, text_rows.read_objects, ranks, ["text_b"])
    assert rows[0].values == {"text_a": "a"}
    tensor = text_rows.make_tensor(rows, "text_b", 1)
    assert tensor.numpy().tolist() == [b""]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no", r"jsonl:2 is no JSON: .*such as \{\"context\": "),
        ([1], "jsonl:2 has no 'context' and no 'endings'; expected"),
        ({"id": "\ud83d"}, "jsonl:2 holds no text: .*Take the half surrogate"),
        ({"context": "a"}, "jsonl:2 has no 'endings'; expected an object"),
        (
            {"context": 3, "endings": []},
            "jsonl:2: 'context' is 3; it should be a text",
        ),
        (
            {"context": "", "endings": "a"},
            "jsonl:2: 'endings' is \"a\"; it should be a list of texts",
        ),
        (
            {"context": "", "endings": ["a", None]},
            "'endings' is .*null.; it should be a list of texts",
        ),
    ],
)
def test_json_that_the_model_cannot_take_is_refused(tmp_path, line, message):
    path = write(tmp_path, {"context": "", "endings": []}, line)
    with pytest.raises(ValueError, match=message):
        rows_of(path, text_rows.read_objects, RANKS)


def test_several_columns_of_one_input_make_a_list(tmp_path):
    path = tmp_path / "input"
    path.write_text("a\tb\tc\n1\t2\t3\n")
    (row,) = rows_of(
        path,
        text_rows.read_columns,
        [("endings", "c"), ("context", "b"), ("endings", "a")],
        RANKS,
    )
    assert row == (2, {"endings": ["3", "1"], "context": "2"})


def test_lists_of_a_batch_are_padded():
    rows = [
        text_rows.Row(1, {"endings": ["a", "b"]}),
        text_rows.Row(2, {"endings": []}),
        text_rows.Row(3, {"endings": ["c"]}),
    ]
    tensor = text_rows.make_tensor(rows, "endings", 2)
    assert tensor.numpy().tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]
    assert text_rows.make_tensor(rows[1:2], "endings", 2).shape == (1, 0)
    assert tensor.dtype == tf.string
