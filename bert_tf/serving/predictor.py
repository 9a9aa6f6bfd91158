"""Model, or its folder, and texts -> typed answers, in this process.

The computation is that of the SavedModel which `export_savedmodel` writes.
"""

import collections
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import keras_models
from bert_tf.checkpoint.checkpoint import check_vocabulary
from bert_tf.serving import export_model, kinds, row_outputs, text_rows
from bert_tf.serving.answers import answers
from tfrecords.options import quoted
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer

_PAIR = {"text": {"text_a": 1, "text_b": 1}}
_TEXT = {"text": {"text": 1}}
# Kind -> signature -> its inputs and their ranks, see `predictions.Model`.
_INPUTS = {
    "classification": _PAIR,
    "regression": _PAIR,
    "question_answering": {"text": {"question": 1, "context": 1}},
    "multiple_choice": {"text": {"context": 1, "endings": 2}},
    "fill_mask": _TEXT,
    "sentence_embedding": _TEXT,
    "tagging": _TEXT | {"words": {"words": 2}},
}
# Kind -> what one input is, for messages.
_EXPECTED = {
    "classification": "a str, or a pair (str, str)",
    "regression": "a str, or a pair (str, str)",
    "question_answering": "a pair (question, context), or a dict with these",
    "multiple_choice": "(context, [ending, ...]), or a dict with these",
    "fill_mask": f"a str, with {vocab.MASK} in it",
    "sentence_embedding": "a str",
    "tagging": "a str, or a list of words that are not empty",
}


