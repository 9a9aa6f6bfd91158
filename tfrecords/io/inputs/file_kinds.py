"""First bytes of a file -> what it is, and what converts it; its content.

Each reader asks here: it reads compressed files decompressed, and refuses the
other kinds by their names.
"""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from tfrecords import libraries
from tfrecords.io import storage

_HEAD = 4096  # Bytes of a file that are examined.
# Ending and first bytes of the compressed files that are read.
_COMPRESSED = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zst": b"\x28\xb5\x2f\xfd",
}
_PARQUET, _STREAM = b"PAR1", b"\xff\xff\xff\xff"


class Kind(NamedTuple):
    """What a file is, and how to convert it, both for messages."""

    name: str
    fix: str


def _by(call: str) -> str:
    """Returns how pandas converts a file, for a message."""
    return f'{call}.to_json(..., orient="records", lines=True) converts it'


_UTF_16 = Kind("UTF-16", "convert it to UTF-8, for example with iconv")
PARQUET = Kind("Parquet", _by("pandas.read_parquet(...)"))
ARROW_STREAM = Kind(
    "a stream of Arrow",
    "datasets.Dataset.from_file(...).to_json(...) converts it",
)
TABLES = (PARQUET, ARROW_STREAM)  # That `parquet_files` reads.
_PICKLE = Kind(
    "a pickle",
    "if you trust who made it, since loading it may run any code: "
    + _by("pandas.read_pickle(...)"),
)
_FEATHER = Kind("an Arrow file (Feather)", _by("pandas.read_feather(...)"))
_EXCEL = Kind("a workbook of Excel", _by("pandas.read_excel(...)"))
_KINDS = {
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    _COMPRESSED[".gz"]: Kind(
        "compressed by gzip", "decompress it: gunzip < FILE > NEW"
    ),
    _COMPRESSED[".bz2"]: Kind(
        "compressed by bzip2", "decompress it: bunzip2 < FILE > NEW"
    ),
    _COMPRESSED[".xz"]: Kind(
        "compressed by xz", "decompress it: unxz < FILE > NEW"
    ),
    _COMPRESSED[".zst"]: Kind(
        "compressed by zstd", "decompress it: unzstd < FILE > NEW"
    ),
    _PARQUET: PARQUET,
    b"ARROW1\0": _FEATHER,
    b"FEA1": _FEATHER,
    b"ORC": Kind("ORC", _by("pandas.read_orc(...)")),
    b"Obj\x01": Kind(
        "Avro", "polars.read_avro(...).write_ndjson(...) converts it"
    ),
    b"SQLite format 3\0": Kind(
        "a database of SQLite",
        _by('pandas.read_sql("SELECT ...", sqlite3.connect(...))'),
    ),
    b"\x89HDF\r\n": Kind("HDF5", _by("pandas.read_hdf(...)")),
    b"\x93NUMPY": Kind(
        "an array of NumPy", _by("pandas.DataFrame(numpy.load(...))")
    ),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": _EXCEL._replace(
        name="a file of Microsoft Office, such as .xls"
    ),
    b"%PDF-": Kind("PDF", "pdftotext FILE NEW converts it"),
    **{b"\x80" + bytes([version]): _PICKLE for version in range(2, 6)},
}
_RECORDS = Kind(
    "TFRecords", "give the text or the table that they are made from"
)
_DOCUMENT = Kind(
    "a document of Word, OpenOffice or an e-book",
    "pandoc -t plain FILE -o NEW converts it",
)
# In a zip file, such as in the names of its entries.
_ZIPPED = {
    b"xl/": _EXCEL,
    b"word/": _DOCUMENT,
    b"opendocument.text": _DOCUMENT,
    b"epub+zip": _DOCUMENT,
    b"data.pkl": Kind("weights of PyTorch", "give text or a table"),
    b"": Kind("a zip file", "unzip FILE unpacks it"),
}
_JSON_STRING = r'"(?:[^"\\]|\\.)*"'
# Beginnings of texts that are no corpora.
_TEXTS = {
    r"WARC/\d": Kind(
        "WARC, as of Common Crawl",
        'write the text of each record as a line such as {"text": "..."}, for '
        "example with ArchiveIterator of warcio",
    ),
    r"(<\?xml[^>]*>\s*)?<mediawiki\b": Kind(
        "a dump of MediaWiki",
        "python -m wikiextractor.WikiExtractor FILE -o FOLDER extracts its "
        "text; then give FOLDER/*/wiki_*",
    ),
    r"(<\?xml[^>]*>\s*)?<(!doctype html|html\b)": Kind(
        "HTML", "pandoc -f html -t plain FILE -o NEW converts it"
    ),
    r"<\?xml\b": Kind(
        "XML", 'write its texts as lines such as {"text": "..."}'
    ),
    r'\[\s*\{\s*["}]': Kind(
        "a JSON list", _by("pandas.read_json(..., dtype=False)")
    ),
    rf"\[\s*{_JSON_STRING}\s*[,\]]": Kind(
        "JSON lists", 'write their texts as lines such as {"text": "..."}'
    ),
    rf"\{{\s*{_JSON_STRING}\s*:": Kind(
        "JSON, and its first line no object",
        "jq -c . FILE > NEW writes an object on each line",
    ),
}
_TABLES = {
    ".csv": Kind("CSV", _by("pandas.read_csv(..., dtype=str)")),
    ".tsv": Kind(
        "TSV", _by(r'pandas.read_csv(..., sep="\t", quoting=3, dtype=str)')
    ),
}


