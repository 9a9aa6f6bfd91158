"""ner_files.py: columns, documents and schemes of CoNLL files, and errors."""

import json
import re

import pytest

from tfrecords.tasks import ner_files

# Scheme -> tags of two persons, a place and an organization, and of New York
# City, a place of three words.
TAGS = {
    "IOB2": "O B-PER I-PER B-PER O B-LOC B-ORG I-ORG B-LOC I-LOC I-LOC",
    "IOB1": "O I-PER I-PER B-PER O I-LOC I-ORG I-ORG I-LOC I-LOC I-LOC",
    "BIOES": "O B-PER E-PER S-PER O S-LOC B-ORG E-ORG B-LOC I-LOC E-LOC",
    "BILOU": "O B-PER L-PER U-PER O U-LOC B-ORG L-ORG B-LOC I-LOC L-LOC",
    "BMES": "O B-PER E-PER S-PER O S-LOC B-ORG E-ORG B-LOC M-LOC E-LOC",
}
IOB2 = TAGS["IOB2"].split()
CONLL_U = "1-2 im _\n1 in ADP\n2 dem DET\n3 Haus NOUN\n"
# Number, word, outer and inner tag.
NUMBERED = """# http://example.org/Troy [1]
1\tTroy\tB-X\tB-LOC
2\t's\tI-X\tO
# a comment between words
3\tfall\tI-X\tO

# http://example.org/in [2]
1\tin\tO\tO
2\tBonn\tB-LOC\tO
"""


def text_of(*sentences):
    """Returns the text of a file of sentences, each some tags."""
    return "\n".join(
        "".join(f"word NN {tag}\n" for tag in tags.split())
        for tags in sentences
    )


