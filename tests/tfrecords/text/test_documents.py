import gzip
import json
import logging

import pytest

from tfrecords.text import documents, text_files

SENTENCES = """The sea was calm.
The ship lay still.
Nobody spoke.

A cat sat by the door.
It slept.


One sentence alone.
"""
BOOK = """THE SHIP

The old captain looked at the sea, which was calm and
grey. A white sail was coming
from the north. He called
the crew.

“Be ready!” he said, and Mr. Smith
nodded.
"""
WIKI = """<doc id="1" url="?curid=1" title="Ships &amp; Sails">
Ships &amp; Sails

A ship floats. R&amp;D made it &lt;big&gt;.
History.
It sank.

</doc>
<doc id="2" url="?curid=2" title="Stub">
Stub


</doc>
<doc id="3" url="?curid=3" title="Cat">
Cat

A cat sleeps.
</doc>
"""


@pytest.fixture
def make(tmp_path):
    def make_file(content, name="input.txt"):
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        return str(path)

    return make_file


def read(*paths, **settings):
    statistics = text_files.ReadStatistics()
    found = list(
        documents.read_documents(paths, statistics=statistics, **settings)
    )
    return found, statistics


def test_lines_are_sentences_and_blank_lines_end_documents(make):
    path = make(SENTENCES)
    found, statistics = read(path)
    assert found == [
        (
            ["The sea was calm.", "The ship lay still.", "Nobody spoke."],
            *(f"{path}:1", [1, 1, 1]),
        ),
        (["A cat sat by the door.", "It slept."], f"{path}:5", [1, 1]),
        (["One sentence alone."], f"{path}:9", [1]),
    ]
    assert statistics == text_files.ReadStatistics(
        files=1, documents=3, sentences=6
    )


def test_wrapped_lines_are_joined_and_a_book_is_one_document(make):
    path = make(BOOK)
    found, _ = read(path)
    assert found == [
        (
            [
                "THE SHIP",
                "The old captain looked at the sea, which was calm and grey.",
                "A white sail was coming from the north.",
                "He called the crew.",
                "“Be ready!” he said, and Mr. Smith nodded.",
            ],
            *(f"{path}:1", [1, 3, 1]),
        )
    ]


def test_wikiextractor_documents_lose_title_and_escapes(make):
    path = make(WIKI)
    found, statistics = read(path)
    assert found == [
        (
            ["A ship floats.", "R&D made it <big>.", "History.", "It sank."],
            *(f"{path}:1", [2, 1, 1]),
        ),
        (["A cat sleeps."], f"{path}:14", [1]),
    ]
    assert statistics.documents == 2
    assert statistics.unclosed_documents == 0


ROWS = r"""{"text": "A ship floats. It sank.\nThe sea was calm.", "id": 1}

{"text": ""}
{"text": "The old captain looked\nat the sea. He\ncalled.\n\n“Be ready!”"}
"""


@pytest.mark.parametrize("input_format", ["auto", "jsonl"])
def test_each_row_of_json_lines_is_a_document(make, input_format):
    path = make(ROWS)
    found, statistics = read(path, input_format=input_format)
    assert found == [
        (
            ["A ship floats.", "It sank.", "The sea was calm."],
            f"{path}:1",
            [2, 1],
        ),
        (
            ["The old captain looked at the sea.", "He called.", "“Be ready!”"],
            f"{path}:4",
            [2, 1],
        ),
    ]
    assert statistics.documents == 2 and statistics.rows_without_text == 0


def test_a_first_line_that_is_not_the_title_is_kept(make):
    path = make('<doc id="1" title="Sea">\nA cat sleeps.\n</doc>\n')
    assert read(path)[0][0].sentences == ["A cat sleeps."]


def test_gz_carriage_returns_and_byte_order_mark_make_no_difference(make):
    plain = make(SENTENCES)
    packed = make(SENTENCES, "input.txt.gz")
    windows = make(
        b"\xef\xbb\xbf" + SENTENCES.replace("\n", "\r\n").encode(), "w.txt"
    )
    wanted = [document.sentences for document in read(plain)[0]]
    for path in (packed, windows):
        assert [document.sentences for document in read(path)[0]] == wanted


def test_formats_of_real_corpora_are_detected(shared_data):
    for folder, wanted in (
        ("bert_sample", "sentences"),
        ("gutenberg", "text"),
        ("wikipedia", "wikiextractor"),
    ):
        for path in sorted((shared_data / "pretrain" / folder).iterdir())[:20]:
            with path.open(encoding="utf-8") as file:
                lines = [line for _, line in zip(range(200), file)]  # noqa: B905
            assert documents.guess_format(lines) == wanted, path


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "text"),
        (["One.", "", "Two.", ""], "text"),
        (["One.", "Two.", ""], "sentences"),
        # Half of the lines have to end as sentences.
        (["One.", "Two", "Three"], "sentences"),
        (["One", "Two.", "Three", ""], "sentences"),
        (["One", "Two.", "A", "B"], "text"),
    ],
)
def test_sentences_are_told_from_text_by_their_lines(lines, expected):
    assert documents.guess_format(lines) == expected


