"""parts.py: files of a name; folders that are no table."""

import json
import os

import pytest

from tfrecords.io import atomic_files
from tfrecords.tables import parts, table_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write files into, which is the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(*names, content="text\na\n"):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return write


@pytest.mark.parametrize(
    ("names", "files"),
    [
        ("a.csv", ["a.csv"]),
        ("b.csv, a.csv ", ["b.csv", "a.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("d/*", ["d/part-0.csv", "d/part-1.csv"]),
        ("with,comma[1].csv", ["with,comma[1].csv"]),
        ("d", ["d/part-0.csv", "d/part-1.csv"]),
        ("d/,a.csv", ["d/part-0.csv", "d/part-1.csv", "a.csv"]),
    ],
)
def test_names_are_files(folder, names, files):
    folder("a.csv", "b.csv", "with,comma[1].csv")
    folder("d/part-1.csv", "d/part-0.csv", "d/_SUCCESS", "d/.part-0.csv.crc")
    assert parts.find(names) == files
    assert parts.exist(names)
    absolute = parts.find(parts.absolute(names))
    pairs = zip(absolute, files, strict=True)
    assert all(path.endswith(f"/{file}") for path, file in pairs)


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        ([], "a.csv", "there is no file a.csv"),
        ([], "*.csv", r"there is no file \*.csv"),
        (["a.csv"], "a.csv, ?.csv", "a.csv is named twice"),
        (["d/_delta_log/0", "d/a.csv"], "d/*.csv", "d is a Delta table"),
        (["d/_delta_log/0", "d/y=1/a.csv"], "d/*/*.csv", "d is a Delta table"),
        (["d/_delta_log/0.json"], "d", "d is a Delta table, .*DeltaTable"),
        (["d/.hoodie/x"], "d", "d is a Hudi table"),
        (["d/metadata/1.metadata.json"], "d", "an Iceberg table"),
        (["d/_versions/1"], "d", "a Lance table"),
        (["d/dataset_dict.json"], "d", "Give .* such as d/train"),
        (
            ["d/y=1/a.csv", "d/y=2/m=.5/a.csv"],
            *("d", r"folders in it: y=1, y=2\. .* as d/\*\*/\*\.csv; a"),
        ),
        (
            ["d/a.csv", "d/b.json"],
            *("d", r"a.csv, b.json, not the parts of .* as d/\*\.json\."),
        ),
        (["d/_SUCCESS"], "d", r"d has no files.* d/\*\.parquet"),
    ],
)
def test_what_is_no_table_is_named(folder, files, name, message):
    folder(*files)
    with pytest.raises(ValueError, match=message):
        parts.find(name)


def test_files_of_folders_in_a_folder_are_those_of_the_advised_glob(folder):
    folder("d/y=1/a.csv", "d/y=2/m=.5/a.csv", "d/y=1/_SUCCESS")
    assert parts.find("d/**/*.csv") == ["d/y=1/a.csv", "d/y=2/m=.5/a.csv"]


def test_a_pipe_is_no_file(folder):
    os.mkfifo("pipe")
    with pytest.raises(ValueError, match="pipe is a pipe or .* it to a file"):
        parts.find("pipe")


def test_a_saved_dataset_names_its_files(folder):
    folder("d/cache-1.arrow", "d/data-1.arrow", "d/data-0.arrow")
    files = [{"filename": "data-1.arrow"}, {"filename": "data-0.arrow"}]
    folder("d/state.json", content=json.dumps({"_data_files": files}))
    assert parts.find("d") == ["d/data-1.arrow", "d/data-0.arrow"]
    assert parts.find("d/*.arrow") == ["d/data-0.arrow", "d/data-1.arrow"]


def test_parts_are_read_as_one_table(folder):
    """With columns in any order; Spark writes parts without a line."""
    folder("d/0.csv", content="")
    folder("d/1.csv", content="text,n\na,1\n")
    folder("d/2.csv", content="n,text\n2,b\n")
    found = list(table_files.read_columns("d", "auto", ["text", "n"], ""))
    assert found == [("d/1.csv:2", ["a", "1"]), ("d/2.csv:2", ["b", "2"])]
    folder("d/3.csv", content="text\nc\n")
    with pytest.raises(ValueError, match="d/3.csv:1: no column 'n'"):
        list(table_files.read_columns("d", "auto", ["text", "n"], ""))
    paths = [f"d/{i}.csv" for i in range(4)]
    assert parts.source("d") == {
        "source": "1.csv,2.csv,3.csv",
        "source_sha256": atomic_files.digest(*paths),
    }
    (one,) = {parts.source(x)["source_sha256"] for x in ("d/1.csv", "d/1.*")}
    assert one == atomic_files.digest("d/1.csv")
    # In the order of the rows.
    assert parts.source("d/3.csv,d/1.csv") == {
        "source": "3.csv,1.csv",
        "source_sha256": atomic_files.digest("d/3.csv", "d/1.csv"),
    }
