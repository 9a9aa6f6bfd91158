"""parquet_files.py: columns of JSON, streams of Arrow, files half readable."""

import base64
import datetime
import json

import pytest

from tfrecords.io.inputs import parquet_files

pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow: the extra parquet")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.parquet")


def write(path, table):
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path, compression="none")


def write_stream(path, table):
    with pyarrow.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def read(path, columns=None, num_rows=2):
    with parquet_files.open_table(path) as table:
        rows = [
            list(row)
            for batch in table.batches(num_rows, columns)
            for row in zip(*batch, strict=True)
        ]
        return table.names, rows


@pytest.mark.parametrize("writer", [write, write_stream])
@pytest.mark.parametrize("num_rows", [1, 2, 9])
def test_rows_are_those_that_were_written(path, writer, num_rows):
    columns = {"text": ["a", None, "c"], "y": [[1], [], [2, 3]]}
    writer(path, pyarrow.table(columns))
    assert parquet_files.is_table(path)
    expected = [["a", [1]], [None, []], ["c", [2, 3]]]
    assert read(path, num_rows=num_rows) == (["text", "y"], expected)
    expected = [[None, [1]], [None, []], [None, [2, 3]]]
    assert read(path, {"y"}, num_rows) == (["text", "y"], expected)


@pytest.mark.parametrize("writer", [write, write_stream])
def test_columns_of_json_are_decoded(path, writer):
    values = ['He said "yes".\n', 404, None, {"a": ["é"]}]
    texts = [None if x is None else json.dumps(x) for x in values]
    # As pyarrow before 19 reads and writes it, too.
    is_json = {"ARROW:extension:name": "arrow.json"}
    schema = pyarrow.schema(
        [
            pyarrow.field("j", pyarrow.string(), metadata=is_json),
            pyarrow.field("s", pyarrow.string()),
        ]
    )
    writer(path, pyarrow.table([texts, texts], schema))
    _, rows = read(path)
    assert [row[0] for row in rows] == values
    assert [row[1] for row in rows] == texts
    writer(path, pyarrow.table([["1", "{"], ["", ""]], schema))
    with pytest.raises(ValueError, match=r"a.parquet:2: 'j' is not JSON"):
        read(path, num_rows=1)


def test_a_list_of_json_is_decoded(path):
    if not hasattr(pyarrow, "json_"):
        pytest.skip("pyarrow before 19 has no type for JSON")
    column = pyarrow.array(['"a"', "1"], pyarrow.string())
    column = pyarrow.ExtensionArray.from_storage(pyarrow.json_(), column)
    column = pyarrow.ListArray.from_arrays([0, 2], column)
    write_stream(path, pyarrow.table({"j": column}))
    assert read(path) == (["j"], [[["a", 1]]])


def store_128_bits(path):
    """Writes a file whose stored type of `n` is an integer of 128 bits."""
    columns = {
        "text": ["a", "b"],
        "n": pyarrow.array([b"x" * 16] * 2, pyarrow.binary(16)),
        "k": [1, 2],
    }
    write(path, pyarrow.table(columns))
    with open(path, "rb") as file:
        content = file.read()
    _, _, rest = content.partition(b"ARROW:schema")
    stored = rest[rest.index(b"/////") :]
    stored = stored[: next(i for i, x in enumerate(stored) if x < 43)]
    types = base64.b64decode(stored)
    assert types.count(b"\x40\0\0\0") == 1  # The bits of `k`.
    types = base64.b64encode(types.replace(b"\x40\0\0\0", b"\x80\0\0\0"))
    with open(path, "wb") as file:
        file.write(content.replace(stored, types))


def test_columns_beside_one_that_cannot_be_read_are(path):
    store_128_bits(path)
    with pytest.raises(pyarrow.ArrowNotImplementedError):
        pyarrow.parquet.ParquetFile(path)
    expected = [["a", None, 1], ["b", None, 2]]
    assert read(path, {"text", "k"})[1] == expected
    message = r"a.parquet: pyarrow cannot read the column 'n' \(Integers"
    for columns in ({"n"}, None):
        with pytest.raises(ValueError, match=message):
            read(path, columns)


@pytest.mark.parametrize("writer", [write, write_stream])
def test_a_changed_byte_is_an_error_that_names_the_file(tmp_path, writer):
    path = str(tmp_path / "a.parquet")
    writer(path, pyarrow.table({"text": ["one é", "two"], "y": [0, 1]}))
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[content.index(b"two")] ^= 255  # Is no UTF-8.
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match="a.parquet.* is damaged or") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_a_value_that_python_cannot_hold_names_its_column(path):
    late = pyarrow.array([2**61], pyarrow.timestamp("s"))
    write_stream(path, pyarrow.table({"text": ["a"], "d": late}))
    with pytest.raises(ValueError, match="a.parquet: the column 'd' has a val"):
        read(path)
    assert read(path, {"text"})[1] == [["a", None]]
    day = datetime.date(2026, 1, 2)
    write(path, pyarrow.table({"d": [day]}))
    assert read(path)[1] == [[day]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ARROW1\0\0", "is an Arrow file .Feather., not Parquet; pandas.read"),
        (b"\x1f\x8b\x08", "is compressed by gzip, not Parquet; decompress it"),
        (b"", r"is damaged or not a Parquet file \(.*\); copy it again, or"),
        (b"text", "is damaged or not a Parquet file"),
    ],
)
def test_other_files_are_named(path, content, message):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=f"a.parquet {message}"):
        read(path)
    with pytest.raises(ValueError, match=r"No input file at .*none; check"):
        read(path + "none")
