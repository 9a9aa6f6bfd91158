"""file_kinds.py: files by their first bytes, and compressed ones."""

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile

import pytest

from tfrecords.io import shards
from tfrecords.io.inputs import file_kinds

TEXT = b"id\ttext\n1\ta film\n" * 9000
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def tarred(content=b"a", name="a.csv"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def zipped(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "a")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (zipped("a.csv"), "a zip file"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "a workbook of Exc"),
        (zipped("docProps/app.xml", "xl/workbook.xml"), "a workbook of Excel"),
        (zipped("[Content_Types].xml", "word/d.xml"), "a document of Word"),
        (zipped("mimetypeapplication/epub+zip"), "a document of Word"),
        (zipped("archive/data.pkl"), "weights of PyTorch"),
        (tarred(), "a tar archive"),
        *(
            (pickle.dumps(["a"], protocol), "a pickle")
            for protocol in range(2, 6)
        ),
        (b"ARROW1\0\0\xff\xff\xff\xff", "an Arrow file (Feather)"),
        (b"FEA1\0\0", "an Arrow file (Feather)"),
        (b"\xff\xff\xff\xff\x78\x01\0\0\x10", "a stream of Arrow"),
        (b"PAR1\x15", "Parquet"),
        (b"ORC\x11\0\0", "ORC"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        (b"SQLite format 3\0\x10\0", "a database of SQLite"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x93NUMPY\x01\0v\0", "an array of NumPy"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of Microsoft Office"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", "PDF"),
        ("a".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"a", mtime=0), "compressed by gzip"),
        (bz2.compress(b"a"), "compressed by bzip2"),
        (lzma.compress(b"a"), "compressed by xz"),
    ],
)
def test_a_file_is_named_by_its_first_bytes(content, name):
    kind = file_kinds.kind_of(content[:4096])
    assert kind.name.startswith(name)
    with pytest.raises(ValueError, match="^f:1: the file is .*; .*[.]$"):
        file_kinds.check(content[:4096], "f:1")


def test_records_are_no_text():
    record = shards.frame(b"\n" + b"\x12" * 99)
    with pytest.raises(ValueError, match="f:1: the file is TFRecords; give"):
        file_kinds.check(record, "f:1")


@pytest.mark.parametrize(
    "content",
    [
        *(b"ORCA whales", b"FEA1 is a name", b"BZh, he said", b"PK", b"Obj"),
        *(b"", b"ARROW1", b"\xff" * 20, b"x" * 257 + b"ustar", b"%PD", b"\x80"),
        b"\xef\xbb\xbfa",
    ],
)
def test_other_files_are_not_named(content):
    assert file_kinds.kind_of(content) is None


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv{}", "A.TSV{}"])
def test_compressed_files_are_read_whatever_their_ending(
    tmp_path, ending, name
):
    path = str(tmp_path / name.format(ending.upper()))
    with open(path, "wb") as file:
        file.write(PACK[ending](TEXT[:99]) + PACK[ending](TEXT[99:]))
    with file_kinds.open_text(path) as file:
        assert b"".join(file) == TEXT
    assert file_kinds.without_compression(path).lower().endswith("/a.tsv")


@pytest.mark.parametrize("ending", PACK)
def test_damaged_and_other_content_is_named(tmp_path, ending):
    path, packed = tmp_path / f"a{ending}", PACK[ending](TEXT)
    changed = bytearray(packed)
    changed[len(packed) // 2] ^= 255
    for content in (packed[:-9], packed[:20], bytes(changed), TEXT):
        path.write_bytes(content)
        message = f"a{ending} is a damaged or truncated {ending} file .*; copy"
        with (
            pytest.raises(ValueError, match=message),
            file_kinds.open_text(str(path)) as file,
        ):
            file.read()
    path.write_bytes(PACK[ending](tarred()))
    with (
        pytest.raises(ValueError, match=":1: the file is a tar archive; tar"),
        file_kinds.open_text(str(path)),
    ):
        pass
