"""Facts of what texts become before the model reads them."""

import pytest
import tensorflow as tf

from run_scripts import text_signatures
from tfrecords import schema, tokenizer


@pytest.fixture
def words(tiny_vocab_file):
    return tokenizer.BertTokenizer(tiny_vocab_file)


@pytest.fixture
def keeping(tiny_vocab_file):
    return tokenizer.BertTokenizer(tiny_vocab_file, kept_tokens=["[MASK]"])


def test_the_mask_is_kept_as_one_token(words, keeping):
    batch = text_signatures.MaskedTexts(keeping, 12)(
        tf.constant(["[MASK] the[MASK][MASK]", "[mask]", ""])
    )
    the = words(["the"]).values.numpy()[0]
    mask, cls, sep = words.mask_id, words.cls_id, words.sep_id
    ids = batch["input_word_ids"].numpy()
    assert ids[0, :6].tolist() == [cls, mask, the, mask, mask, sep]
    assert mask not in ids[1]  # Only capitals are the token.
    assert ids[2, :2].tolist() == [cls, sep]
    assert batch["masked_lm_positions"].numpy().tolist() == [
        [1, 3, 4], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
    assert batch["masked_lm_weights"].numpy().sum(1).tolist() == [3, 0, 0]


def test_a_tokenizer_must_keep_the_mask(words):
    with pytest.raises(ValueError, match=r"kept_tokens=\('\[MASK\]',\)"):
        text_signatures.MaskedTexts(words, 6)


def test_a_mask_beyond_the_length_is_cut_off(keeping):
    batch = text_signatures.MaskedTexts(keeping, 6)(
        tf.constant(["the cat sat on the [MASK]", "the [MASK]"])
    )
    assert batch["masked_lm_positions"].numpy().tolist() == [[0], [2]]
    assert batch["masked_lm_weights"].numpy().tolist() == [[0.0], [1.0]]


def test_padding_that_no_row_needs_is_left_out(words):
    batch = text_signatures.Pairs(words, 64)(
        tf.constant(["the cat", "the"]), tf.constant(["", "sat"])
    )
    assert batch["input_word_ids"].shape == (2, 5)
    assert list(batch) == list(schema.ENCODER_INPUTS)