class Predictor:
    """Answers with a model, in batches of similar length.

    The answers are those of the model's SavedModel, and of `predict` with it.
    Weights that change later, as in training, change the answers.

    By kind, an input is:

        classification, regression   a str; or a pair, a tuple of two
        question_answering           (question, context), or a dict of these
        multiple_choice              (context, [ending, ...]), or a dict
        tagging                      a str; or its words, a tuple of str
        fill_mask                    a str with [MASK] in it
        sentence_embedding           a str

    Args:
      model: a model from `bert_tf.load`, or a path for it.
      tokenizer: a BertTokenizer. Default: the model's.
      batch_size: maximum number of texts in one call of the model.
      max_seq_length: maximum tokens of a text. Longer texts are cut, with a
        warning; passages and texts to tag are read in windows of it. Default:
        as in training, otherwise all positions of the model.
      accept_tokenizer_differences: of a path, as for `bert_tf.load`.
      **settings: `kind`, and settings of an export: `pooling`, `layers`,
        `top_k`, `doc_stride`, `n_best_size` and so on, see
        `kinds.ExportConfig`. With kind="sentence_embedding" any model returns
        vectors: those of a folder of sentence-transformers have its pooling,
        dense layers and normalization.

    Call arguments:
      inputs: one input or a list of inputs, see above. In a list, the words
        of a tagger may also be a list.

    Returns:
      The answer to one input, or a list of answers in the order of the inputs.
      They are NamedTuples of `bert_tf.serving.answers.answers`, by kind Label,
      Score, Answer, Choice, Tagged or Filled. For sentence_embedding [H] or
      [N, H] float32, H per selected layer.

    Attributes:
      model: the model in use.
      tokenizer: its tokenizer.
      kind: the kind in use, which determines inputs and answers.
      max_seq_length: the maximum number of tokens in use.
      signatures: name -> function of string tensors, as in the export.
      num_tokens: function of string tensors -> the lengths of texts before they
        are cut; None if they are read in windows.

    Raises:
      ValueError: if there is no such model, its head is newly initialized, a
        setting does not apply to it, or an input is of another form.

    Example:
      >>> predictor = bert_tf.Predictor("runs/sst-2")
      >>> answer = predictor("a fine film")
      >>> label, probability = answer.label, answer.probability
      >>> answers = predictor(["a fine film", "dull"])
      >>> embed = bert_tf.Predictor("runs/sst-2", kind="sentence_embedding")
      >>> embed(["a fine film", "dull"]).shape  # [N, H]
      (2, 128)
    """

    def __init__(
        self,
        model: keras.Model | str | os.PathLike,
        tokenizer: BertTokenizer | None = None,
        *,
        batch_size: int = 32,
        max_seq_length: int | None = None,
        accept_tokenizer_differences: bool = False,
        **settings,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} should be at least 1.")
        source = type(model).__name__
        if isinstance(model, str | os.PathLike):
            source = os.fspath(model)
            model, own = keras_models.load(
                model,
                accept_tokenizer_differences=accept_tokenizer_differences,
            )
            tokenizer = tokenizer or own
        metadata = keras_models.metadata_of(model)
        config = _find_config(settings, max_seq_length, metadata, model)
        self.model, self.kind = model, config.kind
        self.batch_size = batch_size
        self.max_seq_length = export_model.find_length(
            config, metadata, model.config
        )
        self.tokenizer = _find_tokenizer(model, tokenizer, self.kind, source)
        self._labels = metadata.get("labels") or ()
        self.signatures, parts = export_model.make_signatures(
            config,
            self.kind,
            model,
            self.tokenizer,
            self.max_seq_length,
            metadata,
        )
        self.num_tokens = parts.get("num_tokens")

    def __call__(self, inputs):
        """Returns the answers to one or several inputs; see the class."""
        is_one = isinstance(inputs, str | tuple | Mapping)
        rows = [
            text_rows.Row(i, parse(self.kind, value, where))
            for i, value, where in _numbered(inputs, is_one)
        ]
        found, num_cut = {}, 0
        limit = self.max_seq_length if self.num_tokens else None
        for name, ranks in self.inputs.items():
            of_signature = [row for row in rows if set(row.fields) <= {*ranks}]
            for batch in row_outputs.batches_of(
                of_signature, ranks, self.batch_size
            ):
                num_cut += row_outputs.count_cut(
                    batch, ranks, limit, self.num_tokens
                )
                found |= self._answer(name, batch, ranks)
        row_outputs.warn_of_cut(num_cut, len(rows), self.max_seq_length, True)
        in_order = [found[row.line] for row in rows]
        if is_one:
            return in_order[0]
        if self.kind != "sentence_embedding":
            return in_order
        if not rows:  # [0, H].
            nothing = tf.constant([], tf.string)
            return self.signatures["text"](nothing)["embedding"].numpy()
        return np.stack(in_order)

    @property
    def inputs(self) -> Mapping[str, Mapping[str, int]]:
        """Returns signature -> its inputs and their ranks."""
        return _INPUTS[self.kind]

    def _answer(self, signature: str, batch, ranks) -> dict[int, Any]:
        """Returns the number of each row of a batch -> its answer."""
        outputs = row_outputs.compute(self.signatures[signature], batch, ranks)
        return {
            row.line: answers.make(self.kind, row.fields, of_row, self._labels)
            for row, of_row in zip(batch, outputs, strict=True)
        }


def _find_config(
    settings: Mapping[str, Any],
    max_seq_length: int | None,
    metadata: Mapping[str, Any],
    model: keras.Model,
) -> kinds.ExportConfig:
    """Returns the settings of an export with the same answers."""
    known = ("kind", *kinds.APPLIES_TO)
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(
            f"{', '.join(unknown)} is no setting of a Predictor; it has "
            f"{', '.join(known)}."
        )
    # The paths are not used.
    config = kinds.ExportConfig(
        model_dir="model",
        export_dir="export",
        max_seq_length=max_seq_length,
        **settings,
    )
    if config.kind == "encoder":
        raise ValueError(
            "kind='encoder' has an output for each token; call model.encoder "
            "for it, or use kind='sentence_embedding' for a vector."
        )
    if config.kind == "auto":
        auto = kinds.ExportConfig(model_dir="model", export_dir="export")
        kind, task = kinds.find_kind(auto, metadata, model), metadata["task"]
        if kind == "encoder" and task != "pretraining":
            raise ValueError(
                f"The model's head for {task} is newly initialized, so its "
                "answers would be random. Train it first, or use "
                "kind='sentence_embedding' for vectors."
            )
        if kind == "encoder":
            kind = "sentence_embedding"
        config = dataclasses.replace(config, kind=kind)
    kinds.find_kind(config, metadata, model)  # Raises.
    return config


