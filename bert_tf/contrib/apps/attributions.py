"""Texts and a Predictor -> how much each word adds to the answer.

Integrated gradients (Sundararajan et al. 2017, arXiv 1703.01365). The word
embeddings x of a text move on a straight line from a baseline b, in which each
piece is [MASK]; positions, segments, [CLS] and [SEP] stay. A piece gets

    (x - b) . integral from 0 to 1 of dF/dx(b + t (x - b)) dt

of the output F, so that all together are F(x) - F(b) ("completeness"). F is the
probability of the predicted class, since logits have an arbitrary common
offset; that of the likeliest of several labels; or the score of a regression,
before it is limited to the range of the labels. [MASK] is an unknown word for
a pre-trained BERT; Enguehard 2023 (arXiv 2305.15853) compares it with [PAD].

Shapes: S tokens, H hidden, K points on the line.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from scipy import special

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from bert_tf.serving import batches, kinds, predictor
from bert_tf.serving.answers.classification import Label
from bert_tf.serving.answers.kind import ExplainedKind, parse
from bert_tf.serving.answers.multi_label import Labels
from bert_tf.serving.answers.score import Score
from tfrecords import schema
from tfrecords.options import quoted
from tfrecords.text import segments

# The largest accepted difference of the sum of attributions and F(x) - F(b).
TOLERANCE = 1e-3
# Numbers of points on the line; the first that suffices is used.
_STEPS = (32, 64, 128, 256, 512)
_TOKENS_AT_ONCE = 1024  # Limits memory: about 1 GB for BERT-base.


class Attribution(NamedTuple):
    """How much a piece or word adds to the output.

    Attributes:
      name: the input that it is in: text_a or text_b.
      text: its characters, `input[start:end]`.
      start, end: where it is.
      value: in units of the output.
    """

    name: str
    text: str
    start: int
    end: int
    value: float


class Explanation(NamedTuple):
    """An answer, and the attributions that add up to it.

    Attributes:
      texts: name -> input.
      answer: Label, Labels or Score, from the Predictor.
      output: F(x), computed in float32.
      baseline: F(b).
      error: absolute difference of the sum of all attributions and
        `output - baseline`.
      steps: K.
      pieces: WordPieces in order, without those that were cut.
      words: the same, summed over the pieces of each word.
      num_cut: number of pieces beyond `max_seq_length`.
    """

    texts: dict[str, str]
    answer: Label | Labels | Score
    output: float
    baseline: float
    error: float
    steps: int
    pieces: tuple[Attribution, ...]
    words: tuple[Attribution, ...]
    num_cut: int


class Integral(NamedTuple):
    """Attributions [S] float64, and how exact they are; see Explanation."""

    values: np.ndarray
    output: float
    baseline: float
    error: float
    steps: int


def integrate(
    slopes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> Integral:
    """Returns the attributions of tokens, by Gauss-Legendre quadrature.

    The number of points is doubled until the sum is within `TOLERANCE` of
    F(x) - F(b), or is 512.

    Args:
      slopes: t [K], from 0 at b to 1 at x -> F [K], and its derivative by t as
        a sum over tokens [K, S].
    """
    (baseline, output), _ = slopes(np.array([0.0, 1.0]))
    for steps in _STEPS:
        points, weights = special.roots_legendre(steps)
        _, derivatives = slopes((points + 1) / 2)
        values = (weights / 2) @ derivatives.astype(np.float64)
        error = abs(values.sum() - (output - baseline))
        if error < TOLERANCE:
            break
    return Integral(values, float(output), float(baseline), float(error), steps)


class Explainer:
    """Explains the answers of a Predictor that classifies or scores texts.

    Args:
      source: the Predictor. A model in half precision is copied to float32,
        with the weights of the moment.

    Call arguments:
      value: a text, or a pair of texts, as for the Predictor.

    Returns:
      An Explanation. A warning says so if it is not within `TOLERANCE`.

    Raises:
      ValueError: if the Predictor is of another kind, or `value` is no text.
    """

    def __init__(self, source: predictor.Predictor):
        if not isinstance(source.answers, ExplainedKind):
            known = [
                x
                for x in kinds.CLASSES
                if issubclass(kinds.by_name(x), ExplainedKind)
            ]
            raise ValueError(
                f"Answers of kind {source.kind!r} have no attributions; "
                f"models for {' and '.join(known)} do."
            )
        self.predictor = source
        self._encode = tf.function(
            functools.partial(
                *(_encode, source.tokenizer, source.max_seq_length),
                source.answers.long_text == "head_tail",
            ),
            input_signature=[batches.STRINGS],
            autograph=False,
        )
        self._model = _in_float32(source.model, source.answers.task)
        size = self._model.config.hidden_size
        vectors = tf.TensorSpec([None, size], tf.float32)
        self._slopes = tf.function(
            self._compute_slopes,
            input_signature=[
                tf.TensorSpec([None], tf.float32),
                schema.batch_signature(
                    schema.ENCODER_INPUTS, {"max_seq_length": None}
                ),
                vectors,
                vectors,
                tf.TensorSpec([], tf.int32),
            ],
            autograph=False,
        )

    def __call__(self, value) -> Explanation:
        """Returns the explanation of one answer; see the class."""
        source = self.predictor
        fields = parse(source.answers, value, "the input")
        texts = {"text_a": fields["text_a"], "text_b": fields.get("text_b", "")}
        batch, offsets, count = self._encode(tf.constant([*texts.values()]))
        pieces = _read_pieces(
            offsets,
            batch["input_type_ids"].numpy()[0],
            source.tokenizer.vocab,
        )
        num_cut = int(count) - len(pieces)
        if num_cut and source.answers.has_windows:
            raise ValueError(
                f"{quoted(fields['text_a'])} is read in windows (long_text), "
                f"and only a text of one, {source.max_seq_length} tokens, is "
                "explained. Shorten it."
            )
        answer = source(value)
        target = source.answers.target_of(answer)
        positions = [piece.position for piece in pieces]
        line = self._embed_baseline_and_text(batch["input_word_ids"], positions)
        found = integrate(lambda t: self._run(t, batch, *line, target))
        if found.error >= TOLERANCE:
            logging.warning(
                "the attributions for %s add up to what they should only "
                "within %.2g, after %d steps",
                *(quoted(fields["text_a"]), found.error, found.steps),
            )
        parts, words = [], []
        for name, start, end, position, continues_word in pieces:
            value = float(found.values[position])
            text = texts[name][start:end]
            parts.append(Attribution(name, text, start, end, value))
            if continues_word:
                first = words.pop()
                start, value = first.start, first.value + value
                text = texts[name][start:end]
            words.append(Attribution(name, text, start, end, value))
        return Explanation(
            {name: text for name, text in texts.items() if text},
            answer,
            *found[1:],
            tuple(parts),
            tuple(words),
            num_cut,
        )

    def _embed_baseline_and_text(
        self, word_ids: tf.Tensor, positions: Sequence[int]
    ):
        """Returns the word embeddings of baseline and text, [S, H] each."""
        embeddings = self._model.encoder.embeddings
        baseline = word_ids.numpy()[0]
        baseline[list(positions)] = self.predictor.tokenizer.mask_id
        table = embeddings.word_embeddings
        return [embeddings.rows(table, x) for x in (baseline, word_ids[0])]

    def _run(self, points: np.ndarray, *line) -> tuple[np.ndarray, np.ndarray]:
        """Returns the outputs and slopes at all points, a few at a time."""
        length = line[1].shape[0]
        size = max(1, _TOKENS_AT_ONCE // length)
        parts = [
            self._slopes(points[i : i + size].astype(np.float32), *line)
            for i in range(0, len(points), size)
        ]
        outputs, slopes = zip(*parts, strict=True)
        return np.concatenate(outputs), np.concatenate(slopes)

    def _compute_slopes(self, points, batch, start, end, target):
        """Returns F [K], and its derivative by t for each token [K, S]."""
        rows = {
            name: tf.repeat(tensor, tf.size(points), axis=0)
            for name, tensor in batch.items()
        }
        vectors = start + points[:, None, None] * (end - start)  # [K, S, H]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(vectors)
            outputs = self._model(
                rows | {"word_vectors": vectors}, training=False
            )
            values = self.predictor.answers.explained(outputs, target)
        gradients = tape.gradient(values, vectors)
        return values, tf.reduce_sum(gradients * (end - start), axis=-1)


def _in_float32(model: keras.Model, task: str) -> keras.Model:
    """Returns the model, or a copy that computes in float32."""
    if model.compute_dtype == "float32":
        return model
    classes = getattr(model, "num_classes", 0)
    copy = models.for_task(task, model.config, classes, dtype="float32")
    weights = model_folders.weight_names(copy)
    for name, weight in model_folders.merged_weights(model).items():
        weights[name].assign(weight.numpy().astype(np.float32))
    return copy


def _encode(
    tokenizer, max_seq_length: int, is_head_tail: bool, texts: tf.Tensor
):
    """Returns a batch of a pair [2]; ids, starts, ends of pieces; their number.

    With `is_head_tail`, the pieces are those that "head_tail" keeps.
    """
    offsets = tokenizer.tokenize_with_offsets(texts)
    count = tf.size(offsets[0].flat_values)
    if is_head_tail:
        kept = [
            segments.shorten([x[:1], x[1:]], max_seq_length, "head_tail")[0]
            for x in offsets
        ]
        offsets = [tf.concat(pair, axis=0) for pair in kept]
    ids = offsets[0]
    batch = batches.pack(tokenizer, max_seq_length, ids[:1], ids[1:])
    return batch, offsets, count


class _Piece(NamedTuple):
    """Where a piece is: in which text, in it, and among the tokens."""

    name: str
    start: int
    end: int
    position: int
    continues_word: bool  # Begins with ##.


def _read_pieces(
    offsets: Sequence[tf.RaggedTensor],
    type_ids: np.ndarray,
    vocabulary: Sequence[str],
) -> list[_Piece]:
    """Returns the pieces that the model reads.

    `offsets` are ids, starts and ends of the pieces of both texts, each
    [2, (n)]; `type_ids` [S] is 1 for the second text.
    """
    columns = [ragged.to_list() for ragged in offsets]
    # Each text is followed by [SEP], the first one also preceded by [CLS].
    first_of = {"text_a": 1, "text_b": int(np.sum(type_ids == 0))}
    num_kept = {
        "text_a": first_of["text_b"] - 2,
        "text_b": max(0, int(type_ids.sum()) - 1),
    }
    pieces = []
    for (name, kept), rows in zip(
        num_kept.items(), zip(*columns, strict=True), strict=True
    ):
        for i, (token, start, end) in enumerate(zip(*rows, strict=True)):
            if i < kept:
                is_inner = vocabulary[token].startswith("##")
                position = first_of[name] + i
                pieces.append(_Piece(name, start, end, position, is_inner))
    return pieces
