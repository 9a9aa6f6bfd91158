"""Columns of a DataFrame, and what of them is refused."""

import subprocess
import sys

import pytest

from tfrecords.tables import data_frames


def test_pandas_is_not_imported():
    code = "import sys; from tfrecords.tables import data_frames as d; "
    code += "print(d.is_frame([]), 'pandas' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False False\n"


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "text": ["a", "b", None],
            "n": [1, 2, 3],
            "x": [0.5, None, 1.0],
            "tags": [["a"], [], None],
        },
        index=["i", "j", "k"],
    )


def test_values_are_those_of_python_and_none_where_one_is_missing(frame):
    assert data_frames.is_frame(frame) and not data_frames.is_frame(frame["n"])
    read = {name: data_frames.read_column(frame, name) for name in frame}
    assert read == {
        "text": ["a", "b", None],
        "n": [1, 2, 3],
        "x": [0.5, None, 1.0],
        "tags": [["a"], [], None],
    }
    assert type(read["n"][0]) is int
    assert data_frames.read_column(frame[:2], "text", (str,)) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Text", "no column 'Text'; its columns are 'text', 'n', 'x', 'tags'"),
        ("text", r"Row 'k' .* in column 'text'; expected str\..*dropna"),
        ("n", r"Row 'i' .* has 1 \(int\) in column 'n'; .*astype\(str\)"),
        ("tags", r"Row 'i' .* has \['a'\] \(list\)"),
    ],
)
def test_a_column_that_is_no_text_is_named_with_its_row(frame, name, message):
    with pytest.raises(ValueError, match=message):
        data_frames.read_column(frame, name, (str,))


def test_a_column_that_is_there_twice_is_refused(frame):
    twice = frame.rename(columns={"n": "text"})
    with pytest.raises(ValueError, match="several columns 'text'"):
        data_frames.read_column(twice, "text")
