"""Sentence embeddings: pooling, layers, padding."""

import c_loader
import numpy as np
import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH, ROUNDING, VOCAB_FILE

from tfrecords.text import segments, tokenizer

TEXTS = ["The cat sat on the warm stone.", "", "old bread " * 40]


@pytest.fixture(scope="module")
def batch():
    words = tokenizer.BertTokenizer(VOCAB_FILE)
    return segments.pack(
        words(tf.constant(TEXTS)),
        None,
        MAX_SEQ_LENGTH,
        words.cls_id,
        words.sep_id,
    )


@pytest.mark.slow
def test_mean_pooling_excludes_padding(exported, batch):
    model, path, loaded = exported("sentence_embedding")
    hidden = model.encoder(batch).sequence_output.numpy()
    lengths = batch["input_mask"].numpy().sum(1)
    assert lengths.tolist() == [10, 2, MAX_SEQ_LENGTH]
    expected = [
        row[:length].mean(0)
        for row, length in zip(hidden, lengths, strict=True)
    ]
    (answers,) = loaded.text(TEXTS).values()
    np.testing.assert_allclose(answers, expected, **ROUNDING)


@pytest.mark.slow  # Needs another export.
def test_layers_are_concatenated_in_the_given_order(exported, batch):
    model, _, loaded = exported(
        "sentence_embedding", "--pooling=cls", "--layers=-2,1"
    )
    first, second = model.encoder(batch).encoder_outputs
    expected = np.concatenate([first[:, 0], second[:, 0]], axis=1)
    answers = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(answers["embedding"], expected, **ROUNDING)


@pytest.mark.slow
def test_an_embedding_does_not_depend_on_other_rows(exported):
    loaded = exported("sentence_embedding").loaded
    together = loaded.text(TEXTS)["embedding"].numpy()
    for text, expected in zip(TEXTS, together, strict=True):
        alone = loaded.text([text])["embedding"].numpy()[0]
        np.testing.assert_allclose(alone, expected, **ROUNDING)
    assert loaded.text([])["embedding"].shape == (0, 16)


@pytest.mark.slow
def test_the_c_loader_gives_the_same_embeddings(exported, c_program):
    _, path, loaded = exported("sentence_embedding")
    c_loader.check(c_program, path, {"text": TEXTS}, loaded.text(TEXTS))