def test_a_given_format_overrides_detection(make):
    path = make(SENTENCES)
    found, _ = read(path, input_format="text")
    assert len(found) == 1
    assert len(found[0].sentences) == 6


def test_language_decides_where_sentences_end(make):
    path = make("Das gilt z.B. für Dr. Meier und ihn. Es ist so.\n")
    found, _ = read(path, language="de")
    assert found[0].sentences == [
        "Das gilt z.B. für Dr. Meier und ihn.",
        "Es ist so.",
    ]


def test_files_read_separately_give_the_same_documents(make):
    paths = [make(SENTENCES, "a.txt"), make(BOOK, "b.txt"), make(WIKI, "c")]
    together, statistics = read(*paths)
    separate, total = [], text_files.ReadStatistics()
    for path in paths:
        part = text_files.ReadStatistics()
        separate += documents.read_file(path, statistics=part)
        total.add(part)
    assert separate == together
    assert total == statistics
    assert "documents 6" in str(total)


def test_documents_are_streamed(make, monkeypatch):
    path = make("A b.\nC d.\n\n" * 10_000)
    seen = []
    lines = text_files.read_bytes
    monkeypatch.setattr(
        text_files,
        "read_bytes",
        lambda *args: (seen.append(1) or line for line in lines(*args)),
    )
    next(documents.read_documents([path]))
    assert len(seen) <= 201


# Bad input.


def test_invalid_utf8_is_replaced_counted_and_located(make, caplog):
    path = make(b"Fine \xef\xbf\xbd.\nA b\xffd.\nTwo \xff\xfe bad.\n")
    found, statistics = read(path)
    assert found[0].sentences[1] == "A b\ufffdd."
    assert statistics.invalid_characters == 3
    assert f"{path}:2: byte 0xff is not UTF-8" in caplog.text
    assert "3 invalid UTF-8 sequences" in caplog.text


def test_an_empty_file_among_others_is_counted_and_named(make, caplog):
    caplog.set_level(logging.WARNING, logger="absl")
    empty, blank = make("", "empty.txt"), make(" \n\n", "blank.txt")
    _, statistics = read(make(SENTENCES), empty, blank)
    assert (statistics.files, statistics.empty_files) == (3, 2)
    assert f"{empty} has no sentences" in caplog.text


def test_no_sentence_in_any_file_is_an_error(make):
    empty, stub = make("", "empty.txt"), make('<doc title="A">\nA\n</doc>')
    with pytest.raises(
        ValueError, match="no sentence in any of the 2 input files"
    ):
        read(empty, stub)


def test_an_unclosed_doc_is_kept_counted_and_located(make, caplog):
    text = '<doc title="A">\nA\nOne.\n<doc title="B">\nB\nTwo.\n'
    found, statistics = read(make(text))
    assert [d.sentences for d in found] == [["One."], ["Two."]]
    assert statistics.unclosed_documents == 2
    assert ":1: this <doc> is not closed before line 4" in caplog.text


def test_text_outside_of_doc_is_an_error(make):
    path = make(WIKI + "stray\n")
    with pytest.raises(ValueError, match=r"input.txt:19: 'stray' is outside"):
        read(path)
    with pytest.raises(ValueError, match=r"txt:1: 'The sea.*--input_format"):
        read(make(SENTENCES), input_format="wikiextractor")


def lines_of(*objects):
    return "".join(map("{}\n".format, map(json.dumps, objects)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a", "WARC/1.0\r\nWARC-Type: warcinfo\r\n", "WARC, as of .*warcio"),
        ("a.wet.gz", "WARC/1.1\r\n", "WARC, as of Common Crawl; write"),
        (
            "a",
            '\n<mediawiki xmlns="x">\n',
            "a dump of MediaWiki; python -m wik",
        ),
        ("a", "<?xml version='1.0'?>\n<mediawiki>", "a dump of MediaWiki"),
        ("a", "<!DOCTYPE html>\n<p>A.", "HTML; pandoc -f html"),
        ("a", "\ufeff<html lang='en'>\n", "HTML"),
        ("a", '<?xml version="1.0"?>\n<TEI>', "XML; write its texts"),
        ("a.json", '[\n{"text": "A."},\n', "a JSON list; pandas.read_json"),
        ("a", '[{"text": "A."}]\n', "a JSON list"),
        ("a", '["One.", "Two."]\n', "JSON lists; write their texts as"),
        ("a", '["A \\"cat\\"."]\n["B."]\n', "JSON lists"),
        (
            "a",
            '{\n  "text": "A."\n}\n',
            "JSON, and its first line no object; j",
        ),
        ("A.CSV", "id,text\n1,A.\n", r"CSV; pandas.read_csv\(..., dtype=str"),
        ("a.csv.gz", "id,text\n1,A.\n", "CSV"),
        ("a.tsv", "id\ttext\n1\tA.\n", r"TSV; .*sep=\"\\t\""),
    ],
)
def test_files_that_are_no_corpora_are_named(make, name, content, message):
    path = make(content, name)
    message = rf"{name} is {message}.*--input_format=text reads it as text\.$"
    with pytest.raises(ValueError, match=message):
        read(path)
    with pytest.raises(ValueError, match=message):
        documents.detect_format(path)
    if content.strip("\ufeff\n"):
        assert read(path, input_format="text")


