"""squad_answers.py: answers are the original's; their properties."""

import functools
import itertools

import numpy as np
import planted_squad as planted
import pytest
import tensorflow as tf

from bert_tf.tasks import squad_answers
from tfrecords.tasks import squad_files

CASES = planted.golden()["cases"]
PASSAGE = "The painter lived in ZÜRICH and the painter did not live in the town"


def choose_golden(tmp_path, tokenizer, case, in_graph=False):
    is_version_2 = case["version_2_with_negative"]
    questions = squad_files.read_questions(
        planted.write(tmp_path, case),
        version_2_with_negative=is_version_2,
        is_training=False,
    )
    S = case["max_seq_length"]
    passages = [question.passage for question in questions]
    windows = planted.make_windows(
        tokenizer,
        [question.text for question in questions],
        passages,
        S,
        case["doc_stride"],
        case["max_query_length"],
    )
    choose = functools.partial(
        squad_answers.choose,
        n_best_size=10,
        max_answer_length=12,
        version_2_with_negative=is_version_2,
    )
    if in_graph:
        choose = tf.function(choose, autograph=False)
    logits = planted.logits(len(windows.question), S)
    found = choose(windows, *logits, tf.constant(passages))
    return questions, found


def texts_of(found, row):
    return [t.decode() for t in found.texts.numpy()[row][: found.count[row]]]


def close(ours, theirs):
    # The golden file has scores rounded to two decimals.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=0.006)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("case", CASES, ids=["v1.1", "v2.0"])
def test_answers_are_those_of_the_original(
    tmp_path, squad_tokenizer, case, in_graph
):
    questions, found = choose_golden(tmp_path, squad_tokenizer, case, in_graph)
    decided = squad_answers.decide(found, 0.0).numpy()
    scores = found.spans.start_logit + found.spans.end_logit
    num_exact = 0
    for row, question in enumerate(questions):
        expected = case["nbest"][question.id]
        texts = texts_of(found, row)
        if case["version_2_with_negative"]:
            assert found.null_odds[row] == case["null_odds"][question.id]
        close(scores[row, 0], expected[0][2])
        if "\u200b" in question.passage:
            # The original cannot align tokens and words here, and returns
            # whole words, some of which are equal.
            continue
        num_exact += 1
        count = len(expected)
        # The original writes a single space between words.
        assert [text.split() for text in texts] == [
            text.split() for text, *_ in expected
        ]
        close(scores[row, :count], [score for *_, score in expected])
        close(
            found.probabilities[row],
            [prob for _, prob, _ in expected]
            + [0] * (found.probabilities.shape[1] - count),
        )
        assert (
            decided[row].decode().split()
            == case["predictions"][question.id].split()
        )
    assert num_exact > 10


def test_texts_are_substrings_of_the_passage(tmp_path, squad_tokenizer):
    questions, found = choose_golden(tmp_path, squad_tokenizer, CASES[0])
    for row, question in enumerate(questions):
        starts, ends = found.spans.start[row], found.spans.end[row]
        count = int(found.count[row])
        assert texts_of(found, row) == [
            question.passage[start:end]
            for start, end in list(zip(starts, ends, strict=True))[:count]
        ]
    every = [text for row in range(14) for text in texts_of(found, row)]
    assert any("O\n2 is  oxygen. 东京 had 12\u202f000" in t for t in every)


def peaks(windows, *peaks):
    """Returns logits of a window: 0 except at (passage token, start, end)."""
    start, end = np.zeros((2, *windows.in_passage.shape), np.float32)
    for token, first, last in peaks:
        start[0, windows.offset[0] + token] = first
        end[0, windows.offset[0] + token] = last
    return start, end


def test_equal_texts_are_one_answer(squad_tokenizer):
    windows = planted.make_windows(squad_tokenizer, ["who ?"], [PASSAGE], 32)
    # The painter, twice.
    logits = peaks(windows, (0, 9, 0), (1, 0, 9), (6, 8, 0), (7, 0, 8))
    found = squad_answers.choose(windows, *logits, tf.constant([PASSAGE]))
    texts = texts_of(found, 0)
    assert len(set(texts)) == len(texts) == 20
    assert texts[0] == "The painter"
    assert found.spans.start[0, 0] == 0
    # Case distinguishes answers.
    assert "the painter" in texts


@pytest.mark.parametrize("version_2_with_negative", [False, True])
def test_many_equal_texts_still_leave_enough_answers(
    squad_tokenizer, version_2_with_negative
):
    passage = "the the the the the the the the the the town"
    windows = planted.make_windows(squad_tokenizer, ["who ?"], [passage], 32)
    # Single words come first; all but one are equal.
    start, end = peaks(windows, *[(n, 100 - n, 100 - n) for n in range(11)])
    found = squad_answers.choose(
        windows,
        start,
        end,
        tf.constant([passage]),
        n_best_size=4,
        max_answer_length=2,
        version_2_with_negative=version_2_with_negative,
    )
    # Of the four best starts and ends, only these texts are distinct.
    assert texts_of(found, 0)[:2] == ["the", "the the"]
    assert found.count[0] == 2 + version_2_with_negative


