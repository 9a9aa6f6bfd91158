"""Gold and predicted tags of sentences -> entity and token F1, as conlleval's.

What counts as an entity, also where tags break their scheme, is as in
conlleval (Erik Tjong Kim Sang, version of 2004-01-26; tags B- and I-): one
begins at B-, and at I- where no entity of its type stands before; and an entity
is right if its type, its begin and its end are. seqeval gives the same numbers;
it has no wheel, and no release since 2020.
"""

import collections
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import sklearn.metrics

_OUTSIDE = "O"


def find_entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Returns (first word, end, type) of each entity of a sentence.

    Args:
      tags: O, B-type or I-type; in IOB1, in IOB2 or in neither.
    """
    entities, first = set(), 0
    for position, (before, tag) in enumerate(
        itertools.pairwise([_OUTSIDE, *tags, _OUTSIDE])
    ):
        if tag[0] == "I" and before[2:] == tag[2:]:
            continue  # Inside of the entity.
        if before != _OUTSIDE:
            entities.add((first, position, before[2:]))
        first = position
    return entities


def count(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> tuple[int, int, int]:
    """Returns how many entities are gold, are predicted, and are both.

    Args:
      gold: tags of each sentence.
      predicted: the same.

    Raises:
      ValueError: if the two are not of the same words.
    """
    if list(map(len, gold)) != list(map(len, predicted)):
        raise ValueError(
            f"{sum(map(len, predicted))} predicted tags in {len(predicted)} "
            f"sentences, for {sum(map(len, gold))} words in {len(gold)}; each "
            "word needs one."
        )
    counts = np.zeros(3, int)
    for pair in zip(gold, predicted, strict=True):
        wanted, found = map(find_entities, pair)
        counts += len(wanted), len(found), len(wanted & found)
    return tuple(counts.tolist())


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns scores in [0, 1]; 0 where there is nothing to divide by.

    Args:
      gold: tags of each sentence, IOB2.
      predicted: the same; they may break the scheme.

    Returns:
      `entity_precision`, `entity_recall` and `entity_f1`, which conlleval
      gives in percent; and `token_f1`, of words whose tags are not O, each
      right if it has the very tag.

    Raises:
      ValueError: as `count`.
    """
    wanted, found, right = count(gold, predicted)
    tags = [
        np.array([t for s in side for t in s]) for side in (gold, predicted)
    ]
    named = sorted(set(np.concatenate(tags).tolist()) - {_OUTSIDE})
    token_f1 = 0.0
    if named:
        token_f1 = sklearn.metrics.f1_score(
            *tags, labels=named, average="micro", zero_division=0.0
        )
    return {
        "entity_precision": right / found if found else 0.0,
        "entity_recall": right / wanted if wanted else 0.0,
        "entity_f1": 2 * right / (wanted + found) if right else 0.0,
        "token_f1": float(token_f1),
    }


def tag_by_majority(
    words: Iterable[str], tags: Iterable[str], asked: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Returns the most frequent tag of each word, O for words never seen.

    What a tagger that reads no context can know, to compare with.

    Args:
      words: of the training file.
      tags: of these words.
      asked: words of each sentence to tag.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
    # Of equally frequent ones the first in the alphabet.
    best = {
        word: min(found, key=lambda tag: (-found[tag], tag))
        for word, found in counts.items()
    }
    return [[best.get(word, _OUTSIDE) for word in row] for row in asked]
