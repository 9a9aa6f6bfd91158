"""A model and a request's strings -> answers, in all the forms that they have.

Shapes: N rows, B rows in one call of the network, S max_seq_length.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving import batches, text_rows
from tfrecords import schema
from tfrecords.options import quoted

Tensors = Mapping[str, tf.Tensor]
Arrays = Mapping[str, np.ndarray]
TEXT = "text"  # The signature that every kind has.


class Box(NamedTuple):
    """A text box of the page: its label, number of lines, and an example."""

    label: str
    lines: int
    example: str = ""


class Kind:
    """Base class of the kinds of answers.

    A kind is from strings to strings:

        fields of a row -> encode -> network -> decode -> to_json, or typed

    `encode` and `decode` are graphs with strings, which a SavedModel has and
    other runtimes do not: there predict.py, beside the model, does the same.
    Kinds that read windows have the three in their own `make_signatures`. Only
    `network` calls the model. The rest is of one row, with NumPy.

    The SavedModel, Predictor, `predict`, the page and the exports for other
    runtimes ask this class, and compare no names of kinds. A new kind is a file
    with a subclass, and a row in `kinds.CLASSES`; if `in_runtimes`, also rows
    and a method in tokenizer.py and predict.py.

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
      title, hub_task: its names in the model card, here and on Hugging Face's
        hub.
      inputs: signature -> its inputs, and their ranks: 1 for a text, 2 for a
        list of texts.
      expected: one input of a Predictor, for messages.
      options: those that apply to it.
      in_runtimes: whether predict.py, of exports for other runtimes, has it.
      default_signature: name of the signature that is `serving_default`.
      kept_tokens: what the tokenizer must not split.
      in_windows: whether long texts are read in windows; others are cut.
      has_answers: whether a Predictor can return it.
      is_explained: whether its answers have attributions.
      reads: outputs that `to_json` turns into records, if all are wanted.
      known_by: outputs by which its signatures are recognized.
      scored: outputs of `rows_network` that labels can be compared with.
      padded: prefixes of the outputs that `count` is for.
      prompt: what the graph of `text` puts before each text.
      view, action, hint, boxes: of its part of the page: the name of the
        method of `page.views.Views` that draws it, title, help and text boxes.
        Without a view it has no part.
    """

    name = ""
    task: str | None = None
    weights = "encoder/layer"
    title = ""
    hub_task: str | None = "feature-extraction"
    inputs: Mapping[str, Mapping[str, int]] = {TEXT: {"text": 1}}
    expected = "a str"
    options: tuple[str, ...] = ()
    in_runtimes = True
    default_signature = TEXT
    kept_tokens: tuple[str, ...] = ()
    in_windows = False
    has_answers = True
    is_explained = False
    reads: tuple[str, ...] = ()
    known_by: tuple[str, ...] = ()
    scored: tuple[str, ...] = ()
    padded: tuple[str, ...] = ("",)
    prompt = ""
    view = action = hint = ""
    boxes: tuple[Box, ...] = ()

    def __init__(self, model, tokenizer, max_seq_length, metadata, options):
        self.model = model
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.metadata = metadata
        self.labels = list(metadata.get("labels") or ())
        self.set_options(options)

    def set_options(self, options) -> None:
        """Sets the attributes that the kind's options decide."""

    def check_labels(self) -> None:
        """Raises ValueError if the model's metadata has no labels."""
        if not self.labels:
            raise ValueError(
                f"The model has no labels, which kind={self.name} answers "
                "with. Save it with bert_tf.save(..., labels=...)."
            )

    # Of the kind and a model's files, without its weights.

    @classmethod
    def misfit(cls, config) -> str | None:
        """Returns why models with a BertConfig have no such answer, or None."""
        del config

    @classmethod
    def check_label(cls, label: str, labels: Sequence[str]) -> str | None:
        """Returns the expected labels if that of a text is wrong, or None."""
        del label, labels

    @classmethod
    def parse(cls, value, where: str) -> dict[str, Any]:
        """Returns an input of a Predictor as name -> str, or list of str.

        Raises:
          ValueError: if it is not of the form that the kind expects.
        """
        fields = cls.fields_of(value)
        ranks = {n: x for of in cls.inputs.values() for n, x in of.items()}
        if fields is None or not all(
            _fits(text, ranks[name]) for name, text in fields.items()
        ):
            raise ValueError(
                f"{where} is {quoted(value)} ({type(value).__name__}); "
                f"expected {cls.expected}."
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

    @classmethod
    def fields_of(cls, value) -> dict[str, Any] | None:
        """Returns an input by name; None if its parts are not those expected.

        A str is the only or first text, and a pair both.
        """
        names = cls.inputs[TEXT]
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
        if set(self.inputs[TEXT]) == {"text_a", "text_b"}:
            return batches.of_pairs(function)
        return batches.of_texts(function)

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

    def models(self) -> list:
        """Returns the models whose weights the signatures use."""
        return [self.model.encoder if self.task is None else self.model]

    def settings(self) -> dict[str, Any]:
        """Returns its entries of the model.json of every export."""
        return {}

    # For runtimes without strings.

    @classmethod
    def network_inputs(cls) -> tuple[str, ...]:
        """Returns the inputs of `rows_network`, [B, S] int32 unless said."""
        return tuple(schema.ENCODER_INPUTS)

    def rows_network(self, batch: Tensors) -> Tensors:
        """Returns the inputs of predict.py for a batch of ids."""
        return dict(self.network(batch))

    def rows_settings(self) -> dict[str, Any]:
        """Returns its entries of the model.json beside predict.py."""
        return {}

    @classmethod
    def score(
        cls, outputs: Arrays, gold: Sequence[str], settings: Mapping
    ) -> tuple[str, float]:
        """Returns the name and value of a score.

        Args:
          outputs: those of `rows_network` in `scored`, [N, ...].
          gold: the labels of N texts.
          settings: content of the model.json beside predict.py.
        """
        raise NotImplementedError

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
    def without_padding(
        cls, outputs: Arrays, fields: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of one row without the padding of its batch."""
        count = cls.count(outputs, fields)
        if count is None:
            return dict(outputs)
        return dict(outputs) | {
            name: value[:, :count]
            for name, value in outputs.items()
            if value.ndim > 1 and name.startswith(cls.padded)
        }

    @classmethod
    def to_json(
        cls, fields: Mapping[str, Any], outputs: Arrays, names: set[str]
    ) -> dict[str, Any]:
        """Returns the answer of a row for JSON.

        Args:
          fields: the row.
          outputs: its outputs, [1, ...], without padding.
          names: those of them that are wanted.
        """
        if cls.reads and names.issuperset(cls.reads):
            return cls.records(fields, outputs, names)
        return {name: plain(outputs[name])[0] for name in sorted(names)}

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

    def join(self, answers: list, signatures: Mapping):
        """Returns the answers to a list of inputs, in their order."""
        del signatures
        return answers


class ExplainedKind(Kind):
    """Base class of answers to a text or pair, to which each word adds."""

    inputs = {TEXT: {"text_a": 1, "text_b": 1}}
    expected = "a str, or a pair (str, str)"
    is_explained = True
    view = "classify"
    hint = "What each word adds to the answer is marked."
    boxes = (Box("Text", 4, "The cat sat by the door."), Box("Second text", 2))

    @classmethod
    def target_of(cls, answer) -> int:
        """Returns the id of the class of an answer that is explained."""
        return list(answer.probabilities).index(answer.label)

    @classmethod
    def explained(cls, outputs: Tensors, target: int | tf.Tensor) -> tf.Tensor:
        """Returns the number of each row that is explained, [B] float32."""
        return tf.nn.softmax(outputs["logits"])[:, target]


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
