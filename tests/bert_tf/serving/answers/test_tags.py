"""Tagging: windows, padding, character positions, both signatures."""

import numpy as np
import tensorflow as tf
from exports import LABELS, MAX_SEQ_LENGTH, ROUNDING, strings

from tfrecords.text import raw_words

# The second is longer than several windows.
TEXTS = ["The cat (old) sat.", "the old captain sat on a stone, " * 9, ""]


def expected_logits(model, words, row):
    """Returns the Keras model's logits for the words of one short row."""
    pieces = [words([word]).values.numpy() for word in row]
    ids = np.concatenate([[words.cls_id], *pieces, [words.sep_id]])
    assert len(ids) <= MAX_SEQ_LENGTH
    batch = {
        "input_word_ids": ids[np.newaxis].astype(np.int32),
        "input_mask": np.ones((1, len(ids)), np.int32),
        "input_type_ids": np.zeros((1, len(ids)), np.int32),
    }
    firsts = 1 + np.cumsum([0] + [len(piece) for piece in pieces[:-1]])
    return model(batch)["logits"].numpy()[0][firsts]


def test_tags_equal_those_of_the_keras_model(exported, words):
    model, _, loaded = exported("tagging")
    row = ["The", "cat", "(", "old", ")", "sat", "."]
    answers = loaded.signatures["serving_default"](text=tf.constant(TEXTS[:1]))
    logits = expected_logits(model, words, row)
    assert strings(answers["words"]) == row
    assert strings(answers["tags"]) == [LABELS[i] for i in logits.argmax(1)]
    np.testing.assert_allclose(
        answers["probabilities"][0],
        tf.nn.softmax(logits).numpy().max(1),
        **ROUNDING,
    )
    starts, ends = answers["starts"].numpy()[0], answers["ends"].numpy()[0]
    assert [
        TEXTS[0][start:end] for start, end in zip(starts, ends, strict=True)
    ] == row


def test_every_word_of_a_long_text_has_a_tag(exported):
    loaded = exported("tagging").loaded
    answers = {name: x.numpy() for name, x in loaded.text(TEXTS).items()}
    expected = raw_words.split(tf.constant(TEXTS)).words.row_lengths().numpy()
    assert expected.tolist() == [7, 72, 0]
    for name, padding in (("words", b""), ("tags", b""), ("starts", -1)):
        assert answers[name].shape == (3, 72)
        is_word = answers[name] != padding
        assert is_word.sum(1).tolist() == expected.tolist()
    assert (answers["probabilities"][0, 7:] == 0.0).all()
    assert len(set(answers["tags"][1])) > 1


def test_words_and_their_text_have_the_same_tags(exported):
    loaded = exported("tagging").loaded
    of_text = loaded.text(TEXTS)
    of_words = loaded.words(of_text["words"])
    np.testing.assert_array_equal(of_words["tags"], of_text["tags"])
    np.testing.assert_allclose(
        of_words["probabilities"], of_text["probabilities"], **ROUNDING
    )


def test_empty_words_are_ignored(exported):
    loaded = exported("tagging").loaded
    with_gaps = loaded.words([["the", "", "cat", "", "sat"], [""] * 5])
    without = loaded.words([["the", "cat", "sat"]])
    tags = with_gaps["tags"].numpy()
    assert tags[0, [0, 2, 4]].tolist() == without["tags"].numpy()[0].tolist()
    assert tags[0, [1, 3]].tolist() == [b"", b""]
    assert set(tags[1]) == {b""}
    np.testing.assert_allclose(
        with_gaps["probabilities"].numpy()[0, [0, 2, 4]],
        without["probabilities"][0],
        **ROUNDING,
    )
