"""Vectors of words: first WordPieces, windows, layers, both signatures."""

import exports
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from tfrecords.text import tokenizer

TEXTS = ["The cat (old) sat.", "", "the old captain sat on a stone, " * 9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "model"
    model = exports.make_model("tagging", num_hidden_layers=2)
    exports.save_model(model, "tagging", path)
    return path


def hidden_of(model, row, layers=(-1,)):
    """Returns the Keras model's vectors of the words of one short row."""
    words = tokenizer.BertTokenizer(exports.VOCAB_FILE)
    pieces = [words([word]).values.numpy() for word in row]
    ids = np.concatenate([[words.cls_id], *pieces, [words.sep_id]])
    assert len(ids) <= exports.MAX_SEQ_LENGTH
    outputs = model.encoder(
        {
            "input_word_ids": ids[None].astype(np.int32),
            "input_mask": np.ones((1, len(ids)), np.int32),
        }
    ).encoder_outputs
    firsts = 1 + np.cumsum([0] + [len(piece) for piece in pieces[:-1]])
    return np.concatenate([outputs[i][0] for i in layers], -1)[firsts]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("layers", [None, ("-2", "-1")])
def test_a_word_has_the_vector_of_its_first_piece(folder, layers):
    model, _ = bert_tf.load(folder)
    find = bert_tf.Predictor(model, kind="token_vectors", layers=layers)
    found, nothing, long = find(TEXTS)
    words = ["The", "cat", "(", "old", ")", "sat", "."]
    assert [x.word for x in found.words] == words
    assert [TEXTS[0][x.start : x.end] for x in found.words] == words
    expected = hidden_of(model, words, (-1,) if layers is None else (-2, -1))
    np.testing.assert_allclose(found.vectors, expected, **exports.ROUNDING)
    assert nothing.words == () and nothing.vectors.shape == (
        0,
        found[1].shape[1],
    )
    # More than a window.
    assert len(long.words) == len(long.vectors) == 8 * 9
    given = find([words])[0]
    np.testing.assert_allclose(given.vectors, found.vectors, **exports.ROUNDING)
    assert given.words[1] == ("cat", 1, 2)
    with_gap = find.signatures["words"](tf.constant([["the", "", "cat"]]))
    assert with_gap["vectors"].numpy()[0].any(-1).tolist() == [1, 0, 1]


def test_layers_that_do_not_exist_are_refused(folder):
    with pytest.raises(ValueError, match="layer"):
        bert_tf.Predictor(folder, kind="token_vectors", layers=("7",))
    with pytest.raises(ValueError, match="pooling=max is for kind=sent"):
        bert_tf.Predictor(folder, kind="token_vectors", pooling="max")
