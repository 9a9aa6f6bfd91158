"""Texts and an encoder -> HTML file of attention: heat maps, words on hover.

The file loads nothing from elsewhere. A weight is a byte, in percent.

Shapes: L layers, A heads, S tokens.
"""

import base64
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.model.encoder import BertEncoder
from bert_tf.serving import batches
from tfrecords.text.tokenizer import BertTokenizer

MAX_TOKENS = 128
_MAX_WEIGHTS = 20_000_000  # In a file; BERT-base has 2.4 million in a text.


class Attention(NamedTuple):
    """Attention weights of one text or pair.

    Attributes:
      line: of the input, from 1.
      tokens: S of them, with [CLS] and [SEP].
      weights: [L, A, S, S] float32: query position, key position.
      num_tokens: before the text was cut.
    """

    line: int
    tokens: tuple[str, ...]
    weights: np.ndarray
    num_tokens: int


def compute(
    encoder: BertEncoder,
    tokenizer: BertTokenizer,
    max_seq_length: int,
    texts: Sequence[str],
    line: int = 1,
) -> Attention:
    """Returns the attention of a text or pair, cut to `max_seq_length`."""
    texts = [texts[0], *filter(str.strip, texts[1:])]
    pair = [tf.constant([text]) for text in (*texts, "")[:2]]
    length = min(MAX_TOKENS, max_seq_length)
    batch = batches.pack_pairs(tokenizer, length, *pair)
    outputs = encoder(batch, training=False, return_attention=True)
    lengths = tokenizer(texts).row_lengths().numpy()
    return Attention(
        line,
        tuple(tokenizer.vocab[i] for i in batch["input_word_ids"].numpy()[0]),
        np.concatenate(outputs.attention),
        int(lengths.sum()) + len(texts) + 1,
    )


def fits(texts: Sequence[Attention]) -> bool:
    """Returns whether a file of this size is still opened by a browser."""
    return sum(text.weights.size for text in texts) < _MAX_WEIGHTS


def draw(texts: Sequence[Attention], source: str) -> str:
    """Returns the page; `source` says which model it is of."""
    data = {"source": source, "texts": []}
    for line, tokens, weights, num_tokens in texts:
        layers, heads, *_ = weights.shape
        percent = np.rint(100 * weights).astype(np.uint8)
        text = {"line": line, "tokens": tokens, "count": num_tokens}
        text |= {"layers": layers, "heads": heads}
        text["weights"] = base64.b64encode(percent.tobytes()).decode()
        data["texts"].append(text)
    # No text of the input can end the element that it stands in.
    written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return _PAGE.replace("DATA", written, 1)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Attention</title>
<style>
body {font-family: sans-serif; max-width: 60em; margin: 1.5em auto;
  padding: 0 1em; background: #fff; color: #111; line-height: 1.4}
select {font: inherit; max-width: 100%}
#heads {display: grid; gap: 3px; align-items: center; margin: 1em 0}
#heads button {padding: 0; border: 1px solid #ccc; background: #fff;
  line-height: 0; cursor: pointer}
#heads button[aria-pressed=true] {outline: 2px solid #b85c00}
#heads canvas {width: 100%}
#heads span {font-size: 12px; text-align: center}
#words span {display: inline-block; padding: 1px 3px; margin: 1px;
  border-radius: 3px; cursor: pointer; overflow-wrap: anywhere}
#words .from {outline: 2px solid #b85c00}
#note, .note {color: #555; font-size: 90%}
#map {max-width: 100%}
</style>
</head>
<body>
<h1>Attention</h1>
<p class="note" id="source"></p>
<p><label>Text <select id="text"></select></label></p>
<p class="note" id="cut"></p>
<p class="note">Rows are layers, columns are heads: choose one. In each, a row
is a token that attends to the columns: the darker, the more.</p>
<div id="heads"></div>
<h2 id="name"></h2>
<p class="note">Point at a token, or tap it: the darker another, the more it
attends to that one.</p>
<div id="words"></div>
<p id="note"></p>
<canvas id="map"></canvas>
<script id="data" type="application/json">DATA</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const find = name => document.getElementById(name);
const make = (name, parent) =>
  parent.appendChild(document.createElement(name));
let text, size, weights, layer, head, cell, left;
// Most weights are near 0: colors are linear in the square root.
const color = percent => {
  const part = Math.sqrt(percent / 100);
  return [33, 113, 205].map(x => Math.round(255 + part * (x - 255)));
};
const weight = (query, key) =>
  weights[((layer * text.heads + head) * size + query) * size + key];

