"""file_parts.py: parts give what the whole file gives."""

import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies

from tfrecords.engines import processes
from tfrecords.pretraining import file_parts
from tfrecords.text import documents, text_files

SENTENCES = "The sea.\n\nA sail.\nHe sat.\n\n \nThe door.\n\nThe wind.\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.txt"


@pytest.fixture
def split(monkeypatch):
    """Function: file, size of parts, format -> its format and its parts."""

    def call(path, part_bytes, input_format="auto"):
        monkeypatch.setattr(file_parts, "PART_BYTES", part_bytes)
        with processes.Workers(1) as workers:
            files = [(str(path), path.stat().st_size)]
            return file_parts.split(files, input_format, workers)[0]

    return call


def read(path, input_format, parts):
    """Returns documents, counts and the message of an error, if any."""
    statistics, found = text_files.ReadStatistics(), []
    try:
        for part in parts:
            found += documents.read_file(
                str(path),
                input_format=input_format,
                statistics=statistics,
                part=part,
            )
    except ValueError as error:
        return found, None, str(error)
    counts = dataclasses.asdict(statistics)
    del counts["empty_files"]  # Of a file in parts, corpus.py counts it.
    return found, counts, None


def test_parts_begin_at_the_first_line_that_divides_a_range(path, split):
    path.write_text(SENTENCES)
    found, parts = split(path, 10)
    assert found == "sentences"
    # Of the ranges from 0, 10, 20, 30 and 40, the second and the last one
    # have no blank line; the first one begins with the file.
    assert parts == [(0, 26, 1), (26, 39, 5), (39, 50, 8)]
    whole = SENTENCES.encode()
    assert parts[-1].end == len(whole)
    for begin, _, first_line in parts:
        assert whole[:begin].count(b"\n") == first_line - 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("input_format", "text"),
    [
        ("sentences", SENTENCES),
        ("sentences", "\ufeff\n" + SENTENCES + "\u3000\x1c\nÜber das Meer."),
        ("jsonl", '{"text": "A sail."}\n{"text": null}\n\n{"text": "ß"}' * 9),
        ("jsonl", '{"text": "A sail."}\n{"text": null}\n \n' * 9),
        ("wikiextractor", '<doc title="A">\nA\nOne.\n</doc>\n' * 9),
        ("wikiextractor", '\xa0<doc title="A">\n\nA\nOne. Two.\n\n' * 9),
    ],
)
def test_parts_of_any_size_give_the_documents_of_the_file(
    input_format, text, end, path, split
):
    path.write_bytes(text.replace("\n", end).encode())
    whole = read(path, input_format, [text_files.WHOLE])
    most = 0
    for size in range(1, path.stat().st_size // 2):
        _, parts = split(path, size, input_format)
        assert read(path, input_format, parts) == whole, parts
        most = max(most, len(parts))
    assert most >= 4


# Lines, and fragments of lines, that are divided or read with care.
_LINES = strategies.lists(
    strategies.sampled_from(
        [
            *(b"\n", b"\r\n", b"\r", b" \t\n", b"\x0b\x1c\n", b"\xc2\x85\n"),
            *(b"\xe3\x80\x80\n", b"\xe3\x80", b"\xff", b"\xef\xbb\xbf", b"\0"),
            *(b"A sail.\n", b"Das Mee", b"r. \xc3\xbc", b"He sat. She ran.\n"),
            *(b"<doc ", b"<doc \n", b"<doc \xc2\xa0\n", b"<docs>\n", b"</doc>"),
            *(b' <doc id="1" title="A">\n', b'\xc2\xa0<doc title="B">\r\n'),
            *(b'{"text": "A sail."}\n', b'{"text": null}\n', b'{"text": 3}\n'),
            json.dumps({"text": "One.\nTwo. Three.\n\n" * 3}).encode() + b"\n",
        ]
    ),
    min_size=10,
    max_size=60,
)


@hypothesis.settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    _LINES,
    strategies.integers(1, 60),
    strategies.sampled_from(["auto", "sentences", "jsonl", "wikiextractor"]),
)
def test_parts_of_any_text_give_the_documents_of_the_file(
    path, split, lines, part_bytes, input_format
):
    path.write_bytes(b"".join(lines))
    whole = read(path, input_format, [text_files.WHOLE])
    try:
        found, parts = split(path, part_bytes, input_format)
    except ValueError as error:  # In the first lines.
        assert (str(error), input_format) == (whole[2], "auto")
        return
    assert read(path, found, parts) == whole


