"""Base class of answers: texts -> encode -> network -> decode -> answer.

Shapes: N rows, B rows in one call of the network, S max_seq_length.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches
from tfrecords import schema
from tfrecords.options import quoted

Tensors = Mapping[str, tf.Tensor]
Arrays = Mapping[str, np.ndarray]
TEXT = "text"  # The signature that every kind has.


class Kind:
    """Base class of the kinds of answers.

    A kind is from strings to strings:

        fields of a row -> encode -> network -> decode -> to_json, or typed

    `encode` and `decode` are graphs with strings, which a SavedModel has and
    other runtimes do not: there predict.py, beside the model, does the same.
    Kinds that read windows have the three in their own `make_signatures`. Only
    `network` calls the model. The rest is of one row, with NumPy.

    The SavedModel, Predictor and `predict` ask this class, and compare no names
    of kinds. The page, and exports for other runtimes, have tables of their own
    for what only they need. A new kind is a file with a subclass, and a row in
    `kinds.CLASSES`.

    Of answers in Python and JSON: probabilities are float32, in their shortest
    decimal form. Places are in characters of the text, end exclusive:
    `text[start:end]`; for text given as words, in words.

    Args:
      model: a Keras model of the task, or any model if `task` is None.
      tokenizer: a BertTokenizer that keeps `kept_tokens`.
      max_seq_length: S.
      metadata: content of model.json.
      options: `kinds.AnswerOptions`, of which it reads those in `options`.

    Attributes:
      name: name in `--kind` and model.json.
      task: the task whose head computes it; None if no head does.
      weights: prefix of the names of the weights that compute it.
      inputs: signature -> its inputs, and their ranks: 1 for a text, 2 for a
        list of texts. A model that was trained on single texts has no `text_b`.
      made_for: entry of the model.json of models whose default it is.
      expected: one input of a Predictor, for messages.
      options: those that apply to it.
      kept_tokens: what the tokenizer must not split.
      has_answers: whether a Predictor can return it.
      record_outputs: outputs that `records` reads, if all are wanted.
      signature_outputs: outputs by which its signatures are recognized.
      ragged_outputs: prefixes of the outputs that `count` is for.
    """

    name = ""
    task: str | None = None
    weights = "encoder/layer"
    inputs: Mapping[str, Mapping[str, int]] = {TEXT: {"text": 1}}
    made_for = ""
    expected = "a str"
    options: tuple[str, ...] = ()
    kept_tokens: tuple[str, ...] = ()
    has_answers = True
    record_outputs: tuple[str, ...] = ()
    signature_outputs: tuple[str, ...] = ()
    ragged_outputs: tuple[str, ...] = ("",)

    def __init__(self, model, tokenizer, max_seq_length, metadata, options):
        self.model = model
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.metadata = metadata
        self.labels = list(metadata.get("labels") or ())
        if metadata.get("num_texts") == 1 and "text_b" in self.inputs[TEXT]:
            self.inputs, self.expected = {TEXT: {"text_a": 1}}, "a str"
        self.set_options(options)

    def set_options(self, options) -> None:
        """Sets the attributes that the kind's options decide."""

    @classmethod
    def unsupported_reason(cls, config) -> str | None:
        """Returns why models with a BertConfig have no such answer, or None."""
        del config

    @classmethod
    def fields_of(cls, value, inputs) -> dict[str, Any] | None:
        """Returns an input by name; None if its parts are not those expected.

        A str is the only or first text, and a pair both.

        Args:
          value: the input.
          inputs: the attribute, of the class or of a model.
        """
        from bert_tf.serving import text_rows  # An export reads no rows.

        names = inputs[TEXT]
        needed = names.keys() - {*text_rows.OPTIONAL}
        if isinstance(value, str):
            value = {min(needed): value} if len(needed) == 1 else {}
        elif isinstance(value, tuple | list) and len(value) == len(names) == 2:
            value = dict(zip(names, value, strict=True))
        elif not isinstance(value, Mapping):
            return None
        # An unknown key may be a misspelt name.
        is_complete = needed <= value.keys() <= names.keys()
        return dict(value) if is_complete else None

    # In the graph of the export, and of the Predictor.

    def encode(self, *texts: tf.Tensor) -> Tensors:
        """Returns the batch of the texts, which `network` and `decode` read."""
        return batches.pack_pairs(self.tokenizer, self.max_seq_length, *texts)

    def network(self, batch: Tensors) -> Tensors:
        """Returns numbers from token ids: all that calls the model."""
        raise NotImplementedError

    def decode(self, numbers: Tensors, batch: Tensors) -> Tensors:
        """Returns the outputs of the signature `text`."""
        raise NotImplementedError

    def signature(self, function: Callable[..., Tensors]) -> batches.Function:
        """Returns a function of the inputs of `text` with their names."""
        signatures = {
            ("text",): batches.of_texts,
            ("text_a",): batches.of_first_texts,
            ("text_a", "text_b"): batches.of_pairs,
        }
        return signatures[(*self.inputs[TEXT],)](function)

    def more_signatures(self, answer: Callable) -> dict[str, batches.Function]:
        """Returns further signatures, given the function of texts."""
        del answer
        return {}

    def make_signatures(
        self,
    ) -> tuple[dict[str, batches.Function], dict[str, Any]]:
        """Returns the signatures with strings, and other attributes to save.

        The signatures also run in this process, with the weights of the moment.
        """
        # tf.functions, which are traced only once for all signatures.
        preprocess = tf.function(self.encode, autograph=False)

        @functools.partial(tf.function, autograph=False)
        def answer(*texts):
            batch = preprocess(*texts)
            return dict(self.decode(self.network(batch), batch))

        signatures = {TEXT: self.signature(answer)}
        count = functools.partial(batches.count_tokens, self.tokenizer)
        return signatures | self.more_signatures(answer), {
            "preprocess": self.signature(preprocess),
            "num_tokens": self.signature(count),
            "tokenizer": self.tokenizer,
        }

    def settings(self) -> dict[str, Any]:
        """Returns its entries of the model.json of every export."""
        return {}

    # Of one row, without the model.

    @classmethod
    def count(cls, outputs: Arrays, fields: Mapping[str, Any]) -> int | None:
        """Returns the number of parts of a row; None if none is padded.

        Args:
          outputs: of the signature, each [1, ...].
          fields: the row.
        """
        del outputs, fields

    @classmethod
    def records(cls, fields, outputs: Arrays, names: set[str]) -> dict:
        """Returns the answer of a row for JSON, its parts as objects."""
        raise NotImplementedError

    @classmethod
    def typed(
        cls, fields: Mapping[str, Any], outputs: Arrays, labels: Sequence[str]
    ) -> tuple | np.ndarray:
        """Returns the answer of a row for Python.

        Args:
          fields: the row.
          outputs: its outputs, [1, ...], without padding.
          labels: names of the classes, if any.
        """
        raise NotImplementedError(f"kind={cls.name} has no answer in Python")


