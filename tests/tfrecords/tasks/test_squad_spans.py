"""Answers in characters -> tokens: the cases that are not in golden files."""

import planted_squad as planted
import pytest

from tfrecords.tasks import squad_examples, squad_files
from tfrecords.text import tokenizer as tokenizer_lib

PASSAGE = "The painter (1895-1943) lived;\n not\u202fher\u00a0and she."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocab")
    return tokenizer_lib.BertTokenizer(planted.write_vocab(folder))


def find(tokenizer, answer, passage=PASSAGE):
    """The tokens of the answer, as text."""
    found = squad_files.Question(
        "q",
        "who ?",
        passage,
        (squad_files.Answer(answer, passage.index(answer)),),
        False,
        "file",
    )
    ids, starts, ends = tokenizer.tokenize_with_offsets([passage])
    span = squad_examples.find_span(
        found,
        ids.values.numpy(),
        starts.values.numpy(),
        tokenizer([answer]).values.numpy().tolist(),
    )
    if span is None:
        return None
    first, last = span
    return passage[starts.values[first] : ends.values[last].numpy()]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        # Tokens of the answer, where they are tokens of its words.
        ("1895", "1895"),
        ("1895-1943", "1895-1943"),
        ("painter", "painter"),
        # Else the words that it touches.
        ("paint", "painter"),
        ("895-19", "(1895-1943)"),
        # What touches no further word is its word alone.
        ("lived;\n", "lived;"),
        # A space belongs to the word before it.
        (" (1895", "(1895"),
        ("\u202fher", "her"),
        # A hard space parts no words there, but the answer's it does.
        ("her\u00a0and", None),
        ("and", "and"),
    ],
)
def test_the_tokens_of_an_answer(tokenizer, answer, expected):
    assert find(tokenizer, answer) == expected


def test_the_first_of_equal_tokens_in_a_word_is_taken(tokenizer):
    assert find(tokenizer, "did", "not(did-did)not") == "did"


def test_an_answer_without_a_token_is_none(tokenizer):
    assert find(tokenizer, "\u200b", "the \u200b painter") is None


def test_a_span_has_its_place_in_windows_that_hold_all_of_it(tokenizer):
    settings = squad_examples.Settings(max_seq_length=10, doc_stride=2)
    make_chunks = squad_examples.chunk_maker(tokenizer, settings)
    passage = "the painter lived in the town and she did"
    found = squad_files.Question("q", "who ?", passage, (), False, "file")
    (chunk,) = make_chunks([found])
    # [CLS] who ? [SEP], then five tokens from 0, 2 and 4 on.
    assert chunk.windows.first.tolist() == [0, 2, 4]
    places = [
        squad_examples.find_place((3, 5), chunk.windows, window)
        for window in range(3)
    ]
    assert places == [(0, 0), (5, 7), (0, 0)]
