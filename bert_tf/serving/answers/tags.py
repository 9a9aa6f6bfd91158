"""Texts or words -> the tag of each word, and entities.

Shapes: N texts, W maximum words per text, T words in total, C tags, M windows,
S max_seq_length.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving.answers import batches
from bert_tf.serving.answers.kind import (
    TEXT,
    Box,
    Kind,
    columns_to_records,
    plain,
)
from tfrecords.tasks import ner_files
from tfrecords.text import raw_words, word_windows

# JSON key -> output of the signature `text`, for a word.
_WORD = {
    "word": "words",
    "tag": "tags",
    "start": "starts",
    "end": "ends",
    "probability": "probabilities",
}


class Tag(NamedTuple):
    """The tag of a word, where the word is, and the tag's probability.

    Attributes:
      word: its text.
      tag: its tag.
      start, end: where it is; `begin` is an older name of `start`.
      probability: of the tag.
    """

    word: str
    tag: str
    start: int
    end: int
    probability: float

    begin = property(lambda self: self.start)


class Entity(NamedTuple):
    """An entity: adjacent words with tags B- and I- of a type.

    Attributes:
      label: its type, such as PER.
      text: its text; if words were given, these joined with spaces.
      start, end: where it is; `begin` is an older name of `start`.
      probability: the lowest of its words' tags.
    """

    label: str
    text: str
    start: int
    end: int
    probability: float

    begin = property(lambda self: self.start)


class Tagged(NamedTuple):
    """Tags of all words; entities if the tags are O, B-type and I-type."""

    words: tuple[Tag, ...]
    entities: tuple[Entity, ...]


class Tagging(Kind):
    """The tag of each word of a text of any length.

    Its signature `text` splits a text into words and returns, each [N, W],
    `words`, `tags` string; `starts`, `ends` int32, in characters of the text,
    end exclusive; `probabilities` float32 of the tags. Rows with fewer than W
    words are padded with "", -1 and 0. The signature `words`, of `words`
    [N, W], returns `tags` and `probabilities`.
    """

    name = task = "tagging"
    weights = "tagging/"
    title, hub_task = "tagging of words", "token-classification"
    inputs = {TEXT: {"text": 1}, "words": {"words": 2}}
    expected = "a str, or a list of words that are not empty"
    options = ("doc_stride",)
    in_windows = True
    reads = tuple(_WORD.values())
    view = "tag"
    action = "Entities"
    hint = "Entities, or tags of words, are marked in the text."
    boxes = (Box("Text", 4, "Ann Lee went to Rome."),)

    def set_options(self, options):
        """Sets `doc_stride`: that of the options or of the model, or None."""
        self.doc_stride = options.doc_stride or self.metadata.get("doc_stride")

    @classmethod
    def fields_of(cls, value):
        """Returns `text` of a str, `words` of a list."""
        if isinstance(value, tuple | list):
            return {"words": list(value)}
        return {"text": value} if isinstance(value, str) else None

    def network(self, batch):
        """Returns `logits` [M, S, C] float32."""
        return {"logits": self.model(batch, training=False)["logits"]}

    def tag(self, words: tf.RaggedTensor):
        """Returns the best tags and their probabilities, each [N, (words)].

        Rows of any length are split into windows, as in `make_ner_records`.

        Args:
          words: [N, (words)] string.
        """
        windows = word_windows.make(
            words, self.tokenizer, self.max_seq_length, self.doc_stride
        )
        numbers = batches.in_parts(
            self.network,
            windows.inputs,
            {"logits": [self.max_seq_length, len(self.labels)]},
        )
        logits = tf.gather_nd(numbers["logits"], windows.positions)  # [T, C]
        best = tf.argmax(logits, axis=-1)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
        return (
            words.with_flat_values(tf.gather(tf.constant(self.labels), best)),
            words.with_flat_values(probabilities),
        )

    def make_signatures(self):
        """Returns `text` and `words`, see the class, and the tokenizer."""

        def of_text(text):
            split = raw_words.split(text)
            tags, probabilities = self.tag(split.words)
            return {
                "words": split.words.to_tensor(""),
                "tags": tags.to_tensor(""),
                "probabilities": probabilities.to_tensor(0.0),
                "starts": tf.cast(split.starts, tf.int32).to_tensor(-1),
                "ends": tf.cast(split.ends, tf.int32).to_tensor(-1),
            }

        @tf.function(
            input_signature=[tf.TensorSpec([None, None], tf.string)],
            autograph=False,
        )
        def of_words(words):
            indices = tf.where(words != "")  # [T, 2]
            shape = tf.shape(words, tf.int64)
            rows = tf.RaggedTensor.from_value_rowids(
                tf.gather_nd(words, indices), indices[:, 0], nrows=shape[0]
            )
            tags, probabilities = self.tag(rows)
            return {
                "tags": tf.tensor_scatter_nd_update(
                    tf.fill(shape, ""), indices, tags.flat_values
                ),
                "probabilities": tf.scatter_nd(
                    indices, probabilities.flat_values, shape
                ),
            }

        signatures = {TEXT: batches.of_texts(of_text), "words": of_words}
        return signatures, {"tokenizer": self.tokenizer}

    def rows_settings(self):
        """Returns `labels`, their number and `doc_stride`."""
        if self.doc_stride:
            word_windows.check_stride(self.max_seq_length, self.doc_stride)
        return {
            "labels": self.labels,
            "num_classes": len(self.labels),
            "doc_stride": self.doc_stride,
        }

    @classmethod
    def count(cls, outputs, fields):
        """Returns the number of words."""
        if "words" in fields:
            return len(fields["words"])
        return np.count_nonzero(outputs["words"][0] != b"")

    @classmethod
    def records(cls, fields, outputs, names):
        """Returns `words`, an object for each."""
        return {"words": columns_to_records(outputs, _WORD)}

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns a Tagged; places of given words are among the words."""
        if words := fields.get("words"):
            tags, probabilities = (
                plain(outputs[name])[0] for name in ("tags", "probabilities")
            )
            rows = enumerate(zip(words, tags, probabilities, strict=True))
            found = [Tag(w, tag, i, i + 1, p) for i, (w, tag, p) in rows]
        else:
            found = [Tag(**x) for x in columns_to_records(outputs, _WORD)]
        if not has_entities(labels):
            return Tagged(tuple(found), ())
        entities = find_entities(found, fields.get("text"), labels)
        return Tagged(tuple(found), tuple(entities))


def has_entities(labels: Sequence[str]) -> bool:
    """Returns whether all tags are O, or a letter of a scheme and a type."""
    return all(map(ner_files.TAG.fullmatch, labels))


def find_entities(
    tags: Sequence[Tag], text: str | None, labels: Sequence[str]
) -> list[Entity]:
    """Returns the entities of a text; of words if there is no text."""
    from bert_tf.tasks import ner_scores

    entities = []
    names = ner_files.entity_tags([tag.tag for tag in tags], labels)
    for first, last, label in sorted(ner_scores.find_entities(names)):
        inside = tags[first:last]
        start, end = inside[0].start, inside[-1].end
        words = " ".join(tag.word for tag in inside)
        entities.append(
            Entity(
                label,
                words if text is None else text[start:end],
                start,
                end,
                min(tag.probability for tag in inside),
            )
        )
    return entities