class ExplainedKind(Kind):
    """Base class of answers to a text or pair, to which each word adds."""

    inputs = {TEXT: {"text_a": 1, "text_b": 1}}
    expected = "a str, or a pair (str, str)"

    def encode(self, *texts):
        """Returns the batch of the texts; long ones are read as in training."""
        return batches.pack_pairs(
            *(self.tokenizer, self.max_seq_length, *texts),
            long_text=self.long_text,
        )

    @property
    def long_text(self) -> str:
        """How a text that is too long is read, see `LongTextOptions`."""
        return self.metadata.get("long_text", "cut")

    def settings(self):
        """Returns `long_text`, unless texts are cut."""
        return {"long_text": self.long_text} if self.long_text != "cut" else {}

    def make_signatures(self):
        """Returns those of `Kind`; windows leave nothing to cut and count."""
        signatures, parts = super().make_signatures()
        if self.has_windows:
            del parts["num_tokens"]
        return signatures, parts

    @property
    def has_windows(self) -> bool:
        """Whether a long text is read in windows."""
        return self.long_text.startswith("windows")

    def numbers_of_texts(self, batch: Tensors, name: str) -> tf.Tensor:
        """Returns an output of the model, [N] or [N, C] float32.

        Windows are read a few at a time, and those of a text are pooled.
        """
        if batches.TEXT_OF_WINDOW not in batch:
            return self.model(batch, training=False)[name]
        inputs = {x: batch[x] for x in schema.ENCODER_INPUTS}

        def predict(windows):
            values = self.model(windows, training=False)[name]
            return {name: values[:, tf.newaxis]}

        shape = [1]
        if name == "logits":
            shape += [self.model.num_classes]
        found = batches.in_parts(predict, inputs, {name: shape})[name][:, 0]
        is_max = self.long_text == "windows_max"
        pool = tf.math.segment_max if is_max else tf.math.segment_mean
        return pool(found, batch[batches.TEXT_OF_WINDOW])

    @classmethod
    def target_of(cls, answer) -> int:
        """Returns the id of the class of an answer that is explained."""
        return list(answer.probabilities).index(answer.label)

    @classmethod
    def explained(cls, outputs: Tensors, target: int | tf.Tensor) -> tf.Tensor:
        """Returns the number of each row that is explained, [B] float32."""
        return tf.nn.softmax(outputs["logits"])[:, target]


def require_labels(answers: Kind) -> None:
    """Raises ValueError if the model's metadata has no labels."""
    if not answers.labels:
        raise ValueError(
            f"The model has no labels, which kind={answers.name} answers "
            "with. Save it with bert_tf.save(..., labels=...)."
        )


def parse(kind: type[Kind] | Kind, value, where: str) -> dict[str, Any]:
    """Returns an input of a Predictor as name -> str, or list of str.

    Raises:
      ValueError: if it is not of the form that the kind expects.
    """
    fields = kind.fields_of(value, kind.inputs)
    ranks = {n: x for of in kind.inputs.values() for n, x in of.items()}
    if fields is None or not all(
        _fits(text, ranks[name]) for name, text in fields.items()
    ):
        raise ValueError(
            f"{where} is {quoted(value)} ({type(value).__name__}); "
            f"expected {kind.expected}."
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


def _fits(text, rank: int) -> bool:
    """Returns whether an input is a str, or a list of str with letters."""
    if rank == 1:
        return isinstance(text, str)
    return (
        isinstance(text, tuple | list)
        and len(text) > 0
        and all(isinstance(part, str) and part for part in text)
    )


def plain(value: np.ndarray):
    """Returns a value for JSON, with float32 in its shortest decimal form."""
    if value.dtype == object:
        texts = [text.decode() for text in value.ravel()]
        return np.array(texts, object).reshape(value.shape).tolist()
    if value.dtype == np.float32:
        # Via strings, so that 0.1 is not 0.10000000149011612.
        return value.astype(str).astype(np.float64).tolist()
    return value.tolist()


def columns_to_records(outputs: Arrays, names: Mapping[str, str]) -> list[dict]:
    """Returns outputs [1, n] as n dicts; `names` are key -> output."""
    columns = [plain(outputs[name])[0] for name in names.values()]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
    ]
