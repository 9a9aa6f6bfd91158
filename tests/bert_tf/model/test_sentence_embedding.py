"""Vectors of texts equal those of NumPy, mode by mode and step by step."""

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_tf.model import sentence_embedding
from bert_tf.model.sentence_embedding import Dense, Normalize, SentenceEmbedding

LENGTHS = [5, 2, 1]
HIDDEN = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
MASK = (np.arange(5) < np.array(LENGTHS)[:, None]).astype(np.int32)
ROUNDING = dict(rtol=1e-6, atol=1e-6)


def oracle(mode, tokens):
    """The vector of one text, from its tokens alone, [length, D]."""
    position = np.arange(1, len(tokens) + 1)[:, None]
    return {
        "cls": tokens[0],
        "max": tokens.max(0),
        "mean": tokens.mean(0),
        "mean_sqrt_len_tokens": tokens.sum(0) / np.sqrt(len(tokens)),
        "weightedmean": (tokens * position).sum(0) / position.sum(),
        "lasttoken": tokens[-1],
    }[mode]


@pytest.mark.parametrize("mode", sentence_embedding.POOLING_MODES)
def test_padding_is_left_out_of_every_mode(mode):
    vectors = SentenceEmbedding((mode,))(tf.constant(HIDDEN), MASK)
    expected = [
        oracle(mode, row[:length])
        for row, length in zip(HIDDEN, LENGTHS, strict=True)
    ]
    np.testing.assert_allclose(vectors, expected, **ROUNDING)


def test_modes_are_concatenated_and_steps_follow_in_order():
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(8, 3)).astype(np.float32)
    bias = rng.normal(size=3).astype(np.float32)
    narrow = rng.normal(size=(3, 2)).astype(np.float32)
    steps = (
        Dense(kernel, bias, "tanh"),
        Normalize(),
        Dense(narrow, None, "relu"),
    )
    embedding = SentenceEmbedding(("lasttoken", "cls"), steps)
    vectors = embedding(tf.constant(HIDDEN), MASK)
    ends = HIDDEN[np.arange(3), np.array(LENGTHS) - 1]
    x = np.tanh(np.concatenate([ends, HIDDEN[:, 0]], 1) @ kernel + bias)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, np.maximum(x @ narrow, 0), **ROUNDING)
    assert str(embedding) == "lasttoken+cls, Dense, Normalize, Dense"
    embedding.check_width(4)
    with pytest.raises(ValueError, match="of 8 inputs after 10 numbers"):
        embedding.check_width(5)
    again = sentence_embedding.from_settings(
        embedding.settings(), embedding.tensors(), "folder"
    )
    np.testing.assert_array_equal(again(tf.constant(HIDDEN), MASK), vectors)
    settings = embedding.settings()
    settings["steps"][0]["use_bias"] = False  # Its tensor is there.
    with pytest.raises(ValueError, match="use_bias in its model.json is wrong"):
        sentence_embedding.from_settings(
            settings, embedding.tensors(), "folder"
        )


def test_a_vector_of_zeros_is_not_divided_by_zero():
    vectors = SentenceEmbedding(("cls",), (Normalize(),))(HIDDEN * 0, MASK)
    np.testing.assert_array_equal(vectors, np.zeros((3, 4)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": []}, "pooling '' is not one of cls, max"),
        ({"pooling": ["median"]}, "pooling 'median' is not one of cls, max"),
        ({"steps": [{"type": "LayerNorm"}]}, "step 0 .* 'LayerNorm'"),
        (
            {"steps": [{"type": "Dense", "activation": "swish"}]},
            "step 0 .* 'swish'.*activation of linear, tanh",
        ),
        ({"steps": [{"type": "Dense"}]}, "step 0 .*an activation of linear"),
        (
            {"steps": [{"type": "Dense", "activation": "tanh"}]},
            "folder lacks sentence_embedding/0/kernel",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    settings = {"pooling": ["mean"], "steps": []} | settings
    with pytest.raises(ValueError, match=message):
        sentence_embedding.from_settings(settings, {}, "folder")


def test_a_transposed_kernel_is_saved_as_it_is():
    kernel = np.arange(6, dtype=np.float32).reshape(2, 3).T
    dense = Dense(kernel, None, "tanh")
    content = safetensors.numpy.save(SentenceEmbedding((), (dense,)).tensors())
    (found,) = safetensors.numpy.load(content).values()
    np.testing.assert_array_equal(found, kernel)