def _find_tokenizer(
    model: keras.Model, tokenizer: BertTokenizer | None, kind: str, source: str
) -> BertTokenizer:
    """Returns the tokenizer; one that keeps [MASK] only to fill it."""
    kept_tokens = (vocab.MASK,) if kind == "fill_mask" else ()
    if tokenizer is not None:
        check_vocabulary(tokenizer, model, "tokenizer")
        if tokenizer.kept_tokens == kept_tokens:
            return tokenizer
        return BertTokenizer(
            tokenizer.vocab, kept_tokens=kept_tokens, **tokenizer.rules
        )
    if model.vocabulary is None:
        raise ValueError(
            f"{source} has no vocabulary, so text cannot be tokenized. Give "
            "tokenizer=BertTokenizer('vocab.txt')."
        )
    return BertTokenizer(
        vocab.Vocabulary(model.vocabulary, f"the vocabulary of {source}"),
        kept_tokens=kept_tokens,
        **vocab.rules_of(model.metadata),
    )


def _numbered(inputs, is_one: bool):
    """Yields the number of each input, the input, and its name for messages."""
    if is_one:
        yield 0, inputs, "the input"
        return
    if hasattr(inputs, "tolist"):  # NumPy arrays, columns of pandas.
        inputs = inputs.tolist()
    if not isinstance(inputs, list):
        raise ValueError(
            f"The input is {quoted(inputs)} ({type(inputs).__name__}); give "
            "one input, such as a str, or a list of them."
        )
    for i, value in enumerate(inputs):
        yield i, value, f"inputs[{i}]"


def parse(kind: str, value, where: str) -> dict[str, Any]:
    """Returns an input of a Predictor as name -> str, or list of str.

    Args:
      kind: kind of the Predictor.
      value: the input.
      where: its name, for messages.

    Raises:
      ValueError: if it is not of the form that the kind expects.
    """
    fields = _fields(kind, value)
    ranks = collections.ChainMap(*_INPUTS[kind].values())
    if fields is None or not all(
        _fits(text, ranks[name]) for name, text in fields.items()
    ):
        raise ValueError(
            f"{where} is {quoted(value)} ({type(value).__name__}); expected "
            f"{_EXPECTED[kind]}."
        )
    for text in fields.values():
        try:
            "".join(text).encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where} has {error.object[error.start]!r}, an unpaired "
                "surrogate, which is no character. Remove it."
            ) from None
    return fields


def _fields(kind: str, value) -> dict[str, Any] | None:
    """Returns an input by name; None if its parts are not those expected."""
    is_listed = isinstance(value, tuple | list)
    if kind == "tagging":
        if is_listed:
            return {"words": list(value)}
        return {"text": value} if isinstance(value, str) else None
    names = _INPUTS[kind]["text"]
    if isinstance(value, str):
        value = {min(names): value} if len(names) == 1 else {"text_a": value}
    elif is_listed and len(value) == len(names) == 2:
        value = dict(zip(names, value, strict=True))
    elif not isinstance(value, Mapping):
        return None
    fields = {name: value[name] for name in names if name in value}
    missing = names.keys() - fields.keys() - set(text_rows.OPTIONAL)
    unknown = value.keys() - names.keys()  # Perhaps a misspelt name.
    return None if missing or unknown else fields


def _fits(text, rank: int) -> bool:
    """Returns whether an input is a str, or a list of str with letters."""
    if rank == 1:
        return isinstance(text, str)
    return (
        isinstance(text, tuple | list)
        and len(text) > 0
        and all(isinstance(part, str) and part for part in text)
    )
