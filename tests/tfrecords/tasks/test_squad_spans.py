"""squad_examples.py: tokens of an answer, for cases not in golden files."""

import pytest

from tfrecords.tasks import squad_examples, squad_files

PASSAGE = "The painter (1895-1943) lived;\n not\u202fher\u00a0and she."


def find(tokenizer, answer, passage=PASSAGE):
    """Returns the text of the tokens found for an answer; None if none are."""
    question = squad_files.Question(
        "q",
        "who ?",
        passage,
        (squad_files.Answer(answer, passage.index(answer)),),
        False,
        "file",
    )
    ids, starts, ends = tokenizer.tokenize_with_offsets([passage])
    span = squad_examples.find_span(
        question,
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
        # The answer's own tokens, if its words have these tokens.
        ("1895", "1895"),
        ("1895-1943", "1895-1943"),
        ("painter", "painter"),
        # Otherwise all tokens of the words that it overlaps.
        ("paint", "painter"),
        ("895-19", "(1895-1943)"),
        # It overlaps no other word.
        ("lived;\n", "lived;"),
        # A space belongs to the word before it.
        (" (1895", "(1895"),
        ("\u202fher", "her"),
        # A no-break space separates no words of the passage, but it separates
        # those of the answer.
        ("her\u00a0and", None),
        ("and", "and"),
    ],
)
def test_an_answer_is_mapped_to_tokens(squad_tokenizer, answer, expected):
    assert find(squad_tokenizer, answer) == expected


def test_the_first_of_equal_tokens_in_a_word_is_found(squad_tokenizer):
    assert find(squad_tokenizer, "did", "not(did-did)not") == "did"


def test_an_answer_without_tokens_is_not_found(squad_tokenizer):
    assert find(squad_tokenizer, "\u200b", "the \u200b painter") is None


def test_a_span_has_positions_only_in_windows_that_hold_all_of_it(
    squad_tokenizer,
):
    settings = squad_examples.Settings(max_seq_length=10, doc_stride=2)
    make_chunks = squad_examples.chunk_maker(squad_tokenizer, settings)
    passage = "the painter lived in the town and she did"
    found = squad_files.Question("q", "who ?", passage, (), False, "file")
    (chunk,) = make_chunks([found])
    # [CLS] who ? [SEP], then five tokens of the passage from 0, 2 and 4.
    assert chunk.windows.first.tolist() == [0, 2, 4]
    positions = [
        squad_examples.find_place((3, 5), chunk.windows, window)
        for window in range(3)
    ]
    assert positions == [(0, 0), (5, 7), (0, 0)]
