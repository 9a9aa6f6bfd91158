"""ner_files.py: columns, documents and schemes of CoNLL files, and errors."""

import re

import pytest

from tfrecords.tasks import ner_files

IOB2 = "O B-PER I-PER B-PER O B-LOC B-ORG I-ORG".split()
IOB1 = "O I-PER I-PER B-PER O I-LOC I-ORG I-ORG".split()
BIOES = "O B-PER E-PER S-PER O S-LOC B-ORG E-ORG".split()
BILOU = "O B-PER L-PER U-PER O U-LOC B-ORG L-ORG".split()
# Of three words, New York City.
LONG = {
    "IOB2": ["B-LOC", "I-LOC", "I-LOC"],
    "BIOES": ["B-LOC", "I-LOC", "E-LOC"],
    "BILOU": ["B-LOC", "I-LOC", "L-LOC"],
    "BMES": ["B-LOC", "M-LOC", "E-LOC"],
}


def write(path, *sentences, separator=" "):
    """Writes a file of sentences, each a list of tags; returns its path."""
    lines = []
    for number, tags in enumerate(sentences):
        for index, tag in enumerate(tags):
            lines.append(separator.join([f"w{number}.{index}", "NN", tag]))
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize(
    "scheme, tags",
    [("IOB1", IOB1), ("IOB2", IOB2), ("BIOES", BIOES), ("BILOU", BILOU)],
)
def test_schemes_are_detected_and_converted_to_iob2(tmp_path, scheme, tags):
    corpus = ner_files.read(write(tmp_path / "f", tags, tags[1:]))
    assert corpus.scheme == scheme
    assert [list(s.tags) for s in corpus.sentences] == [IOB2, IOB2[1:]]
    assert corpus.entity_types == ["LOC", "ORG", "PER"]


@pytest.mark.parametrize("scheme", ["BIOES", "BILOU", "BMES"])
def test_words_inside_of_an_entity_have_the_letter_of_their_scheme(
    tmp_path, scheme
):
    corpus = ner_files.read(write(tmp_path / "f", LONG[scheme]))
    assert corpus.scheme == scheme
    assert list(corpus.sentences[0].tags) == LONG["IOB2"]


@pytest.mark.parametrize(
    "scheme, tags",
    [
        ("BILOU", [*BILOU, *LONG["BILOU"]]),
        ("BMES", [*BIOES, *LONG["BMES"]]),
        ("IO", ["ORG", "O", "LOC", "LOC", "PER"]),
        ("plain", ["DET", "NOUN", "VERB", "DET"]),
    ],
)
def test_tags_are_written_back_in_the_scheme_of_their_file(
    tmp_path, scheme, tags
):
    corpus = ner_files.read(write(tmp_path / "f", tags))
    assert corpus.scheme == scheme
    (sentence,) = corpus.sentences
    assert ner_files.in_scheme(sentence.tags, scheme) == tags


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


def test_io_is_read_as_inner_words_and_plain_tags_as_they_are(tmp_path):
    path = write(tmp_path / "f", ["ORG", "O", "LOC", "LOC"])
    corpus = ner_files.read(path)
    assert corpus.sentences[0].tags == ("I-ORG", "O", "I-LOC", "I-LOC")
    assert corpus.entity_types == ["LOC", "ORG"]
    corpus = ner_files.read(path, schemes=["plain"])
    assert corpus.sentences[0].tags == ("ORG", "O", "LOC", "LOC")
    assert corpus.entity_types == ["LOC", "O", "ORG"]
    corpus = ner_files.read(
        write(tmp_path / "f", ["VERB", "DET"]), entity_types=["DET", "VERB"]
    )
    assert (corpus.scheme, corpus.entity_types) == ("plain", ["DET", "VERB"])


def test_a_preferred_scheme_decides_between_those_that_fit(tmp_path):
    path = write(tmp_path / "f", ["S-LOC", "B-PER", "E-PER"])
    assert ner_files.read(path).scheme == "BIOES"
    schemes = ["BMES", "IOB2", "IOB1", "BIOES", "BILOU"]
    assert ner_files.read(path, schemes=schemes).scheme == "BMES"
    path = write(tmp_path / "f", LONG["BILOU"])
    assert ner_files.read(path, schemes=schemes).scheme == "BILOU"


