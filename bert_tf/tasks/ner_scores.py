"""Gold and predicted tags of sentences -> entity and token F1, as conlleval's.

What counts as an entity, also where tags break their scheme, is as in
conlleval (Erik Tjong Kim Sang, version of 2004-01-26; tags B- and I-): one
begins at B-, and at I- where no entity of its type stands before; and an entity
is right if its type, its begin and its end are. seqeval gives the same numbers;
it has no wheel, and no release since 2020.
"""

import collections
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
    for place, (before, tag) in enumerate(
        zip([_OUTSIDE, *tags], [*tags, _OUTSIDE], strict=True)
    ):
        goes_on = tag[0] == "I" and before[2:] == tag[2:]
        if before != _OUTSIDE and not goes_on:
            entities.add((first, place, before[2:]))
        if not goes_on:
            first = place
    return entities


def count(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> tuple[int, int, int]:
    """Returns how many entities there are, are found, and are found rightly.

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
    wanted, found, right = 0, 0, 0
    for sentence, answer in zip(gold, predicted, strict=True):
        entities, answers = find_entities(sentence), find_entities(answer)
        wanted += len(entities)
        found += len(answers)
        right += len(entities & answers)
    return wanted, found, right


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
