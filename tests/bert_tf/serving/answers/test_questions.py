"""Question answering: windows, character positions, no answer, settings."""

import numpy as np
import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH, ROUNDING, strings

from bert_tf.serving.answers import questions
from tfrecords.tasks import question_windows

# The second passage is longer than several windows.
QUESTIONS = ["Who sat?", "Where was the captain?", "What is old?"]
PASSAGES = [
    "The Cat sat.",
    "The old captain sat on a warm stone. " * 5 + "Naïve ships, the sea.",
    "It was told,\n\tby \\the\n\nOLD captain.",
]
V2 = ("--version_2_with_negative", "--null_score_diff_threshold=0.25")


def candidates(model, words, question, passage, max_answer_length=30):
    """Returns every answer with score and position, and the lowest [CLS] score.

    Runs the Keras model on one window at a time and loops over all spans.
    """
    windows = question_windows.make_windows(
        *question_windows.tokenize(
            words, tf.constant([question]), tf.constant([passage])
        ),
        max_seq_length=MAX_SEQ_LENGTH,
        doc_stride=4,
        max_query_length=4,
        cls_id=words.cls_id,
        sep_id=words.sep_id,
    )
    found, null = {}, []
    for window in range(windows.question.shape[0]):
        batch = {n: x[window : window + 1] for n, x in windows.inputs.items()}
        logits = {n: x.numpy()[0] for n, x in model(batch).items()}
        start, end = logits["start_logits"], logits["end_logits"]
        null.append(start[0] + end[0])
        in_passage = windows.in_passage.numpy()[window]
        for first in np.flatnonzero(windows.has_max_context[window]):
            for last in range(first, first + max_answer_length):
                if last < MAX_SEQ_LENGTH and in_passage[last]:
                    position = (
                        int(windows.starts[window, first]),
                        int(windows.ends[window, last]),
                    )
                    score = float(start[first]) + float(end[last])
                    text = passage[slice(*position)]
                    if score > found.get(text, (-np.inf,))[0]:
                        found[text] = (score, position)
    return found, min(null)


def test_the_best_span_of_all_windows_is_the_answer(exported, words):
    model, _, loaded = exported("question_answering")
    answers = loaded.signatures["serving_default"](
        question=tf.constant(QUESTIONS), context=tf.constant(PASSAGES)
    )
    answers = {name: value.numpy() for name, value in answers.items()}
    assert answers["nbest_answers"].shape == (3, 16)
    for row, pair in enumerate(zip(QUESTIONS, PASSAGES, strict=True)):
        found, _ = candidates(model, words, *pair)
        text, (score, (start, end)) = max(
            found.items(), key=lambda item: item[1][0]
        )
        assert answers["answer"][row].decode() == text
        assert (answers["start"][row], answers["end"][row]) == (start, end)
        np.testing.assert_allclose(
            answers["nbest_start_logits"][row, 0]
            + answers["nbest_end_logits"][row, 0],
            score,
            **ROUNDING,
        )
        np.testing.assert_allclose(answers["nbest_probabilities"][row].sum(), 1)
        assert (
            answers["probability"][row]
            == (answers["nbest_probabilities"][row, 0])
        )
    assert "null_odds" not in answers


def test_positions_are_in_characters_of_the_passage(exported):
    loaded = exported("question_answering").loaded
    answers = {
        n: x.numpy() for n, x in loaded.text(QUESTIONS, PASSAGES).items()
    }
    assert (answers["num_answers"] == [10, 16, 16]).all()
    for row, passage in enumerate(PASSAGES):
        for number, (text, start, end) in enumerate(
            zip(
                answers["nbest_answers"][row],
                answers["nbest_starts"][row],
                answers["nbest_ends"][row],
                strict=True,
            )
        ):
            if number < answers["num_answers"][row]:
                assert text.decode() == passage[start:end] != ""
            else:  # A short passage has fewer answers.
                assert (text, start, end) == (b"", -1, -1)


@pytest.mark.slow
def test_no_answer_is_returned_if_its_score_is_higher(exported, words):
    model, _, loaded = exported("question_answering", *V2)
    answers = loaded.text(QUESTIONS, PASSAGES)
    for row, pair in enumerate(zip(QUESTIONS, PASSAGES, strict=True)):
        found, null = candidates(model, words, *pair)
        best = max(score for score, _ in found.values())
        odds = answers["null_odds"].numpy()[row]
        np.testing.assert_allclose(odds, null - best, **ROUNDING)
        assert (answers["answer"].numpy()[row] == b"") == (odds > 0.25)
        assert (answers["start"].numpy()[row] == -1) == (odds > 0.25)
        assert (
            answers["probability"].numpy()[row]
            in (answers["nbest_probabilities"].numpy()[row])
        )


@pytest.mark.parametrize(
    "flags", [(), pytest.param(V2, marks=pytest.mark.slow)]
)
def test_empty_questions_and_passages_have_no_answer(exported, flags):
    loaded = exported("question_answering", *flags).loaded
    answers = loaded.text(
        ["Who sat?", "", "\u200b", "Who sat?"],
        ["", "The cat sat.", "The cat sat.", " "],
    )
    assert strings(answers["answer"]) == [""] * 4
    assert answers["start"].numpy().tolist() == [-1] * 4
    assert answers["end"].numpy().tolist() == [-1] * 4
    for name, value in answers.items():
        assert (
            name.startswith(("answer", "nbest_answers"))
            or np.isfinite(value).all()
        ), name


def test_a_long_question_is_truncated(exported):
    loaded = exported("question_answering").loaded
    long = loaded.text(["the old captain sat on a stone " * 9], PASSAGES[:1])
    cut = loaded.text(["the old captain sat"], PASSAGES[:1])
    assert strings(long["answer"]) == strings(cut["answer"])
    np.testing.assert_allclose(
        long["nbest_probabilities"], cut["nbest_probabilities"], **ROUNDING
    )


def test_questions_without_a_passage_are_refused(exported):
    loaded = exported("question_answering").loaded
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="the same number of strings"
    ):
        loaded.text(QUESTIONS, PASSAGES[:1])


def test_flags_override_the_settings_of_the_model():
    found = questions.resolve_settings(
        128,
        {"doc_stride": None, "n_best_size": 5, "max_seq_length": None},
        {
            "doc_stride": 64,
            "n_best_size": 7,
            "max_seq_length": 384,
            "version_2_with_negative": True,
            "null_score_diff_threshold": -1.5,
            "task": "spans",
        },
    )
    assert found == questions.Settings(
        max_seq_length=128,
        doc_stride=64,
        n_best_size=5,
        version_2_with_negative=True,
        null_score_diff_threshold=-1.5,
    )


def test_a_max_query_length_without_room_for_a_passage_is_refused():
    message = "max_query_length={} leaves .* in max_seq_length=16"
    for settings, length in (({}, 64), ({"max_query_length": 13}, 13)):
        with pytest.raises(ValueError, match=message.format(length)):
            questions.resolve_settings(16, settings, {})
    found = questions.resolve_settings(16, {"max_query_length": 12})
    assert found.max_query_length == 12
