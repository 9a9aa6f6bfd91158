"""Drawn attention: its numbers, tokens and images."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib import image

from bert_tf.contrib.apps.page import attention_maps


@pytest.fixture
def attention():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), (2, 3, 4)).astype(np.float32)
    return attention_maps.Attention(("[CLS]", "<b>", "猫", "[SEP]"), weights)


def pictures(text):
    """Returns each image [S, S, 4] float32."""
    found = re.findall(r'"data:image/png;base64,([^"]*)"', text)
    return [image.imread(io.BytesIO(base64.b64decode(x))) for x in found]


def darkness(picture):
    return 3 - picture[..., :3].sum(-1)


def test_all_heads_are_drawn_in_order(attention):
    text = attention_maps.draw_all(attention)
    names = re.findall('alt="([^"]*)"', text)
    assert names == [f"layer {i}, head {j}" for i in range(2) for j in range(3)]
    heads = attention.weights.reshape(6, 4, 4)
    for picture, weights in zip(pictures(text), heads, strict=True):
        assert picture.shape == (4, 4, 4)
        # The darker, the larger: the same order, but for equal colors.
        order = np.argsort(weights, axis=None)
        assert (np.diff(darkness(picture).ravel()[order]) > -0.02).all()


def test_a_head_is_drawn_with_its_tokens(attention):
    text = attention_maps.draw_head(attention, 1, 2)
    labels = re.findall("<text[^>]*>([^<]*)</text>", text)
    assert labels == [
        x for y in ("[CLS]", "&lt;b&gt;", "猫", "[SEP]") for x in (y, y)
    ]
    (picture,) = pictures(text)
    expected = pictures(attention_maps.draw_all(attention))[5]
    np.testing.assert_array_equal(picture, expected)
    assert "layer 1, head 2" in text


@pytest.mark.parametrize(("layer", "head"), [(2, 0), (0, 3), (-1, 0)])
def test_a_head_that_does_not_exist_is_refused(attention, layer, head):
    with pytest.raises(ValueError, match="layers 0 to 1 and heads 0 to 2"):
        attention_maps.draw_head(attention, layer, head)
