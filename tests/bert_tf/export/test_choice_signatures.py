"""Facts of contexts with endings: which rows they become, which is chosen."""

import c_loader
import numpy as np
import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH, ROUNDING, VOCAB_FILE, strings

from bert_tf.export import choice_signatures
from tfrecords.text import segments, tokenizer

CONTEXTS = ["The cat sat.", "old bread " * 40, "It rained."]
ENDINGS = [
    ["on the warm stone", "a ship", "the sea " * 40, "it was told"],
    ["it was told", "on the stone", "", ""],
    ["", "the cat", "", "a warm ship"],
]


@pytest.fixture(scope="module")
def words():
    return tokenizer.BertTokenizer(VOCAB_FILE)


def expected_logits(model, words, context, endings):
    """One row through the Keras model, all padding in place."""
    rows = segments.pack(
        words(tf.constant([context] * len(endings))),
        words(tf.constant(endings)),
        MAX_SEQ_LENGTH,
        words.cls_id,
        words.sep_id,
    )
    batch = {name: row[tf.newaxis] for name, row in rows.items()}
    return model(batch)["logits"].numpy()[0]


def test_the_best_ending_is_that_of_the_keras_model(exported, words):
    model, _, loaded = exported("multiple_choice")
    answers = loaded.signatures["serving_default"](
        context=tf.constant(CONTEXTS), endings=tf.constant(ENDINGS)
    )
    answers = {name: value.numpy() for name, value in answers.items()}
    assert answers["choice"].dtype == np.int32
    for row, (context, endings) in enumerate(
        zip(CONTEXTS, ENDINGS, strict=True)
    ):
        there = [i for i, ending in enumerate(endings) if ending]
        logits = expected_logits(
            model, words, context, [endings[i] for i in there]
        )
        np.testing.assert_allclose(
            answers["logits"][row, there], logits, **ROUNDING
        )
        np.testing.assert_allclose(
            answers["probabilities"][row, there],
            tf.nn.softmax(logits),
            **ROUNDING,
        )
        best = there[logits.argmax()]
        assert answers["choice"][row] == best
        assert answers["ending"][row].decode() == endings[best]
        np.testing.assert_allclose(answers["probabilities"][row].sum(), 1.0)


def test_endings_that_are_not_there_are_never_chosen(exported):
    answers = exported("multiple_choice").loaded.text(CONTEXTS, ENDINGS)
    absent = np.array(ENDINGS) == ""
    assert (answers["probabilities"].numpy()[absent] == 0.0).all()
    assert (answers["logits"].numpy()[absent] == tf.float32.min).all()


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


def test_as_many_rows_of_endings_as_contexts_are_needed(exported):
    loaded = exported("multiple_choice").loaded
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="one row for each context"
    ):
        loaded.text(CONTEXTS, ENDINGS[:2])


def test_rows_are_only_of_endings_that_are_there(words):
    batch = choice_signatures.pack_choices(
        words, MAX_SEQ_LENGTH, tf.constant(CONTEXTS), tf.constant(ENDINGS)
    )
    assert batch["input_word_ids"].shape == (8, 1, MAX_SEQ_LENGTH)
    assert batch["indices"].numpy()[4:].tolist() == [
        [1, 0], [1, 1], [2, 1], [2, 3],
    ]  # fmt: skip


def test_the_loader_of_tensorflow_serving_chooses(exported, c_program):
    _, path, loaded = exported("multiple_choice")
    c_loader.check(
        c_program,
        path,
        {"context": CONTEXTS, "endings": ENDINGS},
        loaded.text(CONTEXTS, ENDINGS),
    )
