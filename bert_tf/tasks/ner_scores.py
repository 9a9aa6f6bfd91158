"""Gold and predicted tags of sentences -> entity F1 as in conlleval, token F1.

Entities are defined as in conlleval (Erik Tjong Kim Sang, version of
2004-01-26; tags B- and I-), even if tags violate IOB2. An entity begins at B-,
and at an I- that does not continue an entity of the same type. A predicted
entity is correct if its type, begin and end are. seqeval gives the same
numbers, but has no wheel and no release since 2020.
"""

import collections
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from tfrecords.tasks.ner_files import OUTSIDE


def extract_entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Returns (first word, exclusive end, type) of a sentence's entities.

    Args:
      tags: O, B-type or I-type; in IOB1, IOB2 or neither.
    """
    entities, first = set(), 0
    for position, (before, tag) in enumerate(
        itertools.pairwise([OUTSIDE, *tags, OUTSIDE])
    ):
        if tag[0] == "I" and before[2:] == tag[2:]:
            continue  # Inside of the entity.
        if before != OUTSIDE:
            entities.add((first, position, before[2:]))
        first = position
    return entities


def count(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> tuple[int, int, int]:
    """Returns the numbers of gold, of predicted and of correct entities.

    Args:
      gold: tags of each sentence.
      predicted: tags of each sentence.

    Raises:
      ValueError: if the sentences differ in their numbers of tags.
    """
    _check_lengths(gold, predicted)
    counts = np.zeros(3, int)
    for pair in zip(gold, predicted, strict=True):
        wanted, found = map(extract_entities, pair)
        counts += len(wanted), len(found), len(wanted & found)
    return tuple(counts.tolist())


def accuracy(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """Returns the fraction of words with the right tag; 0 without words.

    Args:
      gold: tags of each sentence.
      predicted: tags of each sentence.

    Raises:
      ValueError: as in `count`.
    """
    _check_lengths(gold, predicted)
    pairs = [
        pair
        for sides in zip(gold, predicted, strict=True)
        for pair in zip(*sides, strict=True)
    ]
    right = sum(wanted == found for wanted, found in pairs)
    return right / len(pairs) if pairs else 0.0


def _check_lengths(gold, predicted) -> None:
    if list(map(len, gold)) != list(map(len, predicted)):
        raise ValueError(
            f"{sum(map(len, predicted))} predicted tags in {len(predicted)} "
            f"sentences, and {sum(map(len, gold))} gold tags in {len(gold)}. "
            "Each sentence needs as many predicted as gold tags."
        )


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns scores in [0, 1]; 0 where the divisor is 0.

    Args:
      gold: tags of each sentence, in IOB2.
      predicted: tags of each sentence; they may violate the scheme.

    Returns:
      `entity_precision`, `entity_recall` and `entity_f1`, which conlleval
      prints in percent; and `token_f1`, the micro-averaged F1 of all tags
      except O.

    Raises:
      ValueError: as in `count`.
    """
    wanted, found, right = count(gold, predicted)
    tags = [[t for s in side for t in s] for side in (gold, predicted)]
    named = sum(tag != OUTSIDE for side in tags for tag in side)
    same = sum(x == y != OUTSIDE for x, y in zip(*tags, strict=True))
    return {
        "entity_precision": right / found if found else 0.0,
        "entity_recall": right / wanted if wanted else 0.0,
        "entity_f1": 2 * right / (wanted + found) if right else 0.0,
        "token_f1": 2 * same / named if named else 0.0,
    }


def tag_by_majority(
    words: Iterable[str],
    tags: Iterable[str],
    sentences: Sequence[Sequence[str]],
    unknown: str | None = OUTSIDE,
) -> list[list[str]]:
    """Returns the most frequent tag of each word.

    This baseline is a tagger that uses no context.

    Args:
      words: words of the training file.
      tags: tags of these words.
      sentences: words of each sentence to tag.
      unknown: tag of unknown words; None for the most frequent of all tags.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
    # Of equally frequent tags, the first in alphabetical order.
    best = {
        word: min(found, key=lambda tag: (-found[tag], tag))
        for word, found in counts.items()
    }
    if unknown is None:
        total = sum(counts.values(), collections.Counter())
        unknown = min(total, key=lambda tag: (-total[tag], tag))
    return [[best.get(word, unknown) for word in row] for row in sentences]
