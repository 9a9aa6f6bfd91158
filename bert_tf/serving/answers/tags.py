"""Texts or words -> the tag of each word, and entities.

Shapes: N texts, W maximum words per text, T words in total, C tags, M windows,
S max_seq_length.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_tf.serving.answers.kind import (
    columns_to_records,
    plain,
    require_labels,
)
from bert_tf.serving.word_kind import WordKind
from tfrecords.tasks import ner_files

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
      start, end: its characters in the text, end exclusive; of given words,
        their numbers.
      probability: of the tag.
    """

    word: str
    tag: str
    start: int
    end: int
    probability: float


class Entity(NamedTuple):
    """An entity: adjacent words with tags B- and I- of a type.

    Attributes:
      label: its type, such as PER.
      text: its text; if words were given, these joined with spaces.
      start, end: where it is, as of a Tag.
      probability: the lowest of its words' tags.
    """

    label: str
    text: str
    start: int
    end: int
    probability: float


class Tagged(NamedTuple):
    """Tags of all words; entities if the tags are O, B-type and I-type."""

    words: tuple[Tag, ...]
    entities: tuple[Entity, ...]


class Tagging(WordKind):
    """The tag of each word of a text of any length.

    Its signatures `text` and `words` return `tags` string and `probabilities`
    float32 of the tags, [N, W], "" and 0 at padding; see `WordKind`.
    """

    name = task = "tagging"
    weights = "tagging/"
    record_outputs = tuple(_WORD.values())
    signature_outputs = ("tags", "probabilities")

    def set_options(self, options):
        """Sets `doc_stride`; raises ValueError if the model has no tags."""
        super().set_options(options)
        require_labels(self)

    def network(self, batch):
        """Returns `logits` [M, S, C] float32."""
        return {"logits": self.model(batch, training=False)["logits"]}

    def token_shapes(self):
        """Returns the shape of the logits."""
        return {"logits": [self.max_seq_length, len(self.labels)]}

    def of_words(self, numbers):
        """Returns the best tags, and their probabilities."""
        logits = numbers["logits"]  # [T, C]
        best = tf.argmax(logits, axis=-1)
        return {
            "tags": tf.gather(tf.constant(self.labels), best),
            "probabilities": tf.reduce_max(tf.nn.softmax(logits), axis=-1),
        }

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
        entities = extract_entities(found, fields.get("text"), labels)
        return Tagged(tuple(found), tuple(entities))


def has_entities(labels: Sequence[str]) -> bool:
    """Returns whether all tags are O, or a letter of a scheme and a type."""
    return all(map(ner_files.TAG.fullmatch, labels))


def extract_entities(
    tags: Sequence[Tag], text: str | None, labels: Sequence[str]
) -> list[Entity]:
    """Returns the entities of a text; of words if there is no text."""
    from bert_tf.tasks import ner_scores

    entities = []
    names = ner_files.entity_tags([tag.tag for tag in tags], labels)
    for first, last, label in sorted(ner_scores.extract_entities(names)):
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
