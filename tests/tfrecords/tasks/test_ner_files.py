"""ner_files.py: columns, documents and schemes of CoNLL files, and errors."""

import re

import pytest

from tfrecords.tasks import ner_files

IOB2 = "O B-PER I-PER B-PER O B-LOC B-ORG I-ORG".split()
IOB1 = "O I-PER I-PER B-PER O I-LOC I-ORG I-ORG".split()
BIOES = "O B-PER E-PER S-PER O S-LOC B-ORG E-ORG".split()


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
    "scheme, tags", [("IOB1", IOB1), ("IOB2", IOB2), ("BIOES", BIOES)]
)
def test_schemes_are_detected_and_converted_to_iob2(tmp_path, scheme, tags):
    corpus = ner_files.read(write(tmp_path / "f", tags, tags[1:]))
    assert corpus.scheme == scheme
    assert [list(s.tags) for s in corpus.sentences] == [IOB2, IOB2[1:]]
    assert corpus.entity_types == ["LOC", "ORG", "PER"]


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


def test_labels_are_o_and_both_tags_of_each_type():
    assert ner_files.labels_of({"PER", "LOC"}) == [
        *["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    ]


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


def test_an_unknown_tag_raises_with_its_line(tmp_path):
    path = write(tmp_path / "f", ["O"], ["B-PER", "B-DATE"])
    check_error(
        path,
        f"{path}:4: unknown tag 'B-DATE'; the known types are LOC, PER. ",
        entity_types=["PER", "LOC"],
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
