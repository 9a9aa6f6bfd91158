"""swag_files.py: columns, endings and labels of SWAG's CSV, and errors."""

import planted_swag as planted
import pytest

from tfrecords.tasks import swag_files


def read(path, is_labelled=True):
    return list(swag_files.read_rows(str(path), is_labelled=is_labelled))


def test_segment_b_is_the_beginning_and_an_ending(tmp_path):
    path = planted.write(tmp_path / "train.csv", planted.rows(2))
    first, second = read(path)
    assert first.context == 'He said, "waits for the boat."'
    assert first.endings[:2] == (
        "The captain waits for the boat.",
        "The captain drinks warm soup.",
    )
    assert (first.label, second.label) == (0, 1)
    assert second.source == f"{path}:3"


@pytest.mark.parametrize("num_endings", [2, 3, 5])
def test_a_file_may_have_any_number_of_endings(tmp_path, num_endings):
    path = planted.write(
        tmp_path / "a.csv",
        planted.rows(5, num_endings),
        planted.header(num_endings),
    )
    assert swag_files.count_endings(path) == num_endings
    assert {len(row.endings) for row in read(path)} == {num_endings}


def test_columns_may_have_any_order(tmp_path):
    path = planted.write(
        tmp_path / "a.csv",
        [["b", "1", "begins", "a", "It rained."]],
        ["ending1", "label", "sent2", "ending0", "sent1"],
    )
    (row,) = read(path)
    assert row.endings == ("begins a", "begins b")
    assert (row.context, row.label) == ("It rained.", 1)


def test_test_files_need_no_labels(tmp_path):
    path = planted.write(
        tmp_path / "test.csv",
        planted.rows(3, is_labelled=False),
        planted.header(is_labelled=False),
    )
    assert [row.label for row in read(path, is_labelled=False)] == [None] * 3
    with pytest.raises(ValueError, match="test.csv:1: no column 'label'"):
        read(path)


def test_without_a_beginning_segment_b_is_the_ending(tmp_path):
    row = planted.rows(1)[0]
    row[5] = ""
    path = planted.write(tmp_path / "a.csv", [row])
    assert read(path)[0].endings[1] == "drinks warm soup."


def changed(column, value):
    row = planted.rows(1)[0]
    row[column] = value
    return row


LABEL = "should be the number of an ending, 0 to 3"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (changed(9, " "), "3 endings where the file has 4: ending2 is empty"),
        (planted.rows(1)[0][:7] + ["a", "b", "c", 0], "11 columns"),
        (planted.rows(1)[0] + ["x"], "13 columns where the header"),
        (changed(11, 4), f"label '4' {LABEL}"),
        (changed(11, "-1"), f"label '-1' {LABEL}"),
        (changed(11, ""), f"label '' {LABEL}"),
    ],
)
def test_an_invalid_row_raises_with_its_line(tmp_path, row, message):
    path = planted.write(tmp_path / "a.csv", [*planted.rows(2), row])
    with pytest.raises(ValueError, match=f"a.csv:4: {message}"):
        read(path)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["sent1", "sent2", "ending0", "label"], "'ending1'"),
        (["sent1", "sent2", "ending0", "ending2", "label"], "'ending1'"),
        (["ending0", "ending1"], "'sent1', 'sent2', 'label'"),
    ],
)
def test_a_header_with_missing_columns_raises(tmp_path, names, missing):
    path = planted.write(tmp_path / "a.csv", [["x"] * len(names)], names)
    with pytest.raises(ValueError, match=f"a.csv:1: no column {missing}; "):
        read(path)


def test_empty_files_raise(tmp_path):
    path = planted.write(tmp_path / "a.csv", [])
    with pytest.raises(ValueError, match="a.csv has no rows"):
        read(path)
    (tmp_path / "a.csv").write_text("")
    for function in (read, swag_files.count_endings):
        with pytest.raises(ValueError, match="a.csv is empty"):
            function(path)


def test_real_rows_are_read(shared_data):
    for name, count in (
        ("samples/swag_allennlp.csv", 11),
        ("swag_layout/train.csv", 1943),
        ("swag_layout/val.csv", 277),
    ):
        rows = read(shared_data / name)
        assert len(rows) == count, name
        assert {len(row.endings) for row in rows} == {4}
