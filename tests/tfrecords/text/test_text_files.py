import gzip
import sys

import pytest

from tfrecords.text import text_files


@pytest.fixture
def make(tmp_path):
    """Writes a text to a file; returns its path."""

    def write(text, name="a.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_lines_of_plain_and_compressed_files_are_the_same(make, tmp_path):
    path = make("\ufeffOne é.\n\nTwo.\n")
    compressed = str(tmp_path / "a.txt.gz")
    with open(path, "rb") as file, gzip.open(compressed, "wb") as aside:
        aside.write(file.read())
    statistics = text_files.ReadStatistics()
    lines = [
        list(text_files.read_lines(name, statistics))
        for name in (path, compressed)
    ]
    assert lines[0] == lines[1] == ["One é.\n", "\n", "Two.\n"]
    assert statistics.invalid_characters == 0


def test_files_of_several_globs_are_sorted_without_duplicates(make, tmp_path):
    paths = [make("A.", name) for name in ("b.txt", "a.txt", "c.md")]
    found = text_files.expand_inputs(f"{tmp_path}/*.txt, {tmp_path}/[ac]*")
    assert found == sorted(paths)


def test_input_files_may_keep_the_order_in_which_they_are_named(make, tmp_path):
    b, a1, a0 = (make("A.", name) for name in ("b", "a1", "a0"))
    named = f"{b}, {tmp_path}/a*,{b},"
    found = text_files.expand_inputs(named, in_order=True)
    assert found == [b, a0, a1, b]


def test_a_pattern_that_matches_nothing_is_named(make, tmp_path):
    make("A.")
    with pytest.raises(ValueError, match=r"'.*\*\.none' matches no file"):
        text_files.expand_inputs(f"{tmp_path}/*.txt,{tmp_path}/*.none")
    with pytest.raises(ValueError, match="It is a folder: give"):
        text_files.expand_inputs(str(tmp_path))
    with pytest.raises(ValueError, match="No input file is given"):
        text_files.expand_inputs(" , ")


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (b"\xff\xfeT\0", "the file is UTF-16; convert it to UTF-8"),
        (b"PAR1\x15", "the file is Parquet; pandas.read_parquet"),
    ],
)
def test_files_that_are_not_text_are_named(make, begin, message):
    path = make("")
    with open(path, "wb") as file:
        file.write(begin)
    with pytest.raises(ValueError, match=f"a.txt:1: {message}"):
        list(text_files.read_lines(path, text_files.ReadStatistics()))


@pytest.fixture
def zstd(tmp_path):
    """Writes a .zst file with one frame for each text; returns its path."""
    pyarrow = pytest.importorskip(
        "pyarrow", reason="no pyarrow: the extra parquet"
    )

    def write(*texts):
        path = tmp_path / "a.txt.zst"
        packed = pyarrow.Codec("zstd").compress
        path.write_bytes(
            b"".join(packed(text.encode()).to_pybytes() for text in texts)
        )
        return str(path)

    return write


def test_zstd_is_decompressed(zstd):
    path = zstd("One é.\nTwo", ".\n" * 100_000)
    lines = list(text_files.read_lines(path, text_files.ReadStatistics()))
    assert lines[:2] == ["One é.\n", "Two.\n"] and len(lines) == 100_001


def test_a_truncated_zstd_file_is_named(zstd):
    path = zstd("One é.\nTwo" * 1000)
    with open(path, "r+b") as file:
        file.truncate(30)
    with pytest.raises(ValueError, match="a.txt.zst is a damaged or truncated"):
        list(text_files.read_lines(path, text_files.ReadStatistics()))


def test_zstd_without_pyarrow_names_the_extra(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'bert_tf\[parquet\]'"):
        path = make("", "a.zst")
        list(text_files.read_lines(path, text_files.ReadStatistics()))


@pytest.mark.parametrize(
    "text, encoding",
    [
        ("a\nb\n", "utf-16-le"),
        ("a\nb\n", "utf-16-be"),
        ("a", "utf-32-le"),
        # The first line has no zero byte.
        ("春眠不觉晓\n处处闻啼鸟\n", "utf-16-le"),
        ("春眠不觉晓\n处处闻啼鸟\n", "utf-16-be"),
    ],
)
def test_utf_16_without_a_mark_is_an_error(tmp_path, text, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(
        ValueError, match="a.txt:[12]: zero bytes, as in UTF-16"
    ):
        list(text_files.read_lines(str(path), text_files.ReadStatistics()))


@pytest.mark.parametrize(
    "content",
    [
        "a zero byte\0 in a longer text\n",
        "春\0" * 10 + "眠" * 100 + "\n",
        # The examined bytes end within a character.
        "a" + "é" * 3000 + "\0\n",
        "a\r\nb\r\n",
        "a\rb\nc\n",
        "a\r",
        "",
    ],
)
def test_stray_control_characters_are_read(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content.encode())
    lines = text_files.read_lines(str(path), text_files.ReadStatistics())
    assert "".join(lines) == content


def test_only_tables_may_have_no_carriage_return_in_the_first_line():
    text_files.check_line(b"a\rb\n", 1, "a.txt")
    text_files.check_line(b"a\tb\r\n", 1, "a.tsv", is_table=True)
    text_files.check_line(b"a\rb\n", 2, "a.tsv", is_table=True)
    for line, is_table in ((b"a\rb\r", False), (b"a\rb\n", True)):
        with pytest.raises(ValueError, match="a:1: the lines end with a carr"):
            text_files.check_line(line, 1, "a", is_table)


def test_only_the_first_line_begins_like_another_format():
    for number, begin in ((1, b"PAR2"), (2, b"PAR1"), (2, b"\xff\xfeab")):
        text_files.check_line(begin + b"\n", number, "a.txt")
    for begin in (b"PAR1", b"\xff\xfe"):
        with pytest.raises(ValueError, match="a.txt:1: the file is"):
            text_files.check_line(begin + b"\n", 1, "a.txt")


def test_a_file_may_have_brackets_in_its_name(make):
    path = make("A.", "a [1].txt")
    assert text_files.expand_inputs(path) == [path]