def test_columns_and_documents_are_read(tmp_path):
    path = tmp_path / "eng.train"
    path.write_bytes(
        b"-DOCSTART- -X- -X- O\r\n\r\nEU\tNNP\tB-ORG\r\nrose VBD  O\r\n\r\n"
        b" \r\nIt PRP O\r\n-DOCSTART- -X- O\r\n\r\nNo\xc2\xa0w RB O"
    )
    first, second = ner_files.read(str(path)).documents
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


def test_without_document_lines_each_sentence_is_a_document(tmp_path):
    corpus = ner_files.read(write(tmp_path / "f", IOB2, IOB2))
    assert [len(d.sentences) for d in corpus.documents] == [1, 1]


def test_a_file_without_tags_is_read(tmp_path):
    path = tmp_path / "f"
    path.write_text("EU NNP\nrose VBD\n\nIt PRP\n")
    corpus = ner_files.read(str(path), has_tags=False)
    assert corpus.scheme is None
    assert [s.words for s in corpus.sentences] == [("EU", "rose"), ("It",)]
    assert corpus.sentences[0].columns[0] == ("EU", "NNP")
    assert corpus.sentences[0].tags == ()


# Number, word, outer and inner tag.
NUMBERED = """# http://example.org/Troy [1]
1\tTroy\tB-MISC\tB-LOC
2\t's\tI-MISC\tO
# a comment between words
3\tfall\tI-MISC\tO

# http://example.org/in [2]
1\tin\tO\tO
2\tBonn\tB-LOC\tO
"""


def test_words_and_tags_are_in_the_columns_asked_for(tmp_path):
    path = tmp_path / "f"
    path.write_text(NUMBERED)
    columns = {"comment_prefix": "#", "word_column": 2}
    outer = ner_files.read(str(path), tag_column=3, **columns).sentences
    inner = ner_files.read(str(path), **columns).sentences
    assert [s.words for s in outer] == [("Troy", "'s", "fall"), ("in", "Bonn")]
    assert [s.words for s in inner] == [s.words for s in outer]
    assert [s.tags for s in outer] == [
        ("B-MISC", "I-MISC", "I-MISC"),
        ("O", "B-LOC"),
    ]
    assert [s.tags for s in inner] == [("B-LOC", "O", "O"), ("O", "O")]
    # All other columns, in the order of the file.
    assert outer[0].columns[0] == ("1", "Troy", "B-LOC")
    assert [s.lines for s in outer] == [(2, 3, 5), (8, 9)]
    # The tag before the word.
    path.write_text("O in\nB-LOC Bonn\n")
    corpus = ner_files.read(str(path), tag_column=1, word_column=2)
    assert corpus.sentences[0].words == ("in", "Bonn")
    assert corpus.sentences[0].columns == (("in",), ("Bonn",))
    assert corpus.sentences[0].tags == ("O", "B-LOC")
    # Without tags.
    path.write_text("1 in\n2 Bonn\n")
    corpus = ner_files.read(
        str(path), has_tags=False, word_column=2, tag_column=3
    )
    assert corpus.sentences[0].words == ("in", "Bonn")
    path.write_text("1 -DOCSTART- O\n\n1 in O\n")
    (document,) = ner_files.read(str(path), word_column=2).documents
    assert document.words == ("in",)


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


def test_tags_have_the_ids_of_the_labels_of_a_foreign_tagger(tmp_path):
    path = write(tmp_path / "f", ["B-A", "I-A", "I-A", "O", "B-A"])
    sentences = ner_files.read(path).sentences
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


def check_error(path, message, **keywords):
    with pytest.raises(ValueError, match=re.escape(message)):
        ner_files.read(str(path), **keywords)