@pytest.mark.parametrize(
    "content",
    [
        "WARC is a format.\nIt has records.\n",
        "[1] A note.\nIt ends.\n",
        "[Illustration]\n\nA ship.\n",
        '["Hello," he said.]\n',
        '{curly} "brackets": here\n',
        "<p>A tag.\n",
        "<htmlx> is none.\n",
    ],
)
def test_texts_that_begin_alike_are_read(make, content):
    assert read(make(content))


ARTICLE = {
    "id": "1",
    "revid": "101",
    "url": "https://en.wikipedia.org/wiki?curid=1",
    "title": "Ships &amp; Sails",
    "text": "A ship floats. R&amp;D made it &lt;big&gt;.\nHistory\nIt sank",
}


def test_wikiextractor_escapes_its_two_formats_alike(make):
    rows = [
        ARTICLE,
        ARTICLE | {"text": ""},
        ARTICLE | {"text": "A cat sleeps."},
    ]
    found, _ = read(make(lines_of(*rows), "a.jsonl"))
    # Lines that do not end as sentences do are paragraphs in both.
    lines = WIKI.replace("History.\nIt sank.", "History\nIt sank")
    expected, _ = read(make(lines, "wiki_00"))
    assert [x.sentences for x in found] == [x.sentences for x in expected]
    assert [x.line_lengths for x in found] == [x.line_lengths for x in expected]
    assert found[0].sentences[1] == "R&D made it <big>."


@pytest.mark.parametrize(
    ("change", "is_escaped"),
    [
        ({}, True),
        ({"revid": None}, True),  # Old versions have none.
        # As of Hugging Face's wikimedia/wikipedia.
        ({"revid": None, "url": "https://en.wikipedia.org/wiki/Ship"}, False),
        ({"language": "en"}, False),
        ({"title": None}, False),
    ],
)
def test_only_lines_of_wikiextractor_are_unescaped(make, change, is_escaped):
    row = {x: y for x, y in (ARTICLE | change).items() if y is not None}
    path = make(lines_of(row | {"text": "AT&amp;T."}), "a.jsonl")
    (found,), _ = read(path)
    assert found.sentences == ["AT&T." if is_escaped else "AT&amp;T."]


# Without the time, so that all processes have tests of the same names.
PACKED = gzip.compress(SENTENCES.encode(), mtime=0)


@pytest.mark.parametrize(
    "content",
    [PACKED[:-4], PACKED[:-12], PACKED[:20], SENTENCES.encode()],
    ids=["no length", "no checksum", "cut", "not packed"],
)
def test_a_damaged_gz_is_named(tmp_path, content):
    (tmp_path / "b.gz").write_bytes(content)
    with pytest.raises(ValueError, match="b.gz is a damaged or truncated"):
        read(str(tmp_path / "b.gz"))


def test_unknown_formats_languages_and_paths_are_rejected(make):
    path = make(SENTENCES)
    with pytest.raises(ValueError, match="input_format='html' should be one"):
        read(path, input_format="html")
    with pytest.raises(
        ValueError, match="--language=English is not a known code.* de, f"
    ):
        read(path, language="English")
    with pytest.raises(ValueError, match="No input file at .*none"):
        read(path + "none")


@pytest.mark.parametrize(
    "code",
    [
        *("de", "de-DE", "de_at", "th", "gsw", "nds-nl", "zh-Hant", "fil"),
        *("iw", "cmn", "arb", "kmr", "bat-smg", "fiu-vro", "roa-tara", "eml"),
    ],
)
def test_regions_follow_known_language_codes(tmp_path, code):
    path = tmp_path / "a.txt"
    path.write_text("Es ist ca. zehn Uhr. Wir gehen.")
    found, _ = read(str(path), language=code)
    assert found
    if code.startswith("de"):
        assert found[0].sentences == ["Es ist ca. zehn Uhr.", "Wir gehen."]
