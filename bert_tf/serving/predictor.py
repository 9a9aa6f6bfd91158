"""Model, or its folder, and texts -> typed answers, in this process.

The computation is that of the SavedModel which `export_savedmodel` writes, but
in the dtype policy of the model that is given.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from bert_tf.checkpoint import keras_models
from bert_tf.checkpoint.checkpoint import check_vocabulary
from bert_tf.serving import answer_files, kinds, row_outputs, text_rows
from bert_tf.serving.answers.kind import TEXT, Kind, parse
from bert_tf.serving.answers.vectors import SentenceEmbedding
from tfrecords.options import quoted
from tfrecords.tables import data_frames
from tfrecords.text import vocab
from tfrecords.text.tokenizer import BertTokenizer


class Predictor:
    """Answers with a model, in batches of similar length.

    The answers are those of the model's SavedModel, and of `predict` with it.
    Weights that change later, as in training, change the answers.

    By kind, an input is:

        classification, multi_label  a str; or a pair, a tuple of two
        regression                   likewise
        ranking                      (query, [passage, ...]), or a dict
        question_answering           (question, context), or a dict of these
        multiple_choice              (context, [ending, ...]), or a dict
        tagging, token_vectors       a str; or its words, a tuple of str
        fill_mask                    a str with [MASK] in it
        pseudo_log_likelihood        a str
        sentence_embedding           a str

    Args:
      model: a model from `bert_tf.load`, or a path for it.
      tokenizer: a BertTokenizer. Default: the model's.
      batch_size: maximum number of texts answered together; long passages and
        texts of words are several windows, 32 in one call of the model.
      max_seq_length: maximum tokens of a text. Longer texts are cut, with a
        warning; passages and texts of words are read in windows of it. Default:
        as in training, otherwise all positions of the model.
      accept_tokenizer_differences: of a path, as for `bert_tf.load`.
      **settings: `kind`, and settings of an export: `pooling`, `layers`,
        `prompt_name`, `top_k`, `doc_stride`, `n_best_size` and so on, see
        `kinds.AnswerOptions`. With kind="sentence_embedding" any model returns
        vectors: those of a folder of sentence-transformers have its pooling,
        dense layers, normalization and prompts.

    Call arguments:
      inputs: one input or a list of inputs, see above. In a list, words may
        also be a list. Or a pandas.DataFrame, with an input in each row.
      text_column: of a DataFrame, the column of the text, or those of several
        inputs in their order. Default: columns with the names of the inputs,
        such as `text_a`.

    Returns:
      The answer to one input, or a list of answers in the order of the inputs.
      They are NamedTuples of the modules of `bert_tf.serving.answers`, by kind
      Label, Labels, Score, Ranked, Answer, Choice, Tagged, Filled, Likelihood
      or WordVectors. For sentence_embedding [H] or [N, H] float32, H per
      selected layer. For a DataFrame, a copy with the columns of the answer,
      named as in the tables that `predict` writes.

    Attributes:
      model: the model in use.
      tokenizer: its tokenizer.
      kind: name of the kind in use, which determines inputs and answers.
      answers: the object of the kind's class, see `kinds.CLASSES`.
      max_seq_length: the maximum number of tokens in use.
      signatures: name -> function of string tensors, as in the export.
      num_tokens: function of string tensors -> the lengths of texts before they
        are cut; None if they are read in windows.

    Raises:
      ValueError: if there is no such model, its head is newly initialized, a
        setting does not apply to it, an input is of another form, or a column
        is missing or has a cell that is no text.

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
                model, accept_tokenizer_differences=accept_tokenizer_differences
            )
            tokenizer = tokenizer or own
        metadata = keras_models.metadata_of(model)
        options = _options(settings, max_seq_length)
        kind = _choose(options, metadata, model)
        self.model, self.kind, self.batch_size = model, kind.name, batch_size
        self.max_seq_length = kinds.choose_length(
            options, metadata, model.config
        )
        self.tokenizer = _choose_tokenizer(model, tokenizer, kind, source)
        self.answers = kind(
            model, self.tokenizer, self.max_seq_length, metadata, options
        )
        self.signatures, parts = self.answers.make_signatures()
        self.num_tokens = parts.get("num_tokens")
        # What the graph puts before each text.
        self.prompt = self.answers.settings().get("prompt", "")

    def __call__(self, inputs, text_column: str | Sequence[str] | None = None):
        """Returns the answers to one or several inputs; see the class."""
        if data_frames.is_frame(inputs):
            return self._answer_frame(inputs, text_column)
        if text_column is not None:
            raise ValueError(
                f"text_column={text_column!r} is for a pandas.DataFrame; the "
                f"input is {quoted(inputs)} ({type(inputs).__name__})."
            )
        is_one = isinstance(inputs, str | tuple | Mapping)
        rows = [
            text_rows.Row(i, parse(self.answers, value, where))
            for i, value, where in _numbered(inputs, is_one)
        ]
        answers, num_cut = self.answer_rows(rows)
        row_outputs.warn_of_cut(num_cut, len(rows), self.max_seq_length)
        if is_one:
            return answers[0]
        if isinstance(self.answers, SentenceEmbedding):
            return self.answers.join(answers, self.signatures)
        return answers

    def answer_rows(
        self,
        rows: Sequence[text_rows.Row],
        convert: Callable[[Mapping, Mapping], Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Returns the answers to rows, and how many of these were cut.

        It does not warn of them.

        Args:
          rows: their fields are those of `kind.parse`; each has another `line`.
          convert: fields and outputs of a row -> its answer. Default: that for
            Python.
        """
        if convert is None:
            labels = self.answers.labels
            convert = functools.partial(self.answers.typed, labels=labels)
        found, num_cut = {}, 0
        for name, ranks in self.answers.inputs.items():
            of_signature = [row for row in rows if set(row.fields) <= {*ranks}]
            for batch in row_outputs.batches_of(
                of_signature, ranks, self.batch_size
            ):
                num_cut += row_outputs.count_cut(
                    *(batch, ranks, self.max_seq_length),
                    *(self.num_tokens, self.prompt),
                )
                outputs = row_outputs.compute(
                    self.answers, self.signatures[name], batch, ranks
                )
                for row, of_row in zip(batch, outputs, strict=True):
                    found[row.line] = convert(row.fields, of_row)
        return [found[row.line] for row in rows], num_cut

    @property
    def inputs(self) -> Mapping[str, Mapping[str, int]]:
        """Returns signature -> its inputs and their ranks."""
        return self.answers.inputs

    def _answer_frame(self, frame, text_column):
        """Returns a copy of a DataFrame with the columns of the answers."""
        ranks = self.inputs[TEXT]
        if text_column is None:
            columns = [
                (name, name)
                for name in ranks
                if name in frame or name not in text_rows.OPTIONAL
            ]
        else:
            is_several = isinstance(text_column, list | tuple)
            given = text_column if is_several else [text_column]
            columns = text_rows.in_order(given, ranks)
        fields = [{} for _ in range(len(frame))]
        for name, column in columns:
            is_text = ranks[name] == 1
            types = (str,) if is_text else (str, list, tuple)
            values = data_frames.read_column(frame, column, types)
            for row, value in zip(fields, values, strict=True):
                part = [value] if isinstance(value, str) else value
                row[name] = value if is_text else [*row.get(name, ()), *part]
        rows = []
        for label, row in zip(frame.index, fields, strict=True):
            value = row if len(row) > 1 else next(iter(row.values()))
            row = parse(self.answers, value, f"row {label!r} of the DataFrame")
            rows.append(text_rows.Row(len(rows), row))
        # Of no rows, the columns are those of any row.
        example = {x: "" if rank == 1 else ["a"] for x, rank in ranks.items()}
        found, num_cut = self.answer_rows(
            rows or [text_rows.Row(0, example)], self._to_cells
        )
        row_outputs.warn_of_cut(num_cut, len(rows), self.max_seq_length)
        names = answer_files.name_inputs(
            (x for x in frame if isinstance(x, str)), found[0]
        )
        return frame.rename(columns=names).assign(
            **{x: [cells[x] for cells in found[: len(rows)]] for x in found[0]}
        )

    def _to_cells(self, fields: Mapping, outputs: Mapping) -> dict[str, Any]:
        """Returns the cells of an answer, as `predict` writes them."""
        answers = self.answers
        names = answer_files.default_outputs(outputs, is_table=True)
        found = row_outputs.to_json(type(answers), fields, outputs, {*names})
        return row_outputs.to_cells(type(answers), found, answers.labels)


def _options(
    settings: Mapping[str, Any], max_seq_length: int | None
) -> kinds.AnswerOptions:
    """Returns the settings of a Predictor, as an export has them."""
    known = ("kind", *kinds.OPTIONS)
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(
            f"{', '.join(unknown)} is no setting of a Predictor; it has "
            f"{', '.join(known)}."
        )
    return kinds.AnswerOptions(max_seq_length=max_seq_length, **settings)


def _choose(
    options: kinds.AnswerOptions, metadata: Mapping[str, Any], model
) -> type[Kind]:
    """Returns the kind of answers; of models without a head, vectors."""
    if options.kind != "auto":
        kind = kinds.by_name(options.kind)
        if kind.weights and not kind.has_answers:
            raise ValueError(
                f"kind={kind.name!r} has an output for each token; call "
                "model.encoder for it, or use kind='sentence_embedding' for a "
                "vector."
            )
        return kinds.choose(options, metadata, model)
    kind = kinds.choose(kinds.AnswerOptions(), metadata, model)
    if not kind.has_answers:
        if metadata["task"] != "pretraining":
            raise ValueError(
                f"The model's head for {metadata['task']} is newly "
                "initialized, so its answers would be random. Train it first, "
                "or use kind='sentence_embedding' for vectors."
            )
        kind = SentenceEmbedding
    options = dataclasses.replace(options, kind=kind.name)
    return kinds.choose(options, metadata, model)  # Raises.


def _choose_tokenizer(
    model: keras.Model,
    tokenizer: BertTokenizer | None,
    kind: type[Kind],
    source: str,
) -> BertTokenizer:
    """Returns the tokenizer; one that keeps [MASK] only to fill it."""
    kept_tokens = kind.kept_tokens
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