def test_a_missing_column_raises_with_its_line(tmp_path):
    path = tmp_path / "f"
    path.write_text("-DOCSTART- O\n\nEU NNP B-ORG\nrose VBD\n\n")
    check_error(path, f"{path}:4: 2 columns, 'rose VBD', where {path}:3 has 3")
    path.write_text("EU B-ORG\n\nit O\nrose\n\n")
    check_error(path, f"{path}:4: one column, 'rose', where a word and its tag")
    path.write_text("EU NNP\n\nrose\n")
    check_error(
        path,
        f"{path}:3: 1 columns, 'rose', where {path}:1 has 2",
        has_tags=False,
    )


def test_the_line_with_an_odd_number_of_columns_is_named(tmp_path):
    path = tmp_path / "f"
    path.write_text(NUMBERED)
    check_error(
        path,
        f"{path}:1: 3 columns, '# http://example.org/Troy [1]', where {path}:2 "
        "has 4. There is a column too few or too many; correct this line. If "
        "lines with # are comments, give --comment_prefix=#.",
    )
    path.write_text("#id\nEU B-ORG\n")
    check_error(path, f"{path}:1: one column, '#id', where a word and its tag")


def test_numbers_of_words_are_not_words(tmp_path):
    path = tmp_path / "f"
    path.write_text(NUMBERED)
    message = (
        f"{path}:2: the first column numbers the words: '1', '2' and so on. "
        "Give --word_column and, unless it is the last, --tag_column, such as "
        "--word_column=2 --tag_column=3; or --word_column=1 if these are"
    )
    check_error(path, message, comment_prefix="#")
    check_error(path, message, comment_prefix="#", tag_column=3)
    corpus = ner_files.read(str(path), comment_prefix="#", word_column=1)
    assert corpus.sentences[1].words == ("1", "2")
    # From 0, and through the file; an odd number does not hide the others.
    path.write_text("0 a O\n1 b O\n\n2 c O\n3 d O\n4 e O\n\n7 f O\n9 g O\n")
    check_error(path, f"{path}:1: the first column numbers the words: '0', '1'")
    path.write_text("1 a\n2 b\n")
    check_error(path, f"{path}:1: the first column numbers", has_tags=False)
    # Words that are numbers.
    path.write_text("7 O\n8 O\n")
    assert ner_files.read(str(path)).documents[0].words == ("7", "8")
    path.write_text("7 CD O\n\n8 CD O\n\n1 CD O\n2 CD O\n\nEU N O\n. . O\n")
    assert len(ner_files.read(str(path)).sentences) == 4


def test_lines_of_conll_u_without_a_word_of_their_own_are_named(tmp_path):
    path = tmp_path / "f"
    lines = ["1-2 im _", "1 in ADP", "2 dem DET", "3 Haus NOUN", ""]
    path.write_text("\n".join(lines))
    check_error(path, f"{path}:1: the first column numbers the words")
    check_error(
        path,
        f"{path}:1: '1-2' where the first column numbers the words: the line "
        "is no word of its own, see CoNLL-U. Remove such lines.",
        word_column=2,
    )
    path.write_text("\n".join(lines[1:]))
    corpus = ner_files.read(str(path), word_column=2)
    assert corpus.sentences[0].tags == ("ADP", "DET", "NOUN")


def test_columns_that_are_not_there_raise(tmp_path):
    path = tmp_path / "f"
    path.write_text("EU NNP B-ORG\n")
    check_error(
        path,
        f"{path}:1: 3 columns, 'EU NNP B-ORG', and no number 4. Give a "
        "--tag_column of at most 3.",
        tag_column=4,
    )
    check_error(path, "Give a --word_column of at most 3", word_column=9)
    message = f"{path}:1: column 3 of 3 cannot be both the word and its tag"
    check_error(path, message, word_column=3)
    check_error(path, message, word_column=3, tag_column=3)
    check_error(path, "column 1 of 3 cannot be both", tag_column=1)


