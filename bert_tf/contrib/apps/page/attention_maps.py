"""Text and an encoder -> HTML that draws the attention of each head.

Images have a pixel for each pair of tokens, and labels are text of the page:
so tokens of any script are drawn with the fonts of the browser.

Shapes: L layers, A heads, S tokens.
"""

import base64
import html
import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.model.encoder import BertEncoder
from bert_tf.serving import batches
from tfrecords.options import quoted
from tfrecords.text.tokenizer import BertTokenizer

# More labels could not be read.
MAX_TOKENS = 96
_COLORS = "Blues"
_GRID = 500  # Pixels of a row of the grid, about.
_LETTER = 7.5  # Pixels of a letter of a label, about.


class Attention(NamedTuple):
    """Attention weights of one text or pair.

    Attributes:
      tokens: S of them, with [CLS] and [SEP].
      weights: [L, A, S, S] float32: query position, key position.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray


def compute(
    encoder: BertEncoder,
    tokenizer: BertTokenizer,
    max_seq_length: int,
    text_a: str,
    text_b: str = "",
) -> Attention:
    """Returns the attention of all heads; texts are cut to `max_seq_length`."""
    batch = batches.pack_pairs(
        tokenizer, max_seq_length, tf.constant([text_a]), tf.constant([text_b])
    )
    outputs = encoder(batch, training=False, return_attention=True)
    ids = batch["input_word_ids"].numpy()[0]
    return Attention(
        tuple(tokenizer.vocab[i] for i in ids),
        np.concatenate(outputs.attention),
    )


def _image(weights: np.ndarray) -> str:
    """Returns the address of an image of [S, S], one pixel for each weight.

    Its colors are linear in the square root: most weights are near 0.
    """
    from matplotlib import image  # Of the extra "explore", as the page.

    file = io.BytesIO()
    image.imsave(file, np.sqrt(weights), cmap=_COLORS, vmin=0, vmax=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def draw_all(attention: Attention) -> str:
    """Returns a grid with a row for each layer and a column for each head."""
    layers, heads, size = attention.weights.shape[:3]
    # Pixels of a small image stay sharp; those of a large one are averaged.
    rendering = "pixelated" if size * heads < _GRID else "auto"
    cells = ["<div></div>"]
    cells += [f'<div style="text-align:center">{a}</div>' for a in range(heads)]
    for layer in range(layers):
        cells.append(f'<div style="align-self:center">{layer}</div>')
        for head in range(heads):
            name = f"layer {layer}, head {head}"
            cells.append(
                f'<img alt="{name}" title="{name}" style="width:100%;'
                f'image-rendering:{rendering};border:1px solid #ccc" '
                f'src="{_image(attention.weights[layer, head])}">'
            )
    return (
        '<div style="background:#fff;color:#111;font-size:12px;padding:8px">'
        "<p>Rows are layers, columns are heads. In each, a row is a token that "
        "attends to the columns: the darker, the more.</p>"
        '<div style="display:grid;gap:4px;'
        f"grid-template-columns:1.5em repeat({heads},minmax(20px,150px))"
        f'">{"".join(cells)}</div></div>'
    )


def draw_head(attention: Attention, layer: int, head: int) -> str:
    """Returns one head with its tokens: each row is a query and adds up to 1.

    Raises:
      ValueError: if there is no such layer or head.
    """
    layers, heads = attention.weights.shape[:2]
    are_integers = type(layer) is type(head) is int
    if not (are_integers and 0 <= layer < layers and 0 <= head < heads):
        raise ValueError(
            f"layer {quoted(layer)}, head {quoted(head)}: the model has layers "
            f"0 to {layers - 1} and heads 0 to {heads - 1}."
        )
    tokens, size = attention.tokens, len(attention.tokens)
    cell = max(11, min(26, 560 // size))  # Pixels.
    left = _LETTER * max(map(len, tokens)) + 10
    total = left + cell * size + 2
    return (
        '<svg class="result" role="img" '
        f'aria-label="attention of layer {layer}, head {head}" '
        f'viewBox="0 0 {total} {total}" width="{total}" '
        'style="max-width:100%;background:#fff" font-size="'
        f'{min(13, cell)}" font-family="sans-serif" fill="#111">'
        f'<image x="{left}" y="{left}" width="{cell * size}" '
        f'height="{cell * size}" style="image-rendering:pixelated" '
        f'href="{_image(attention.weights[layer, head])}"/>'
        f'<rect x="{left}" y="{left}" width="{cell * size}" '
        f'height="{cell * size}" fill="none" stroke="#ccc"/>'
        f"{_labels(tokens, left, cell)}</svg>"
    )


def _labels(tokens: Sequence[str], left: float, cell: int) -> str:
    """Returns the tokens, to the left of the rows and above the columns."""
    parts = []
    for i, token in enumerate(tokens):
        middle, edge = left + cell * (i + 0.5), left - 5
        place = 'dominant-baseline="central"'
        text = f"{place}>{html.escape(token)}</text>"
        parts += [
            f'<text x="{edge}" y="{middle}" text-anchor="end" {text}',
            f'<text transform="translate({middle},{edge}) rotate(-90)" {text}',
        ]
    return "".join(parts)