MANY = text_of(" ".join(f"word{i}" for i in range(201)))


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Text, settings -> the contents of a file f that has this text."""
    monkeypatch.chdir(tmp_path)

    def read(text, **settings):
        (tmp_path / "f").write_bytes(text.encode())
        return ner_files.read("f", **settings)

    return read


@pytest.mark.parametrize("scheme", TAGS)
def test_schemes_are_detected_and_converted_to_iob2(read, scheme):
    tags = TAGS[scheme]
    corpus = read(text_of(tags, tags[2:]))
    assert corpus.scheme == scheme
    assert [list(s.tags) for s in corpus.sentences] == [IOB2, IOB2[1:]]
    assert corpus.entity_types == ["LOC", "ORG", "PER"]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BILOU", TAGS["BILOU"]),
        ("BMES", TAGS["BMES"]),
        ("IO", "ORG O LOC LOC PER"),
        ("plain", "DET NOUN VERB DET"),
    ],
)
def test_tags_are_written_back_in_the_scheme_of_their_file(read, scheme, tags):
    corpus = read(text_of(tags))
    assert corpus.scheme == scheme
    (sentence,) = corpus.sentences
    assert ner_files.in_scheme(sentence.tags, scheme) == tags.split()


def test_tags_that_violate_iob2_are_written_as_conlleval_counts_them():
    # I-LOC after O begins an entity, as does I-ORG after I-LOC.
    tags = "O I-LOC I-LOC I-ORG B-ORG".split()
    assert ner_files.in_scheme(tags, "BILOU") == (
        "O B-LOC L-LOC U-ORG U-ORG".split()
    )
    assert ner_files.in_scheme(tags, "BMES") == (
        "O B-LOC E-LOC S-ORG S-ORG".split()
    )
    for scheme in ("IOB2", "IOB1", "BIOES", None):
        assert ner_files.in_scheme(tags, scheme) == tags


@pytest.mark.parametrize(
    ("tags", "settings", "expected", "types"),
    [
        ("ORG O LOC LOC", {}, "I-ORG O I-LOC I-LOC", "LOC ORG"),
        ("ORG O LOC", {"schemes": ["plain"]}, "ORG O LOC", "LOC O ORG"),
        ("V D", {"entity_types": ["D", "V"]}, "V D", "D V"),
        # A type may begin as a tag of another scheme does.
        ("O E-A A", {"schemes": ["IO"]}, "O I-E-A I-A", "A E-A"),
        ("B I O", {"schemes": ["plain"]}, "B I O", "B I O"),
    ],
)
def test_io_is_read_as_inner_words_and_plain_tags_as_they_are(
    read, tags, settings, expected, types
):
    corpus = read(text_of(tags), **settings)
    assert corpus.sentences[0].tags == tuple(expected.split())
    assert corpus.entity_types == types.split()


def test_a_preferred_scheme_decides_between_those_that_fit(read):
    text = text_of("S-LOC B-PER E-PER")
    assert read(text).scheme == "BIOES"
    schemes = ["BMES", "IOB2", "IOB1", "BIOES", "BILOU"]
    assert read(text, schemes=schemes).scheme == "BMES"
    assert read(text_of(TAGS["BILOU"]), schemes=schemes).scheme == "BILOU"
    assert len(read(MANY, schemes=["plain"]).entity_types) == 201


def test_columns_and_documents_are_read(read):
    first, second = read(
        "-DOCSTART- -X- -X- O\r\n\r\nEU\tNNP\tB-ORG\r\nrose VBD  O\r\n\r\n"
        " \r\nIt PRP O\r\n-DOCSTART- -X- O\r\n\r\nNo\xa0w RB O"
    ).documents
    assert first.start == ("-DOCSTART-", "-X-", "-X-", "O")
    assert first.sentences == (
        ner_files.Sentence(
            (("EU", "NNP"), ("rose", "VBD")), ("B-ORG", "O"), (3, 4)
        ),
        ner_files.Sentence((("It", "PRP"),), ("O",), (7,)),
    )
    assert first.words == ("EU", "rose", "It")
    assert first.tags == ("B-ORG", "O", "O")
    assert second.words == ("No\xa0w",)


def test_a_file_without_tags_is_read(read):
    corpus = read("EU NNP\nrose VBD\n\nIt PRP\n", has_tags=False)
    assert corpus.scheme is None
    assert [s.words for s in corpus.sentences] == [("EU", "rose"), ("It",)]
    assert corpus.sentences[0].columns[0] == ("EU", "NNP")
    assert corpus.sentences[0].tags == ()


TREEBANK = "".join(
    line.replace(" ", "\t").replace("~", " ") + "\n"
    for line in (
        *("#~text", "1-2 don't _ X _ _ _ _ _ _", "1 don't _ X _ _ _ _ _ _"),
        *("2.1 x _ X _ _ _ _ _ _", "", "1 10~000 _ X _ _ _ _ _ _"),
        "2 rain _ X _ _ _ _ _ SpaceAfter=No",
    )
)
TSV = "New York is/10 000", "B-LOC O/O"
OUTER = {"comment_prefix": "#", "word_column": 2, "tag_column": 3}
TAG_FIRST = "O in\nB-LOC Bonn\n"
INNER = {"comment_prefix": "#", "word_column": 2}


@pytest.mark.parametrize(
    ("text", "settings", "words", "tags"),
    [
        (NUMBERED, OUTER, "Troy 's fall/in Bonn", "B-X I-X I-X/O B-LOC"),
        (NUMBERED, INNER, "Troy 's fall/in Bonn", "B-LOC O O/O O"),
        (NUMBERED, {**INNER, "word_column": 1}, "1 2 3/1 2", "B-LOC O O/O O"),
        # The tag before the word.
        (TAG_FIRST, {"tag_column": 1, "word_column": 2}, "in Bonn", "O B-LOC"),
        ("1 in\n2 Bonn\n", {**OUTER, "has_tags": False}, "in Bonn", ""),
        ("1 -DOCSTART- O\n\n1 in O\n", {"word_column": 2}, "in", "O"),
        (CONLL_U, {"word_column": 2}, "in dem Haus", "ADP DET NOUN"),
        # No comment prefix is needed, and words may have spaces.
        (
            TREEBANK,
            {"word_column": 2, "tag_column": 4},
            *("don't/10 000 rain", "X/X X"),
        ),
        ("New York\tB-LOC\nis\tO\n\n10 000\tO\n", {}, *TSV),
        ("-DOCSTART- O\n\nNew York\tB-LOC\nis\tO\n\n10 000 \tO", {}, *TSV),
        # A column is empty, or a line has another number of tabs.
        ("a b\tO\t\nc b\tO\t\n", {}, "a c", "O O"),
        ("a b\tO\nc\tb\tO\n", {}, "a c", "O O"),
        # Words that are numbers.
        ("7 O\n8 O\n", {}, "7 8", "O O"),
        (
            "7 CD O\n\n8 CD O\n\n1 CD O\n2 CD O\n\nEU N O\n. . O\n",
            *({}, "7/8/1 2/EU .", "O/O/O O/O O"),
        ),
    ],
)
def test_words_and_tags_are_in_the_columns_asked_for(
    read, text, settings, words, tags
):
    found = read(text, **settings).sentences
    assert "/".join(" ".join(s.words) for s in found) == words
    assert "/".join(" ".join(s.tags) for s in found) == tags


def test_tags_that_look_like_others_are_read_if_they_are_said_to_be_plain(
    read,
):
    for tags in ("0 3 4 0", "b-per o", "_ X", "a b c d e f g h i j k"):
        corpus = read(text_of(tags), schemes=["plain"])
        assert corpus.sentences[0].tags == tuple(tags.split())
    # As many different tags as a treebank has, of as few words as it may have.
    text = "".join(f"word{i} {i % 17}X\n" for i in range(34))
    assert len(read(text).entity_types) == 17


def test_several_files_are_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.conll").write_text("Ada I-X\n\nsat O\n")
    (tmp_path / "b.conll").write_text("in O\nBonn B-Y\n")
    # Only the first fits IOB1, and each alone another scheme.
    with pytest.raises(ValueError, match="not IOB2: a.conll:1 .* IOB1: b.con"):
        ner_files.read("*.conll")
    (tmp_path / "a.conll").write_text("Ada B-X\n\nsat O\n")
    corpus = ner_files.read("a.conll,b.conll")
    assert [s.words for s in corpus.sentences] == [
        *[("Ada",), ("sat",), ("in", "Bonn")]
    ]
    assert corpus.where(corpus.sentences[-1].lines[1]) == "b.conll:2"
    (tmp_path / "rows").mkdir()
    for name in "ab":
        row = {"text": f"{name} b", "label": [[0, 1, "X"]]}
        (tmp_path / f"rows/{name}.jsonl").write_text(json.dumps(row))
    (tmp_path / "rows/_SUCCESS").write_text("")
    corpus = ner_files.read("rows")
    assert [d.words for d in corpus.documents] == [("a", "b"), ("b", "b")]
    assert corpus.counts.spans == 2
    assert corpus.sentences[1].lines == ("rows/b.jsonl:1",) * 2
    (tmp_path / "words.jsonl").write_text('{"tokens": ["a"], "tags": ["O"]}')
    for names in ("rows,a.conll", "a.conll,words.jsonl", "words.jsonl,rows"):
        with pytest.raises(ValueError, match=f"{names} are files of several"):
            ner_files.read(names)


def test_rows_of_a_table_are_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"text": "Ada sat.", "label": [[0, 3, "First Name"]]},
        {"text": "", "label": []},
        {"text": "sat", "label": []},
    ]
    (tmp_path / "f.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = ner_files.read("f.jsonl")
    assert corpus.scheme == "IOB2"
    assert corpus.entity_types == ["First Name"]
    assert [d.words for d in corpus.documents] == [
        *[("Ada", "sat", "."), (), ("sat",)]
    ]
    assert corpus.counts.spans == 1
    sentence = corpus.sentences[0]
    assert sentence.tags == ("B-First Name", "O", "O")
    assert corpus.where(sentence.lines[2]) == "f.jsonl:1"
    with pytest.raises(ValueError, match="f.jsonl:1: unknown tag 'B-First Na"):
        ner_files.read("f.jsonl", entity_types=["X"])
    # The scheme of a tagger's training file is no matter.
    assert ner_files.read("f.jsonl", schemes=["BIOES"]) == corpus
    (tmp_path / "f.jsonl").write_text('{"tokens": ["a"], "tags": ["I-X"]}')
    assert ner_files.read("f.jsonl").scheme == "IOB1"
    (tmp_path / "f.jsonl").write_text('{"text": " ", "label": []}')
    with pytest.raises(ValueError, match="f.jsonl has no words that are tag"):
        ner_files.read("f.jsonl")
    (tmp_path / "f.txt").write_text('{"text": " ", "label": []}')
    with pytest.raises(ValueError, match="f.txt:1: .* or name the file .jso"):
        ner_files.read("f.txt")


def test_all_columns_but_that_of_tags_are_kept(read):
    sentences = read(NUMBERED, **OUTER).sentences
    assert sentences[0].columns[0] == ("1", "Troy", "B-LOC")
    assert [s.lines for s in sentences] == [(2, 3, 5), (8, 9)]
    (sentence,) = read(TAG_FIRST, tag_column=1, word_column=2).sentences
    assert sentence.columns == (("in",), ("Bonn",))


def test_labels_are_o_and_both_tags_of_each_type():
    assert ner_files.labels_of({"PER", "LOC"}) == [
        *["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    ]
    assert ner_files.labels_of({"PER", "LOC"}, "BMES") == ner_files.labels_of(
        {"PER", "LOC"}
    )
    assert ner_files.labels_of({"PER", "LOC"}, "IO") == ["O", "I-LOC", "I-PER"]
    assert ner_files.labels_of(["VERB", "DET"], "plain") == ["DET", "VERB"]


def test_labels_of_a_model_tell_their_scheme():
    assert ner_files.scheme_of(["I-A", "O", "B-A"]) == "IOB2"
    assert ner_files.scheme_of(["I-A", "O"]) == "IO"
    assert ner_files.scheme_of(["DET", "O"]) == "plain"
    for letters, scheme in (("BIES", "BIOES"), ("BILU", "BILOU")):
        labels = ["[PAD]", "O", *(f"{letter}-A" for letter in letters)]
        assert ner_files.scheme_of(labels) == scheme
    assert ner_files.scheme_of(["O", "B-A", "M-A", "E-A", "S-A"]) == "BMES"


def test_tags_have_the_ids_of_the_labels_of_a_foreign_tagger(read):
    sentences = read(text_of("B-A I-A I-A O B-A")).sentences
    labels = ["E-A", "S-A", "O", "B-A", "M-A"]
    assert ner_files.tag_ids(sentences, labels) == [3, 4, 0, 2, 1]
    assert ner_files.tag_ids(sentences, ["I-A", "O", "B-A"]) == [2, 0, 0, 1, 2]
    with pytest.raises(ValueError, match="has no label 'I-A'; it has O, B-A. "):
        ner_files.tag_ids(sentences, ["O", "B-A"])


def test_tags_that_a_foreign_tagger_predicted_become_iob2():
    labels = ["[PAD]", "O", "B-A", "M-A", "E-A", "S-A"]
    tags = ["B-A", "M-A", "E-A", "[PAD]", "S-A", "E-A"]
    assert list(ner_files.entity_tags(tags, labels)) == [
        *["B-A", "I-A", "I-A", "O", "B-A", "B-A"]
    ]
    tags = ["I-A", "O"]
    assert ner_files.entity_tags(tags, ["O", "B-A", "I-A"]) == tags


def test_invalid_tags_begin_entities_as_in_conlleval():
    invalid = "I-PER O I-LOC I-PER E-PER I-PER B-PER S-ORG I-ORG".split()
    expected = "B-PER O B-LOC B-PER I-PER B-PER B-PER B-ORG B-ORG".split()
    assert list(ner_files.to_iob2(invalid)) == expected


HINT = "If lines with # are comments, give --comment_prefix=#."
NO_SCHEME = "f: the tags follow no scheme: not "
# Text -> error.
WRONG = {
    "-DOCSTART- O\n\n\n": "f has no word",
    # Numbers of columns.
    "-DOCSTART- O\n\nEU NNP B-ORG\nrose VBD\n\n": (
        "f:4: 2 columns, 'rose VBD', where f:3 has 3"
    ),
    "EU O\n\nit O\nrose\n": "f:4: one column, 'rose', where a word and its tag",
    "#id\nEU B-ORG\n": "f:1: one column, '#id', where a word and its tag",
    NUMBERED: (
        "f:1: one column, '# http://example.org/Troy [1]', where a word and "
        "its tag are expected. Add the missing column, or give "
        f"--notest_has_tags if a test file has no tags. {HINT}"
    ),
    "New York\tB-LOC\nis\tX\tO\nold\tO\n": (
        r"f:2: 3 columns, 'is\tX\tO', where f:1 has 2. There is a column too"
    ),
    "New York\tB-LOC\nis O\n10 000\tO\n": "f:2: one column, 'is O', where a w",
    # Numbers of words, also from 0, and through the file; an odd number does
    # not hide the others.
    CONLL_U: "f:1: the first column numbers the words",
    "0 a O\n1 b O\n\n2 c O\n3 d O\n4 e O\n\n7 f O\n9 g O\n": (
        "f:1: the first column numbers the words: '0', '1'"
    ),
    # No clear scheme.
    text_of("B I O"): (
        "f: the tags B, I have no type. Append one, such as B-PER, to score "
        "entities; or give --tag_scheme=plain to score single tags."
    ),
    MANY: (
        "f: 201 different tags in the last or given column, such as word0, "
        "word1, word10; they look like words. Give --tag_scheme=plain if they "
        "are the tags, or --tag_column."
    ),
    text_of("a b c d e f g h i j k"): "f: 11 different tags in the last or",
    "".join(f"word{i} NN tag{i // 2}\n" for i in range(44)): (
        "f: 22 different tags in the last or given column, such as tag0, tag1, "
        "tag10; they look like words. Give --tag_scheme=plain if they are"
    ),
    "The the\ncat cat\non O\n": (
        "f: most words as their own tags in the last or given column, such as "
        "cat, the; they look like words. Give --tag_scheme=plain if they"
    ),
    text_of("0 3 4 0"): (
        "f: numbers in the last or given column, such as 0, 3, 4; they look "
        "like ids. Give --tag_scheme=plain if they are the tags, or "
        "--tag_column. If they are ids, write names for them; a Parquet file"
    ),
    text_of("_ SpaceAfter=No _"): "f: words without a tag (_) in the last or",
    text_of("B_PER I_PER O"): (
        "f: tags such as B_PER, I_PER are of no scheme. Write O, B-PER and "
        "I-PER for them; or give --tag_scheme=plain if they are the tags"
    ),
    text_of("b-per i-per o"): "f: tags such as b-per, i-per, o are of no sch",
    text_of("PER-B PER-I O"): "f: tags such as PER-B, PER-I are of no scheme",
    text_of("O E-MAIL PER"): "f:3: tag 'PER' is neither O nor B-, I-, E- or S-",
    **{
        text_of(f"O {tag} B-PER"): f"f:2: tag {tag!r} is neither O nor B-, I-"
        for tag in ("PER", "B-", "X-PER", "o")
    },
    # No scheme.
    text_of("O U-PER S-PER"): (
        f"{NO_SCHEME}BILOU: f:3 has S-PER between U-PER"
    ),
    text_of("O I-PER", "B-PER O"): (
        f"{NO_SCHEME}IOB2: f:2 has I-PER between O and O; not BIOES: f:2 has "
        "I-PER between O and O; not IOB1: f:4 has B-PER between O and O. Corr"
    ),
    **{
        text_of("S-PER", tags): NO_SCHEME
        for tags in (
            *("B-PER O", "E-PER O", "B-PER E-LOC", "S-PER I-PER"),
            *("B-PER I-PER O S-PER", "B-PER E-PER E-PER"),
        )
    },
}


@pytest.mark.parametrize("text", WRONG, ids=WRONG.get)
def test_an_error_names_file_and_line_and_what_to_do(read, text):
    with pytest.raises(ValueError, match=re.escape(WRONG[text])):
        read(text)


EU = "EU NNP B-ORG\n"
NO_COLUMN = (
    "f:1: 3 columns, 'EU NNP B-ORG', and no number 4. Give a --tag_column of "
    "at most 3."
)
BOTH = "f:1: column 3 of 3 cannot be both the word and its tag"
NUMBERS = (
    "f:2: the first column numbers the words: '1', '2' and so on. Give "
    "--word_column and, unless it is the last, --tag_column, such as "
    "--word_column=2 --tag_column=3; or --word_column=1 if these are"
)
NAMES = "f have numbers, from 1. Give a number; names are for JSON lines"


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [
        (
            {"has_tags": False},
            "a N\n\nit\n",
            "f:3: 1 columns, 'it', where f:1 has 2",
        ),
        ({"has_tags": False}, "1 a\n2 b\n", "f:1: the first column numbers"),
        ({"comment_prefix": "#"}, NUMBERED, NUMBERS),
        ({"comment_prefix": "#", "tag_column": 3}, NUMBERED, NUMBERS),
        (
            {"word_column": "form"},
            EU,
            f"--word_column=form: the columns of {NAMES}",
        ),
        ({"tag_column": 0}, EU, "--tag_column=0: the columns of f have num"),
        ({"tag_column": "-1"}, EU, "--tag_column=-1: the columns of f have"),
        (
            {"tag_column": 4},
            EU,
            "no number 4. Give a --tag_column of at most 3",
        ),
        ({"word_column": 9}, EU, "Give a --word_column of at most 3"),
        ({"word_column": 3}, EU, BOTH),
        ({"word_column": 3, "tag_column": 3}, EU, BOTH),
        ({"tag_column": 1}, EU, "column 1 of 3 cannot be both"),
        (
            {"schemes": ["BIOES"]},
            text_of("O U-PER"),
            f"{NO_SCHEME}BIOES: f:2 has U-PER between O and O. Correct",
        ),
        (
            {"schemes": ["IO"]},
            text_of("O B-PER"),
            "f:2: tag 'B-PER' is not of the scheme IO, in which tags are O",
        ),
        (
            {"entity_types": ["PER", "LOC"]},
            text_of("O", "B-PER B-DATE"),
            "f:4: unknown tag 'B-DATE'; the known types are LOC, PER. ",
        ),
        (
            {"entity_types": ["PER"]},
            text_of("O LOC"),
            "f:2: unknown tag 'LOC'; the known types are PER. ",
        ),
        (
            {"entity_types": ["DET", "NOUN"]},
            text_of("DET VERB"),
            "f:2: unknown tag 'VERB'; the known tags are DET, NOUN. ",
        ),
    ],
)
def test_an_error_follows_from_what_was_asked_for(
    read, settings, text, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(text, **settings)


def test_a_skipped_line_with_a_tag_is_a_warning(read, caplog):
    text = "# a comment\na O\n# B-PER\n# O\n"
    corpus = read(text, comment_prefix="#")
    assert corpus.sentences[0].words == ("a",)
    (message,) = caplog.messages
    assert message.startswith("f:3: this line is skipped as a comment")


def test_wnut_2017_has_the_counts_of_its_lines(shared_data):
    # Counted with awk: blocks of lines, lines with a tag, and tags B-....
    for name, counts in (
        ("wnut17train", (3394, 62730, 1975)),
        ("emerging.dev", (1009, 15733, 836)),
    ):
        path = shared_data / "wnut17" / f"{name}.conll"
        corpus = ner_files.read(str(path))
        assert corpus.scheme == "IOB2"
        tags = [tag for s in corpus.sentences for tag in s.tags]
        begun = sum(tag.startswith("B-") for tag in tags)
        assert (len(corpus.sentences), len(tags), begun) == counts


def test_conll_2003_has_its_published_counts(shared_data):
    corpus = ner_files.read(str(shared_data / "conll2003" / "eng.train"))
    assert corpus.scheme == "IOB2"
    assert len(corpus.documents) == 946
    # Counts of Tjong Kim Sang and De Meulder 2003.
    assert len(corpus.sentences) == 14041
    assert sum(len(s.tags) for s in corpus.sentences) == 203621
    tags = [tag for s in corpus.sentences for tag in s.tags]
    begun = [t for t in tags if t.startswith("B-")]
    counts = {name: begun.count(f"B-{name}") for name in corpus.entity_types}
    assert counts == {"LOC": 7140, "MISC": 3438, "ORG": 6321, "PER": 6600}


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("BIOES", "B-PER I-PER O B-PER"),
        ("IO", "I-PER I-PER O I-PER"),
        ("plain", "PER PER O PER"),
    ],
)
def test_spans_have_tags_in_the_scheme_of_a_model(tmp_path, scheme, tags):
    row = {"text": "Ada Lovelace met Bob", "label": [[0, 12, "PER"]]}
    row["label"].append([17, 20, "PER"])
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(row))
    corpus = ner_files.read(str(path), schemes=[scheme])
    assert [s.tags for s in corpus.sentences] == [tuple(tags.split())]