def test_tags_without_a_clear_scheme_raise(tmp_path):
    path = write(tmp_path / "f", ["B", "I", "O"])
    check_error(
        path,
        f"{path}: the tags B, I have no type. Append one, such as B-PER, to "
        "score entities; or give --tag_scheme=plain to score single tags.",
    )
    assert ner_files.read(path, schemes=["plain"]).entity_types == [
        *["B", "I", "O"]
    ]
    path = write(tmp_path / "f", [f"word{i}" for i in range(201)])
    check_error(
        path,
        f"{path}: 201 different tags in the last or given column, such as "
        "word0, word1, word10; they look like words. Give --tag_scheme=plain "
        "if they are the tags, or --tag_column.",
    )
    assert len(ner_files.read(path, schemes=["plain"]).entity_types) == 201


def test_a_file_in_another_scheme_than_asked_for_raises(tmp_path):
    path = write(tmp_path / "f", ["O", "U-PER"])
    check_error(
        path,
        f"{path}: the tags follow no scheme: not BIOES: {path}:2 has U-PER "
        "between O and O. Correct",
        schemes=["BIOES"],
    )
    path = write(tmp_path / "f", ["O", "B-PER"])
    check_error(
        path,
        f"{path}:2: tag 'B-PER' is not of the scheme IO, in which tags are O",
        schemes=["IO"],
    )
    path = write(tmp_path / "f", ["O", "U-PER", "S-PER"])
    check_error(path, f"no scheme: not BILOU: {path}:3 has S-PER between U-PER")


def test_a_type_may_begin_as_a_tag_of_another_scheme_does(tmp_path):
    path = write(tmp_path / "f", ["O", "E-MAIL", "PER"])
    check_error(path, "neither O nor B-, I-, E- or S-")
    corpus = ner_files.read(str(path), schemes=["IO"])
    assert corpus.sentences[0].tags == ("O", "I-E-MAIL", "I-PER")


def test_a_skipped_line_with_a_tag_is_a_warning(tmp_path, caplog):
    path = tmp_path / "f"
    path.write_text("# a comment\na O\n# B-PER\n# O\n")
    corpus = ner_files.read(str(path), comment_prefix="#")
    assert corpus.sentences[0].words == ("a",)
    (message,) = caplog.messages
    assert message.startswith(f"{path}:3: this line is skipped as a comment")


def test_an_unknown_tag_raises_with_its_line(tmp_path):
    path = write(tmp_path / "f", ["O"], ["B-PER", "B-DATE"])
    check_error(
        path,
        f"{path}:4: unknown tag 'B-DATE'; the known types are LOC, PER. ",
        entity_types=["PER", "LOC"],
    )
    check_error(
        write(tmp_path / "f", ["O", "LOC"]),
        "f:2: unknown tag 'LOC'; the known types are PER. ",
        entity_types=["PER"],
    )
    check_error(
        write(tmp_path / "f", ["DET", "VERB"]),
        "f:2: unknown tag 'VERB'; the known tags are DET, NOUN. ",
        entity_types=["DET", "NOUN"],
    )
    for tag in ("PER", "B-", "X-PER", "o"):
        path = write(tmp_path / "f", ["O", tag, "B-PER"])
        check_error(
            path, f"{path}:2: tag {tag!r} is neither O nor B-, I-, E- or"
        )


def test_tags_of_no_scheme_raise_with_the_violation_of_each(tmp_path):
    path = write(tmp_path / "f", ["O", "I-PER"], ["B-PER", "O"])
    check_error(
        path,
        f"{path}: the tags follow no scheme: not IOB2: {path}:2 has I-PER "
        f"between O and O; not BIOES: {path}:2 has I-PER between O and O; not "
        f"IOB1: {path}:4 has B-PER between O and O. Correct",
    )
    for invalid in (
        "B-PER O",
        "E-PER O",
        "B-PER E-LOC",
        "S-PER I-PER",
        "B-PER I-PER O S-PER",
        "B-PER E-PER E-PER",
    ):
        path = write(tmp_path / "f", ["S-PER"], invalid.split())
        check_error(path, "the tags follow no scheme")


def test_empty_and_missing_files_raise(tmp_path):
    path = tmp_path / "f"
    path.write_text("-DOCSTART- O\n\n\n")
    check_error(path, f"{path} has no word")
    check_error(tmp_path / "none", "No input file at")


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
