"""One row and its outputs of a model -> typed answer.

Probabilities are float32, in their shortest decimal form. Begins and ends are
in characters of the text, end exclusive: `text[begin:end]`; for text given as
words, in words.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.serving import row_outputs
from tfrecords.tasks import ner_files

_Outputs = Mapping[str, np.ndarray]  # From `row_outputs.compute`.


class Label(NamedTuple):
    """The likeliest class of a text or pair.

    Attributes:
      label: its name.
      probability: its probability.
      probabilities: name -> probability of every class.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


class Score(NamedTuple):
    """The score of a text or pair."""

    score: float


class Answer(NamedTuple):
    """The answer to a question.

    Attributes:
      text: part of the passage; "" for no answer.
      begin, end: where it is in the passage; -1 for no answer.
      probability: among the answers in `nbest`.
      nbest: the best answers, best first; empty for these.
    """

    text: str
    begin: int
    end: int
    probability: float
    nbest: tuple["Answer", ...] = ()


class Tag(NamedTuple):
    """The tag of a word, where the word is, and the tag's probability."""

    word: str
    tag: str
    begin: int
    end: int
    probability: float


class Entity(NamedTuple):
    """An entity: adjacent words with tags B- and I- of a type.

    Attributes:
      label: its type, such as PER.
      text: its text; if words were given, these joined with spaces.
      begin, end: where it is.
      probability: the lowest of its words' tags.
    """

    label: str
    text: str
    begin: int
    end: int
    probability: float


class Tagged(NamedTuple):
    """Tags of all words; entities if the tags are O, B-type and I-type."""

    words: tuple[Tag, ...]
    entities: tuple[Entity, ...]


class FilledMask(NamedTuple):
    """A candidate for a [MASK], and the text with it."""

    token: str
    probability: float
    text: str


class Filled(NamedTuple):
    """A text with the best candidates, and all for each [MASK], best first."""

    text: str
    masks: tuple[tuple[FilledMask, ...], ...]


class Choice(NamedTuple):
    """The best ending: its index, from 0, its text; probabilities of all."""

    index: int
    text: str
    probabilities: tuple[float, ...]


def make(
    kind: str, fields: Mapping[str, Any], outputs: _Outputs, labels
) -> tuple | np.ndarray:
    """Returns the answer for one row.

    Args:
      kind: a key of `kinds.WEIGHTS`, except "encoder".
      fields: inputs of the row.
      outputs: its outputs, [1, ...].
      labels: class names, for classification and tagging.

    Returns:
      One of the classes above; for sentence_embedding, the vector, [H] float32.
    """
    if kind == "sentence_embedding":
        return outputs["embedding"][0]
    if kind == "question_answering":
        return _answer(outputs)
    if kind == "tagging":
        return _tagged(fields, outputs, labels)
    if kind == "fill_mask":
        return _filled(fields["text"], outputs)
    values = {name: row_outputs.plain(x)[0] for name, x in outputs.items()}
    if kind == "regression":
        return Score(values["score"])
    if kind == "multiple_choice":
        scores = tuple(values["probabilities"])
        return Choice(values["choice"], values["ending"], scores)
    probabilities = dict(zip(labels, values["probabilities"], strict=True))
    label = values["label"]
    return Label(label, probabilities[label], probabilities)


def _answer(outputs: _Outputs) -> Answer:
    names = ("answer", "start", "end", "probability")
    best = [row_outputs.plain(outputs[name])[0] for name in names]
    nbest = row_outputs.records(outputs, row_outputs.ANSWER)
    return Answer(
        *best, tuple(Answer(*(row[name] for name in names)) for row in nbest)
    )


def _tagged(fields, outputs: _Outputs, labels: Sequence[str]) -> Tagged:
    if "words" in fields:
        words = fields["words"]
        columns = [
            words,
            row_outputs.plain(outputs["tags"])[0],
            range(len(words)),
            range(1, len(words) + 1),
            row_outputs.plain(outputs["probabilities"])[0],
        ]
        rows = zip(*columns, strict=True)
    else:
        rows = [
            (x["word"], x["tag"], x["start"], x["end"], x["probability"])
            for x in row_outputs.records(outputs, row_outputs.WORD)
        ]
    tags = tuple(Tag(*row) for row in rows)
    if not has_entities(labels):
        return Tagged(tags, ())
    return Tagged(tags, _entities(tags, fields.get("text"), labels))


def has_entities(labels: Sequence[str]) -> bool:
    """Returns whether all tags are O, or a letter of a scheme and a type."""
    return all(map(ner_files.TAG.fullmatch, labels))


def _entities(
    tags: Sequence[Tag], text: str | None, labels: Sequence[str]
) -> tuple[Entity, ...]:
    from bert_tf.tasks import ner_scores

    entities = []
    names = ner_files.entity_tags([tag.tag for tag in tags], labels)
    found = ner_scores.find_entities(names)
    for first, last, label in sorted(found):
        inside = tags[first:last]
        begin, end = inside[0].begin, inside[-1].end
        words = " ".join(tag.word for tag in inside)
        entities.append(
            Entity(
                label,
                words if text is None else text[begin:end],
                begin,
                end,
                min(tag.probability for tag in inside),
            )
        )
    return tuple(entities)


def _filled(text: str, outputs: _Outputs) -> Filled:
    filled = row_outputs.fill_masks(
        text, outputs["tokens"][0], outputs["probabilities"][0]
    )
    masks = tuple(
        tuple(
            FilledMask(x["token"], x["probability"], x["filled"])
            for x in candidates
        )
        for candidates in filled["masks"]
    )
    return Filled(filled["filled"], masks)