@pytest.mark.parametrize(
    ("name", "input_format", "text"),
    [
        ("a.txt", "text", SENTENCES),
        ("a.txt", "auto", "A long\nline that\nis wrapped.\n\nThe end\n" * 9),
        ("a.txt", "sentences", "No blank line.\n" * 9),
        ("a.txt.gz", "sentences", SENTENCES),
        ("a.zst", "auto", SENTENCES),
        ("a.parquet", "auto", "PAR1" + SENTENCES),
        ("a.parquet", "parquet", SENTENCES),
    ],
)
def test_files_that_cannot_be_divided_stay_whole(
    name, input_format, text, tmp_path, split
):
    (tmp_path / name).write_text(text)
    parts = split(tmp_path / name, 10, input_format)[1]
    assert parts == [text_files.WHOLE]


def test_small_files_are_not_examined(path, split, monkeypatch):
    path.write_text(SENTENCES)
    monkeypatch.setattr(text_files, "read_bytes", None)
    found = split(path, (len(SENTENCES) + 1) // 2)
    assert found == ("auto", [text_files.WHOLE])


def test_each_part_of_several_files_is_in_its_place(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("a.txt", "b.txt", "c.jsonl")]
    paths[0].write_text(SENTENCES)
    paths[1].write_text("Small.\n")
    paths[2].write_text('{"text": "One."}\n' * 5)
    monkeypatch.setattr(file_parts, "PART_BYTES", 17)
    with processes.Workers(1) as workers:
        files = [(str(path), path.stat().st_size) for path in paths]
        found = file_parts.split(files, "auto", workers)
    assert [name for name, _ in found] == ["sentences", "auto", "jsonl"]
    assert found[1][1] == [text_files.WHOLE]
    assert [part.first_line for part in found[2][1]] == [1, 2, 3, 4, 5]
    for (path, size), (_, parts) in zip(files, found, strict=True):
        data = [b"".join(text_files.read_bytes(path, part)) for part in parts]
        assert sum(map(len, data)) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "One."}\n' * 50 + '{"texts": ""}\n', ":51: the line is an"),
        ('{"text": "One."}\n' * 50 + "{]}\n", ":51 is not JSON"),
        ("<doc >\nA\n</doc>\n" * 50 + "Outside.\n<doc >", ":151: 'Outside.'"),
    ],
)
def test_errors_in_a_part_name_the_line_of_the_file(text, message, path, split):
    path.write_text(text)
    found, parts = split(path, 30)
    assert len(parts) > 20
    assert f"{path}{message}" in read(path, found, parts)[2]


def test_invalid_utf8_in_a_part_is_counted_and_located(path, split, caplog):
    path.write_bytes(
        b"A sail.\nThe sea.\n\n" * 20 + b"A \xff b \xfe.\nC.\n\nD."
    )
    found, parts = split(path, 40)
    caplog.clear()
    assert read(path, found, parts)[1]["invalid_characters"] == 2
    assert f"{path}:61: byte 0xff is not UTF-8" in caplog.text
    begin = max(part.first_line for part in parts if part.first_line <= 61)
    assert f"{path} from line {begin} to" in caplog.text
    assert "has 2 invalid UTF-8 sequences in total" in caplog.text


def test_an_unclosed_doc_before_a_part_is_counted_and_located(
    path, split, caplog
):
    path.write_text('<doc title="A">\nA\nOne.\n' * 9)
    whole = read(path, "wikiextractor", [text_files.WHOLE])
    messages = [record.getMessage() for record in caplog.records]
    _, parts = split(path, 23, "wikiextractor")
    assert len(parts) == 9
    caplog.clear()
    assert read(path, "wikiextractor", parts) == whole
    assert [record.getMessage() for record in caplog.records] == messages
    assert len(messages) == whole[1]["unclosed_documents"] == 9
