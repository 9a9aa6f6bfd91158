"""table_files.py: the same rows of TSV, CSV, JSON lines and Parquet."""

import bz2
import csv
import datetime
import decimal
import gzip
import json
import lzma
import re
import subprocess
import uuid

import pytest

from tfrecords.tables import table_files

ROWS = [("A fine film", "5"), ('so, "good"', "1"), ("caf\u00e9 \U0001f600", "")]


def write_tsv(path):
    lines = ["\t".join(row) for row in [("text", "stars"), *ROWS]]
    path.write_text("\r\n".join(lines) + "\n", encoding="utf-8")


def write_csv(path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "stars"), *ROWS])


def write_jsonl(path):
    rows = [dict(zip(("text", "stars"), row, strict=True)) for row in ROWS]
    path.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")


def write_parquet(path):
    pytest.importorskip("pyarrow", reason="make test-engines installs it")
    import pyarrow
    import pyarrow.parquet

    columns = dict(zip(("text", "stars"), zip(*ROWS, strict=True), strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=2)


@pytest.mark.parametrize(
    ("name", "write", "lines"),
    [
        ("a.tsv", write_tsv, [1, 2, 3, 4]),
        ("a.TXT", write_tsv, [1, 2, 3, 4]),
        ("a.csv", write_csv, [1, 2, 3, 4]),
        ("a.json", write_jsonl, [1, 1, 3, 5]),
        ("a.parquet", write_parquet, [1, 1, 2, 3]),
    ],
)
def test_rows_are_the_same_in_every_format(tmp_path, name, write, lines):
    path = tmp_path / name
    write(path)
    found = list(table_files.read(str(path)))
    assert [line for line, _ in found] == lines
    assert [tuple(row) for _, row in found] == [("text", "stars"), *ROWS]
    assert table_files.read_header(str(path)) == ["text", "stars"]


@pytest.mark.parametrize(
    ("name", "write", "pack"),
    [
        ("a.csv.gz", write_csv, gzip.compress),
        ("a.tsv.bz2", write_tsv, bz2.compress),
        ("A.JSONL.XZ", write_jsonl, lzma.compress),
        ("a.csv", write_csv, bz2.compress),
    ],
)
def test_rows_of_compressed_files_are_read(tmp_path, name, write, pack):
    path = tmp_path / name
    write(path)
    path.write_bytes(pack(path.read_bytes()))
    found = list(table_files.read(str(path)))
    assert [tuple(row) for _, row in found] == [("text", "stars"), *ROWS]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{name} is a damaged or truncated"):
        list(table_files.read(str(path)))


def test_a_stream_of_arrow_is_read_as_parquet_is(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="make test-engines")
    path = str(tmp_path / "data-00000-of-00001.arrow")
    features = {"y": {"_type": "List", "feature": CLASSES}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pyarrow.table({"y": [[0], [1, 0]]})
    table = table.replace_schema_metadata(metadata)
    with pyarrow.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)
    found = list(table_files.read(path))
    assert found == [(1, ["y"]), (1, [[0]]), (2, [[1, 0]])]
    assert table_files.class_names(path, "auto", "y") == ("no", "yes")


def test_a_given_format_is_that_of_a_file_without_an_ending(tmp_path):
    write_jsonl(tmp_path / "rows")
    found = list(table_files.read(str(tmp_path / "rows"), "jsonl"))
    assert [tuple(row) for _, row in found[1:]] == ROWS
    with pytest.raises(
        ValueError, match=r"rows:1: the file is JSON lines.*--i"
    ):
        list(table_files.read(str(tmp_path / "rows")))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, None),
        ("a", "a"),
        (7, "7"),
        (2.5, "2.5"),
        (True, "true"),
        (["a", 1], ["a", "1"]),
        (decimal.Decimal("0.50"), "0.5"),
        (decimal.Decimal("1E+2"), "100"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3), "2026-01-02 03:00:00"),
        ([], []),
        (float("nan"), None),
    ],
)
def test_values_of_json_are_cells(value, cell):
    assert table_files.to_cell(value, "x") == cell