function drawSmall(canvas, first) {
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let i = 0; i < size * size; i++)
    image.data.set([...color(weights[first + i]), 255], 4 * i);
  context.putImageData(image, 0, 0);
}

function drawMap() {
  const canvas = find("map"), font = 12;
  const width = Math.min(900, document.body.clientWidth - 32);
  const context = canvas.getContext("2d");
  context.font = font + "px sans-serif";
  left = 8 + Math.max(...text.tokens.map(x => context.measureText(x).width));
  cell = Math.min(26, (width - left) / size);
  if (cell < 10) [left, cell] = [0, Math.min(10, width / size)];
  const total = left + cell * size, scale = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.ceil(total * scale);
  canvas.style.width = total + "px";
  context.scale(scale, scale);
  context.font = Math.min(font, cell) + "px sans-serif";
  context.textBaseline = "middle";
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      context.fillStyle = `rgb(${color(weight(i, j))})`;
      context.fillRect(left + j * cell, left + i * cell, cell, cell);
    }
    if (!left) continue;
    context.fillStyle = "#111";
    context.textAlign = "right";
    context.fillText(text.tokens[i], left - 4, left + (i + 0.5) * cell);
    context.save();
    context.translate(left + (i + 0.5) * cell, left - 4);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(text.tokens[i], 0, 0);
    context.restore();
  }
  context.strokeStyle = "#ccc";
  context.strokeRect(left, left, cell * size, cell * size);
}

function showQuery(query, key) {
  if (key === undefined) {
    key = 0;
    for (let j = 0; j < size; j++)
      if (weight(query, j) > weight(query, key)) key = j;
  }
  [...find("words").children].forEach((span, j) => {
    span.style.background = `rgb(${color(weight(query, j))})`;
    span.className = j === query ? "from" : "";
    span.title = (weight(query, j) / 100).toFixed(2);
  });
  find("note").textContent = `${text.tokens[query]} attends to ` +
    `${text.tokens[key]}: ${(weight(query, key) / 100).toFixed(2)}`;
}

function showHead(chosen) {
  layer = Math.floor(chosen / text.heads);
  head = chosen % text.heads;
  find("name").textContent = `Layer ${layer}, head ${head}`;
  [...find("heads").querySelectorAll("button")].forEach((button, i) =>
    button.setAttribute("aria-pressed", i === chosen));
  drawMap();
  showQuery(0);
}

function showText(chosen) {
  text = data.texts[chosen];
  size = text.tokens.length;
  weights = Uint8Array.from(atob(text.weights), x => x.charCodeAt(0));
  find("cut").textContent = text.count > size ?
    `${text.count} tokens; the first ${size} are shown.` : "";
  const heads = find("heads");
  heads.replaceChildren();
  heads.style.gridTemplateColumns =
    `1.2em repeat(${text.heads}, minmax(0, 110px))`;
  make("span", heads);
  for (let j = 0; j < text.heads; j++) make("span", heads).textContent = j;
  for (let i = 0; i < text.layers * text.heads; i++) {
    const name = [Math.floor(i / text.heads), i % text.heads];
    if (!name[1]) make("span", heads).textContent = name[0];
    const button = make("button", heads);
    button.title = `layer ${name[0]}, head ${name[1]}`;
    button.setAttribute("aria-label", button.title);
    button.onclick = () => showHead(i);
    const canvas = make("canvas", button);
    if (size < 100) canvas.style.imageRendering = "pixelated";
    drawSmall(canvas, i * size * size);
  }
  const words = find("words");
  words.replaceChildren();
  text.tokens.forEach((token, i) => {
    const span = make("span", words);
    span.textContent = token;
    span.tabIndex = 0;
    span.onmouseenter = span.onclick = span.onfocus = () => showQuery(i);
  });
  showHead(0);
}

find("source").textContent = data.source;
data.texts.forEach((x, i) => {
  const option = make("option", find("text"));
  option.value = i;
  option.textContent = `line ${x.line}: ` +
    x.tokens.slice(1, -1).join(" ").slice(0, 60);
});
find("text").onchange = event => showText(Number(event.target.value));
find("map").onmousemove = event => {
  const box = find("map").getBoundingClientRect();
  const [j, i] = [event.clientX - box.left, event.clientY - box.top].map(
    x => Math.floor((x - left) / cell));
  if (Math.min(i, j) >= 0 && Math.max(i, j) < size) showQuery(i, j);
};
window.onresize = () => text && drawMap();
if (data.texts.length) showText(0);
</script>
</body>
</html>
"""
