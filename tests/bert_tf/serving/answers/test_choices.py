"""Multiple choice: rows of contexts and endings, and the chosen ending."""

import numpy as np
import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH, ROUNDING, strings

from bert_tf.serving import kinds
from bert_tf.serving.answers.choices import MultipleChoice
from tfrecords.text import segments

CONTEXTS = ["The cat sat.", "old bread " * 40, "It rained."]
ENDINGS = [
    ["on the warm stone", "a ship", "the sea " * 40, "it was told"],
    ["it was told", "on the stone", "", ""],
    ["", "the cat", "", "a warm ship"],
]


def expected_logits(model, words, context, endings):
    """Returns the Keras model's logits for one context, with full padding."""
    rows = segments.pack(
        words(tf.constant([context] * len(endings))),
        words(tf.constant(endings)),
        MAX_SEQ_LENGTH,
        words.cls_id,
        words.sep_id,
    )
    batch = {name: row[tf.newaxis] for name, row in rows.items()}
    return model(batch)["logits"].numpy()[0]


@pytest.mark.slow
def test_answers_equal_those_of_the_keras_model(exported, words):
    model, _, loaded = exported("multiple_choice")
    answers = loaded.signatures["serving_default"](
        context=tf.constant(CONTEXTS), endings=tf.constant(ENDINGS)
    )
    answers = {name: value.numpy() for name, value in answers.items()}
    assert answers["choice"].dtype == np.int32
    for row, (context, endings) in enumerate(
        zip(CONTEXTS, ENDINGS, strict=True)
    ):
        present = [i for i, ending in enumerate(endings) if ending]
        logits = expected_logits(
            model, words, context, [endings[i] for i in present]
        )
        np.testing.assert_allclose(
            answers["logits"][row, present], logits, **ROUNDING
        )
        np.testing.assert_allclose(
            answers["probabilities"][row, present],
            tf.nn.softmax(logits),
            **ROUNDING,
        )
        best = present[logits.argmax()]
        assert answers["choice"][row] == best
        assert answers["ending"][row].decode() == endings[best]
        np.testing.assert_allclose(answers["probabilities"][row].sum(), 1.0)


@pytest.mark.slow
def test_missing_endings_have_zero_probability(exported):
    answers = exported("multiple_choice").loaded.text(CONTEXTS, ENDINGS)
    missing = np.array(ENDINGS) == ""
    assert (answers["probabilities"].numpy()[missing] == 0.0).all()
    assert (answers["logits"].numpy()[missing] == tf.float32.min).all()


@pytest.mark.slow
def test_a_context_without_endings_has_no_choice(exported):
    loaded = exported("multiple_choice").loaded
    for endings in ([["", ""]], tf.zeros([1, 0], tf.string)):
        answers = loaded.text(["The cat sat."], endings)
        assert answers["choice"].numpy().tolist() == [-1]
        assert strings(answers["ending"]) == [""]
        assert not answers["probabilities"].numpy().any()
    none = loaded.text([], tf.zeros([0, 4], tf.string))
    assert none["choice"].shape == (0,)
    assert none["logits"].shape == (0, 4)


@pytest.mark.slow
def test_endings_without_a_context_are_refused(exported):
    loaded = exported("multiple_choice").loaded
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="one row for each context"
    ):
        loaded.text(CONTEXTS, ENDINGS[:2])


def test_missing_endings_have_no_row(words):
    answers = MultipleChoice(
        None, words, MAX_SEQ_LENGTH, {}, kinds.AnswerOptions()
    )
    batch = answers.encode(tf.constant(CONTEXTS), tf.constant(ENDINGS))
    assert batch["input_word_ids"].shape == (8, 1, MAX_SEQ_LENGTH)
    assert batch["indices"].numpy()[4:].tolist() == [
        [1, 0], [1, 1], [2, 1], [2, 3],
    ]  # fmt: skip