@pytest.mark.parametrize("value", [{"a": 1}, [["a"]], [None], b"a"])
def test_other_values_are_no_cells(value):
    with pytest.raises(ValueError, match=r"f:3: 'y' is .*expected a string"):
        table_files.to_cell(value, "f:3: 'y'")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"text"', "2 is not JSON"),
        (b'{"text": "a"}\n5\n', "2: the content is 5; it should be an object"),
        (b"\xff\xfe{\x00", "1: the file is UTF-16"),
        (b'{"text": "\\ud83d x"}', "1: the line is"),
        (b"PAR1", "1: the file is Parquet"),
        (b"PK\x03\x04xl/", "1: the file is a workbook of Excel; pandas.read_e"),
        (b"\x80\x04\x95", "1: the file is a pickle; if you trust who made it"),
    ],
)
def test_files_that_are_no_json_lines_are_refused(tmp_path, content, message):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"{path}:{message}")):
        list(table_files.read(str(path)))


@pytest.mark.parametrize(
    ("content", "what", "rows"),
    [
        ('[{"text": "a"}]', "a JSON list", [{"text": "a"}]),
        ('[\n{"text": "a"},\n{"text": "b"}\n]', "a JSON list", 2),
        ('["a", "b"]\n["c", "d"]', "a list on each line", 2),
        ('[["a", "b"], ["c", "d"]]', "a list of lists", 2),
        ('{\n "version": 1,\n "data": [{"text": "a"}]\n}', "one JSON obj", 1),
        ('{\n "text": "a"\n}', "one JSON object on several lines", 1),
        (
            '{"text": {"0": "a", "1": "b"}, "n": {"0": 1, "1": 2}}',
            "one object, as pandas",
            [{"text": "a", "n": 1}, {"text": "b", "n": 2}],
        ),
        ('{"0": {"text": "a"}, "1": {"text": "b"}}', "one object, as p", 2),
        ('{"schema": {}, "data": [{"text": "a"}]}', "one object, as p", 1),
        (
            '{"columns": ["text"], "index": [0], "data": [["a"]]}',
            *("one object, as pandas", [{"text": "a"}]),
        ),
    ],
)
def test_the_advice_for_other_json_writes_json_lines(
    tmp_path, content, what, rows
):
    path = tmp_path / "a b.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f":1: the file is {what}") as raised:
        list(table_files.read(str(path)))
    command = str(raised.value).partition('"}: ')[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    found = list(table_files.read(str(tmp_path / "rows.jsonl")))
    if isinstance(rows, int):
        assert len(found) == 1 + rows
    else:
        header = found[0][1]
        pairs = [zip(header, row, strict=True) for _, row in found[1:]]
        assert list(map(dict, pairs)) == rows


def test_other_json_that_is_compressed_is_decompressed_first(tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'[\n{"text": "a"},\n{"text": "b"}]'))
    with pytest.raises(ValueError, match=":1: the file is a JSON li") as raised:
        list(table_files.read(str(path)))
    command = str(raised.value).partition("decompress it: ")[2]
    command = command.replace("; then ", "; ")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    found = list(table_files.read(str(tmp_path / "rows.jsonl")))
    assert [row for _, row in found] == [["text"], ["a"], ["b"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"n": 1},\n{"n": 2}\n', "objects with commas .*sed 's/,"),
        ("a.tsv", "text,0\nx,y\n", "no column '0'.*--input_format=csv"),
        ("a.csv", '"0";"1"\n"x";"y"\n', "or a semicolon. Then write commas"),
        ("a.csv", ",0,1\n0,x,y\n", "the first column is the index that pand"),
    ],
)
def test_what_tools_write_otherwise_is_told(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    wanted = ["0", "1"] if name == "a.csv" else ["0", "x"]
    with pytest.raises(ValueError, match=message):
        list(table_files.read_columns(str(tmp_path / name), "auto", wanted, ""))


def test_objects_on_several_lines_are_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n "text": "a"\n}\n{\n "text": "b"\n}\n')
    with pytest.raises(ValueError, match=f"jq -c . {path} > rows.jsonl"):
        list(table_files.read(str(path)))