@pytest.mark.parametrize("version_2_with_negative", [False, True])
@pytest.mark.parametrize("in_graph", [False, True])
def test_answers_of_many_equal_windows(
    squad_tokenizer, version_2_with_negative, in_graph
):
    # All windows are equal but two: the best pairs are copies of a few texts.
    words = ["the", "town"] * 400
    words[301:303] = ["ZÜRICH", "painter"]
    passage = " ".join(words)
    windows = planted.make_windows(
        squad_tokenizer, ["who ?"], [passage], 16, stride=4
    )
    count = len(windows.question)
    assert count > 5 * squad_answers._WINDOWS_AT_ONCE
    peak = -np.abs(np.arange(16, dtype=np.float32) - 9)
    logits = np.broadcast_to(peak, (2, count, 16))
    choose = functools.partial(
        squad_answers.choose,
        n_best_size=6,
        max_answer_length=2,
        version_2_with_negative=version_2_with_negative,
    )
    if in_graph:
        choose = tf.function(choose, autograph=False)
    found = choose(windows, *logits, tf.constant([passage]))
    # Each text with its best score, the first of equal ones first.
    expected = {}
    pairs = [
        (logits[0, w, first] + logits[1, w, last], start, end)
        for w in range(count)
        for first, last, start, end in pairs_of(windows, w)
    ]
    for score, start, end in sorted(pairs, key=lambda pair: -pair[0]):
        expected.setdefault(passage[start:end], (score, start))
    texts = texts_of(found, 0)
    if version_2_with_negative:
        assert texts.pop() == ""
    assert texts == list(expected)[:6]
    scores = found.spans.start_logit + found.spans.end_logit
    for rank, text in enumerate(texts):
        assert (scores[0, rank], found.spans.start[0, rank]) == expected[text]


def pairs_of(windows, w):
    """Yields the pairs of one or two of the six tokens around the ninth."""
    starts, ends = windows.starts.numpy()[w], windows.ends.numpy()[w]
    for first, last in itertools.product((9, 8, 10, 7, 11, 6), repeat=2):
        if (
            windows.has_max_context.numpy()[w, first]
            and windows.in_passage.numpy()[w, last]
            and last - first in (0, 1)
        ):
            yield first, last, starts[first], ends[last]


def test_padding_does_not_change_answers(squad_tokenizer):
    questions, passages = ["who ?", "where ?"], [PASSAGE, "the town"]
    rng = np.random.default_rng(0)
    found = []
    for S in (24, 40):
        windows = planted.make_windows(squad_tokenizer, questions, passages, S)
        logits = np.full((2, *windows.in_passage.shape), 99, np.float32)
        if not found:
            values = rng.normal(size=logits.shape)
        mask = windows.inputs["input_mask"].numpy()[:, :24] > 0
        logits[:, :, :24] = np.where(mask, values, 99)
        found.append(
            squad_answers.choose(windows, *logits, tf.constant(passages))
        )
    for short, long in zip(
        tf.nest.flatten(found[0]), tf.nest.flatten(found[1]), strict=True
    ):
        np.testing.assert_array_equal(short, long)


@pytest.mark.parametrize("version_2_with_negative", [False, True])
def test_the_answer_is_empty_if_none_is_possible(
    squad_tokenizer, version_2_with_negative
):
    windows = planted.make_windows(
        squad_tokenizer, ["who ?", "who ?"], ["", PASSAGE], 32
    )
    logits = planted.logits(2, 32)
    found = squad_answers.choose(
        windows,
        *logits,
        tf.constant(["", PASSAGE]),
        version_2_with_negative=version_2_with_negative,
    )
    assert texts_of(found, 0) == [""]
    assert found.probabilities[0, 0] == 1
    assert squad_answers.decide(found, 0.0)[0] == b""
    assert found.null_odds[0] == 0


def test_the_null_score_is_the_minimum_over_windows(squad_tokenizer):
    windows = planted.make_windows(
        squad_tokenizer, ["who ?"], [PASSAGE], 13, stride=5
    )
    start, end = np.zeros((2, *windows.in_passage.shape), np.float32)
    start[:, 0] = end[:, 0] = [5, 3, 4]
    start[0, windows.offset[0] + 4] = end[0, windows.offset[0] + 4] = 2.5
    found = squad_answers.choose(
        windows,
        start,
        end,
        tf.constant([PASSAGE]),
        version_2_with_negative=True,
    )
    assert texts_of(found, 0)[:2] == ["", "ZÜRICH"]
    assert found.null_odds[0] == 3 + 3 - 2.5 - 2.5
    assert squad_answers.decide(found, 1.0)[0].numpy().decode() == "ZÜRICH"
    assert squad_answers.decide(found, 0.999)[0] == b""


def test_the_threshold_is_float64(squad_tokenizer):
    windows = planted.make_windows(squad_tokenizer, ["who ?"], [PASSAGE], 32)
    found = squad_answers.choose(
        windows, *planted.logits(1, 32), tf.constant([PASSAGE])
    )
    found = found._replace(null_odds=tf.constant([0.1], tf.float64))
    assert squad_answers.decide(found, 0.1)[0] == found.best[0]


def test_invalid_bytes_are_replaced_before_characters_are_counted(
    squad_tokenizer,
):
    passage = b"the \xff\xc3 painter lived"
    windows = planted.make_windows(squad_tokenizer, ["who ?"], [passage], 16)
    logits = peaks(windows, (1, 9, 9))
    found = squad_answers.choose(windows, *logits, tf.constant([passage]))
    assert texts_of(found, 0)[0] == "painter"
    start, end = int(found.spans.start[0, 0]), int(found.spans.end[0, 0])
    assert passage.decode("utf-8", "replace")[start:end] == "painter"
