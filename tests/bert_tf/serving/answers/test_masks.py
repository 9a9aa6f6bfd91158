"""Texts with [MASK], and the candidates for each [MASK]."""

import numpy as np
import pytest
import tensorflow as tf
from exports import ROUNDING, strings

from bert_tf.serving import kinds
from bert_tf.serving.answers.masks import FillMask
from tfrecords.text import tokenizer

MASKED = ["the [MASK] sat on the [MASK].", "no mask", "[MASK]", ""]


@pytest.fixture
def keeping(tiny_vocab_file):
    return tokenizer.BertTokenizer(tiny_vocab_file, kept_tokens=["[MASK]"])


def encode(words, length, texts):
    answers = FillMask(None, words, length, {}, kinds.AnswerOptions())
    return answers.encode(tf.constant(texts))


def test_the_mask_is_kept_as_one_token(words, keeping):
    texts = ["[MASK] the[MASK][MASK]", "[mask]", ""]
    batch = encode(keeping, 12, texts)
    the = words(["the"]).values.numpy()[0]
    mask, cls, sep = words.mask_id, words.cls_id, words.sep_id
    ids = batch["input_word_ids"].numpy()
    assert ids[0, :6].tolist() == [cls, mask, the, mask, mask, sep]
    assert mask not in ids[1]  # [MASK] is case-sensitive.
    assert ids[2, :2].tolist() == [cls, sep]
    assert batch["masked_lm_positions"].numpy().tolist() == [
        [1, 3, 4], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
    assert batch["masked_lm_weights"].numpy().sum(1).tolist() == [3, 0, 0]


def test_a_tokenizer_must_keep_the_mask(words):
    with pytest.raises(ValueError, match=r"kept_tokens=\('\[MASK\]',\)"):
        encode(words, 6, ["the"])


def test_a_mask_beyond_the_length_is_truncated(keeping):
    batch = encode(keeping, 6, ["the cat sat on the [MASK]", "the [MASK]"])
    assert batch["masked_lm_positions"].numpy().tolist() == [[0], [2]]
    assert batch["masked_lm_weights"].numpy().tolist() == [[0.0], [1.0]]


def test_candidates_equal_those_of_the_keras_model(exported, words):
    model, _, loaded = exported("fill_mask")
    answers = loaded.text(MASKED)
    assert answers["tokens"].shape == (4, 2, 3)
    the, sat, on, dot = words(["the sat on ."]).values.numpy()
    mask = words.mask_id
    batch = {
        "input_word_ids": [
            [words.cls_id, the, mask, sat, on, the, mask, dot, words.sep_id]
        ],
        "input_mask": [[1] * 9],
        "input_type_ids": [[0] * 9],
        "masked_lm_positions": [[2, 6]],
    }
    batch = {name: tf.constant(rows) for name, rows in batch.items()}
    expected = tf.nn.softmax(model(batch)["masked_lm_logits"]).numpy()[0]
    for i in range(2):
        best = expected[i].argsort()[::-1][:3]
        np.testing.assert_allclose(
            answers["probabilities"][0, i], expected[i][best], **ROUNDING
        )
        tokens = [words.vocab[j] for j in best]
        assert strings(answers["tokens"][0, i]) == tokens


def test_texts_with_fewer_masks_are_padded_with_empty_tokens(exported):
    answers = exported("fill_mask").loaded.text(MASKED)
    tokens = answers["tokens"].numpy()
    assert (tokens != b"")[..., 0].tolist() == [
        [True, True], [False, False], [True, False], [False, False],
    ]  # fmt: skip
    assert (answers["probabilities"].numpy()[tokens == b""] == 0.0).all()