def test_the_columns_of_json_lines_are_those_of_all_lines(tmp_path):
    """Spark leaves nulls out, in single lines or in a whole part."""
    rows = [{"text": "a"}, {"text": "b", "y": 1}, {"z": 2, "text": "c"}]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert table_files.read_header(str(path)) == ["text", "y", "z"]
    found = table_files.read_columns(str(path), "auto", ["y", "text"], "")
    assert [cells for _, cells in found] == [[None, "a"], [1, "b"], [None, "c"]]
    path.write_text('{"text": "a"}\n' * 2000 + '{"y": 1, "text": "b"}\n')
    last = list(table_files.read_columns(str(path), "auto", ["y"], ""))[-1]
    assert last == (f"{path}:2001", [1])
    (tmp_path / "b.jsonl").write_text('{"text": "c", "z": 7}\n')
    found = list(
        table_files.read_columns(
            f"{path},{tmp_path}/b.jsonl", "auto", ["z"], ""
        )
    )
    assert found[-1] == (f"{tmp_path}/b.jsonl:1", [7]) and found[0][1] == [None]
    with pytest.raises(ValueError, match=f"{path}:1: no column 'x'; there are"):
        list(table_files.read_columns(str(path), "auto", ["x"], ""))


def test_a_quoted_tsv_is_told_and_can_be_read(tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_text('text\tn\n"say ""x"""\t1\n"a\tb"\t2\n"q"\t""\n')
    with pytest.raises(ValueError, match="a.tsv:3: 3 columns where the header"):
        list(table_files.read_columns(str(path), "auto", ["text"], ""))
    (message,) = caplog.messages
    assert "a.tsv:2: a cell is in quotes" in message
    assert "--input_format=quoted_tsv" in message
    rows = [row for _, row in table_files.read(str(path), "quoted_tsv")]
    assert rows[1:] == [['say "x"', "1"], ["a\tb", "2"], ["q", ""]]
    for name, header in (("b.tsv", '"text"\t"n"'), ("b.csv", "text\tn")):
        path = tmp_path / name
        path.write_text(header + "\na\tb\n")
        with pytest.raises(ValueError, match="--input_format=quoted_tsv"):
            list(table_files.read_columns(str(path), "auto", ["n"], ""))
    # Quotes of a text, as in GLUE.
    path.write_text('text\tn\n"so" he "said"\t1\n""so" x"\t2\n')
    caplog.clear()
    list(table_files.read(str(path), "tsv"))
    assert not caplog.messages


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"a.parquet is damaged or not a Parq"):
        list(table_files.read(str(path)))


CLASSES = {"_type": "ClassLabel", "names": ["no", "yes"]}


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ({"y": CLASSES}, ("no", "yes")),
        ({"y": {"_type": "List", "feature": CLASSES}}, ("no", "yes")),
        ({"y": {"_type": "Value", "dtype": "int64"}}, ()),
        ({"y": [CLASSES]}, ("no", "yes")),
        ({"y": {"feature": [CLASSES], "_type": "Sequence"}}, ("no", "yes")),
        ({"y": [CLASSES, CLASSES]}, ()),
        ({"y": {"_type": "ClassLabel", "names": None}}, ()),
        ({"y": {"names": {"_type": "Value"}, "ids": CLASSES}}, ()),
        ({}, ()),
    ],
)
def test_a_parquet_file_names_the_classes_of_its_ids(
    tmp_path, write_parquet_of, features, names
):
    path = str(tmp_path / "a.parquet")
    write_parquet_of(path, features)
    assert table_files.class_names(path, "auto", "y") == names


@pytest.mark.parametrize("metadata", [{}, {"huggingface": "{"}, {"a": "b"}])
def test_other_files_name_none(tmp_path, write_parquet_of, metadata):
    path = str(tmp_path / "a.parquet")
    write_parquet_of(path, {}, metadata)
    assert table_files.class_names(path, "auto", "y") == ()
    assert table_files.class_names(str(tmp_path / "b.tsv"), "auto", "y") == ()


def test_only_the_wanted_columns_of_parquet_are_read(
    tmp_path, write_parquet_of
):
    path = str(tmp_path / "a.parquet")
    write_parquet_of(path, {})
    found = list(table_files.read(path, columns=["y"]))
    assert found == [
        (1, ["text", "y", "z"]),
        (1, [None, 1, None]),
        (2, [None, 0, None]),
    ]
