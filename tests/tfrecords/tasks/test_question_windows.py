"""question_windows.py: windows are the original's; their properties."""

import functools

import numpy as np
import planted_squad as planted
import pytest
import tensorflow as tf

from tfrecords.tasks import squad_files
from tfrecords.text import segments

CASES = planted.golden()["cases"]

make = functools.partial(planted.make_windows, S=16, stride=4, most=4)


def words(count, first=0):
    entries = planted.golden()["vocab"][5:]
    plain = [entry for entry in entries if entry.isalpha() and len(entry) > 1]
    return " ".join(plain[n % len(plain)] for n in range(first, first + count))


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("case", CASES, ids=["v1.1", "v2.0"])
def test_windows_are_those_of_the_original(
    tmp_path, squad_tokenizer, case, in_graph
):
    S = case["max_seq_length"]
    questions = squad_files.read_questions(
        planted.write(tmp_path, case),
        version_2_with_negative=case["version_2_with_negative"],
        is_training=False,
    )
    windows = functools.partial(
        make,
        squad_tokenizer,
        S=S,
        stride=case["doc_stride"],
        most=case["max_query_length"],
    )
    if in_graph:
        windows = tf.function(windows, autograph=False)
    found = windows([q.text for q in questions], [q.passage for q in questions])
    assert len(found.question) == len(case["windows"])
    for number, expected in enumerate(case["windows"]):
        inputs = {n: v.numpy()[number] for n, v in found.inputs.items()}
        used, num_b = len(expected["ids"]), expected["type_1"]
        padding = [0] * (S - used)
        assert found.question[number] == expected["question"]
        assert found.offset[number] == expected["offset"]
        assert inputs["input_word_ids"].tolist() == expected["ids"] + padding
        assert inputs["input_mask"].tolist() == [1] * used + padding
        assert (
            inputs["input_type_ids"].tolist()
            == [0] * (used - num_b) + [1] * num_b + padding
        )
        in_passage = np.flatnonzero(found.in_passage[number]).tolist()
        assert in_passage == list(range(expected["offset"], used - 1))
        has_max_context = np.flatnonzero(found.has_max_context[number])
        assert has_max_context.tolist() == expected["max_context"]


def test_each_token_has_maximum_context_in_one_window(squad_tokenizer):
    passages = [words(n, n) for n in (1, 9, 10, 23, 60)]
    found = make(squad_tokenizer, ["who lived ?"] * 5, passages, stride=3)
    for number, passage in enumerate(passages):
        windows = found.question == number
        starts = found.starts[windows][found.has_max_context[windows]]
        tokens = squad_tokenizer.tokenize_with_offsets([passage])[1].values
        assert sorted(starts.numpy().tolist()) == tokens.numpy().tolist()


def test_starts_and_ends_are_characters_of_the_passage(squad_tokenizer):
    passage = "Renée  Oñate,\nZÜRICH 12\u202f000 cafe\u0301"
    found = make(squad_tokenizer, ["?"], [passage], S=32)
    in_passage = found.in_passage.numpy()[0]
    assert [
        passage[start:end]
        for start, end in zip(
            found.starts.numpy()[0][in_passage],
            found.ends.numpy()[0][in_passage],
            strict=True,
        )
    ] == "Renée Oña te , ZÜRICH 12 000 cafe\u0301".split()


def test_a_single_window_equals_the_packed_segments(squad_tokenizer):
    question, passage = "who lived ?", "her brother did"
    found = make(squad_tokenizer, [question], [passage])
    packed = segments.pack(
        squad_tokenizer([question]), squad_tokenizer([passage]), 16, 2, 3
    )
    for name, values in packed.items():
        assert found.inputs[name].numpy().tolist() == values.numpy().tolist()


def test_a_stride_longer_than_a_window_leaves_no_gap(squad_tokenizer):
    found = make(squad_tokenizer, ["who ?"], [words(30)], S=12, stride=100)
    assert found.first.numpy().tolist() == [0, 7, 14, 21, 28]


def test_a_passage_without_tokens_has_one_window(squad_tokenizer):
    found = make(squad_tokenizer, ["who ?", "who ?", ""], ["", "the", ""])
    assert found.question.numpy().tolist() == [0, 1, 2]
    assert found.in_passage.numpy().sum(axis=1).tolist() == [0, 1, 0]
    assert found.inputs["input_mask"].numpy().sum(axis=1).tolist() == [5, 6, 3]
    # Without questions there are no windows.
    none = tf.zeros([0], tf.string)
    empty = make(squad_tokenizer, none, none)
    assert empty.inputs["input_mask"].shape == (0, 16)


def test_a_long_question_leaves_room_for_one_passage_token(squad_tokenizer):
    found = make(squad_tokenizer, [words(20)], [words(3)], S=8, most=64)
    assert found.in_passage.numpy().sum(axis=1).tolist() == [1, 1, 1]
    assert found.offset.numpy().tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"S": 4}, "max_seq_length=4 has no room for"),
        ({"stride": 0}, "doc_stride=0 and max_query_length=4 should be 1 or"),
        ({"most": 0}, "doc_stride=4 and max_query_length=0 should be 1 or"),
    ],
)
def test_too_small_sizes_raise(squad_tokenizer, settings, message):
    with pytest.raises(ValueError, match=message):
        make(squad_tokenizer, ["who ?"], ["the"], **settings)
