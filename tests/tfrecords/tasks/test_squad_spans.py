"""squad_examples.py: tokens of an answer, for cases not in golden files."""

import json

import planted_squad
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import squad_examples, squad_files
from tfrecords.text import tokenizer, vocab

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
    ids, starts, ends = (
        column.values.numpy()
        for column in tokenizer.tokenize_with_offsets([passage])
    )
    span = squad_examples.find_span(
        question, ids, starts, tokenizer([answer]).values.numpy().tolist()
    )
    return span and passage[starts[span[0]] : ends[span[1]]]


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


ENTRIES = [
    *vocab.SPECIAL_TOKENS,
    *("who", "?", "der", "donau", "##dampf", "##schiff", "##kapitän", "kam"),
    *("トヨタ", "##の", "##エンジン", "##を", "บาง", "##กอก", "##ใน", "and"),
]


def make(tmp_path, passage, answers, alignment, split="train"):
    """Makes records with a small vocabulary; returns it and their folder."""
    found = tokenizer.BertTokenizer(ENTRIES, do_lower_case=False)
    questions = [
        planted_squad.question(f"q{i}", "who ?", passage, answer)
        for i, answer in enumerate(answers)
    ]
    path = tmp_path / "train.json"
    content = planted_squad.article((passage, questions))
    path.write_text(json.dumps(content), encoding="utf-8")
    folder = squad_examples.make_records(
        {split: str(path)},
        str(tmp_path / "records"),
        found,
        squad_examples.Settings(max_seq_length=32, answer_alignment=alignment),
    )[split]
    return found, folder


def labelled(tmp_path, passage, answers, alignment="exact"):
    """Makes records.

    Returns:
      The text of the labelled tokens for each answer, and the manifest.
    """
    (tmp_path / alignment).mkdir()
    found, folder = make(tmp_path / alignment, passage, answers, alignment)
    opened = records.Records.open(folder)
    columns = opened.read(schema.SPANS)
    texts = []
    _, starts, ends = found.tokenize_with_offsets([passage])
    for edges in zip(
        columns["start_positions"], columns["end_positions"], strict=True
    ):
        # [CLS] who ? [SEP] stand before the passage.
        first, last = (int(position) - 4 for position in edges)
        texts.append(passage[int(starts[0][first]) : int(ends[0][last])])
    return texts, opened.manifest


@pytest.mark.parametrize(
    ("passage", "answer", "as_original"),
    [
        ("der donaudampfschiffkapitän kam", "dampfschiff", 1),
        ("トヨタのエンジンを", "エンジン", 0),
        ("บางกอกใน", "กอก", 0),
        ("der donau kam", "donau", 1),
        ("der donau kam", " donau ", 1),
    ],
)
def test_an_exact_run_of_tokens_is_the_answer(
    tmp_path, passage, answer, as_original
):
    (text,), manifest = labelled(tmp_path, passage, [answer])
    assert text == answer.strip()
    assert manifest.statistics["answers_exact"] == 1
    assert manifest.flags["answer_alignment"] == "exact"
    (text,), manifest = labelled(tmp_path, passage, [answer], "original")
    assert text == passage.split()[as_original]
    assert "answer_alignment" not in manifest.flags
    assert "answers_exact" not in manifest.statistics


def test_without_an_exact_run_it_is_as_in_the_original(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    passage = "der donaudampfschiffkapitän kam"
    texts, manifest = labelled(tmp_path, passage, ["onaudampf", "kam"])
    assert texts == ["donaudampfschiffkapitän", "kam"]
    statistics = manifest.statistics
    assert statistics["answers_exact"] == statistics["answers_not_exact"] == 1
    assert "answers_exact 1  answers_not_exact 1" in caplog.text


# No-break, thin and ideographic spaces, a vertical tab: of the tokenizer or of
# Python, but they end no word of a passage in the original.
@pytest.mark.parametrize("alignment", ["original", "exact"])
@pytest.mark.parametrize(
    ("space", "last", "skipped"),
    [
        ("\u00a0", "kam", "q0 q1 q4"),
        ("\u2009", "kam", "q0 q1 q4"),
        ("\u3000", "kam", "q0 q1 q4"),
        # A word of the original, and none of its tokens.
        ("\x0b", "donau\x0bkam?", "q0 q1 q4"),
        ("\u00a0\u200b\u3000", "kam", "q0 q1 q2 q4"),
    ],
)
def test_no_answer_is_dropped_for_the_kind_of_its_space(
    tmp_path, space, last, skipped, alignment
):
    passage = f"\n{space}der donau{space}kam? and"
    whole = f"donau{space}kam"
    answers = [whole[1:], whole, f"{space}kam", "and", f"\n{space}der"]
    texts, manifest = labelled(tmp_path, passage, answers, alignment)
    assert texts == [whole, whole, last, "and", "der"]
    statistics = manifest.statistics
    assert statistics["answers_not_found"] == []
    assert statistics["answers_original_skips"] == skipped.split()


@pytest.mark.parametrize("alignment", ["original", "exact"])
def test_labels_of_another_alignment_are_not_reused(tmp_path, alignment):
    given = (tmp_path, "der donau kam", ["donau"])
    (other,) = {"original", "exact"} - {alignment}
    for split in ("train", "dev"):
        make(*given, alignment, split)
    with pytest.raises(ValueError, match="settings or files: answer_alignment"):
        make(*given, other)
    make(*given, other, "dev")  # It has no labels.


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
    for window, expected in enumerate([(0, 0), (5, 7), (0, 0)]):
        found = squad_examples.locate((3, 5), chunk.windows, window)
        assert found == expected