def kind_of(head: bytes) -> Kind | None:
    """Returns what a file is, from its first bytes; None if it may be text."""
    if head.startswith(b"PK\x03\x04"):
        return next(kind for name, kind in _ZIPPED.items() if name in head)
    if head[257:262] == b"ustar" and b"\0" in head:
        return Kind("a tar archive", "tar -xf FILE unpacks it")
    # Its first length, of four bytes, is less than 16 MB.
    if head.startswith(_STREAM) and head[7:8] == b"\0":
        return ARROW_STREAM
    for begin, kind in _KINDS.items():
        # A text may begin with letters and digits; but with PAR1 none does.
        is_sure = not begin.isalnum() or begin == _PARQUET
        if head.startswith(begin) and (
            is_sure or b"\0" in head or not is_utf8(head)
        ):
            return kind
    return None


def text_kind(text: str, path: str) -> Kind | None:
    """Returns the kind of a text that is not a corpus; None if it may be one.

    Args:
      text: its beginning, without white space before it.
      path: path of the file, whose ending says that it is a table.
    """
    ending = os.path.splitext(without_compression(path.lower()))[1]
    if ending in _TABLES:
        return _TABLES[ending]
    for begin, kind in _TEXTS.items():
        if re.match(begin, text, re.IGNORECASE):
            return kind
    return None


def is_utf8(head: bytes) -> bool:
    """Returns whether bytes, perhaps cut within a character, are UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def check(head: bytes, where: str) -> None:
    """Raises ValueError if a file that should be text is of another kind.

    Args:
      head: its first bytes.
      where: file and line, for the message.
    """
    kind = kind_of(head)
    # The high bytes of a length, and the first one of a tf.train.Example.
    if head[4:8] == bytes(4) and head[12:13] == b"\n":
        kind = _RECORDS
    if kind:
        raise ValueError(f"{where}: the file is {kind.name}; {kind.fix}.")


def of_file(path: str) -> Kind | None:
    """Returns `kind_of` a file; None if it is missing.

    Raises:
      OSError: if it cannot be read.
    """
    try:
        with storage.open_bytes(path) as file:
            return kind_of(file.read(_HEAD))
    except FileNotFoundError:
        return None


def is_table(path: str) -> bool:
    """Returns whether `parquet_files` reads a file; False if it is missing."""
    return of_file(path) in TABLES


def without_compression(path: str) -> str:
    """Returns the path of the decompressed file: a.csv for a.csv.gz."""
    root, ending = os.path.splitext(path)
    return root if ending.lower() in _COMPRESSED else path


def compression(kind: Kind | None, path: str) -> str:
    """Returns .gz, .bz2, .xz, .zst or "", by a file's kind, else its ending.

    So the content of a compressed file is never read as text, and what claims
    to be compressed and is not is an error.
    """
    for ending, begin in _COMPRESSED.items():
        if kind is _KINDS[begin]:
            return ending
    ending = os.path.splitext(path)[1].lower()
    return ending if ending in _COMPRESSED else ""


@contextlib.contextmanager
def open_text(path: str) -> Iterator[IO[bytes]]:
    """Yields a file of the content of a text file, plain or compressed.

    Raises:
      ValueError: if it is damaged, or `check` knows it.
      OSError: if it is missing or cannot be read.
    """
    with storage.open_bytes(path) as file, decompressed(file, path) as content:
        check_file(content, path)
        yield content


def check_file(file: IO[bytes], path: str) -> None:
    """Raises ValueError as `check`, for an open file at its beginning."""
    check(file.peek(_HEAD)[:_HEAD], f"{path}:1")


@contextlib.contextmanager
def decompressed(file: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """Yields the content of an open file: a file with `peek`.

    Raises:
      ValueError: naming the path, if it is damaged.
      OSError: if it cannot be read.
    """
    ending = compression(kind_of(file.peek(_HEAD)[:_HEAD]), path)
    try:
        yield _decompressed(file, path, ending) if ending else file
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        # An error of disk or network has a number.
        if not ending or getattr(error, "errno", None):
            raise
        raise ValueError(
            f"{path} is a damaged or truncated {ending} file ({error}); copy "
            "it again."
        ) from None


def _decompressed(file: IO[bytes], path: str, ending: str) -> IO[bytes]:
    if ending == ".zst":
        with libraries.extra("parquet", f"Reading {path}"):
            import pyarrow
        content = pyarrow.CompressedInputStream(file, "zstd")
    else:
        opened = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        content = opened[ending](file)
    return io.BufferedReader(content, 1 << 16)  # Its lines are found in C.
