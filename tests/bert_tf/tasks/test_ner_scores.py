"""ner_scores.py: entity and token F1; golden counts of conlleval.

The golden counts are "phrases", "found" and "correct" of conlleval.pl, version
2004-01-26, for files written by `random_file`.
"""

import random

import pytest

from bert_tf.tasks import ner_scores

# Phrases, found, correct of the first twelve random files.
FIRST = [
    *[(8, 8, 7), (23, 22, 19), (10, 9, 7), (3, 3, 3), (4, 5, 4), (18, 17, 13)],
    *[(8, 10, 7), (7, 6, 5), (19, 23, 14), (28, 28, 20), (16, 15, 15)],
    (27, 28, 20),
]
# Sums over the first 200 and 2000 files; each file was equal.
SUMS = {200: (3779, 3808, 2895), 2000: (36925, 37053, 27812)}


def random_file(rng):
    """Returns gold and predicted tags, which violate all schemes."""

    def pick(items):
        return items[int(rng.random() * len(items))]

    def tag():
        if rng.random() < 0.3:
            return "O"
        return f"{pick('BI')}-{pick(['PER', 'LOC', 'A-B'])}"

    gold = [
        [tag() for _ in range(1 + int(rng.random() * 12))]
        for _ in range(1 + int(rng.random() * 8))
    ]
    return gold, [
        [right if rng.random() < 0.75 else tag() for right in sentence]
        for sentence in gold
    ]


def test_counts_are_those_of_conlleval_on_2000_files():
    rng = random.Random(2003)
    sums = (0, 0, 0)
    for number in range(2000):
        counted = ner_scores.count(*random_file(rng))
        if number < len(FIRST):
            assert counted == FIRST[number]
        sums = tuple(a + b for a, b in zip(sums, counted, strict=True))
        if number + 1 in SUMS:
            assert sums == SUMS[number + 1]


@pytest.mark.parametrize(
    "tags, entities",
    [
        ("B-PER I-PER O I-LOC", {(0, 2, "PER"), (3, 4, "LOC")}),
        ("I-PER B-PER I-PER", {(0, 1, "PER"), (1, 3, "PER")}),
        ("B-PER I-LOC I-LOC", {(0, 1, "PER"), (1, 3, "LOC")}),
        ("O O", set()),
        ("B-A-B I-A-B B-A", {(0, 2, "A-B"), (2, 3, "A")}),
        ("", set()),
    ],
)
def test_entities_begin_at_b_and_where_the_type_is_new(tags, entities):
    assert ner_scores.extract_entities(tags.split()) == entities


def test_scores_of_an_example():
    gold = ["B-PER I-PER O B-LOC".split(), "B-ORG O".split()]
    predicted = ["B-PER O O B-LOC".split(), "B-PER O".split()]
    assert ner_scores.score(gold, predicted) == {
        "entity_precision": pytest.approx(1 / 3),
        "entity_recall": pytest.approx(1 / 3),
        "entity_f1": pytest.approx(1 / 3),
        # B-PER and B-LOC are right, of 4 gold and 3 predicted tags.
        "token_f1": pytest.approx(2 * 2 / (4 + 3)),
    }


def test_scores_without_gold_entities_are_zero():
    assert set(ner_scores.score([["O", "O"]], [["O", "O"]]).values()) == {0.0}
    found = ner_scores.score([["O"]], [["B-PER"]])
    assert set(found.values()) == {0.0}


def test_an_entity_ends_with_its_sentence():
    assert ner_scores.count([["I-PER"], ["I-PER"]], [["I-PER"], ["O"]]) == (
        *(2, 1, 1),
    )


def test_different_numbers_of_tags_raise():
    with pytest.raises(
        ValueError, match="2 predicted tags in 1 .* 3 gold tags in 2"
    ):
        ner_scores.score([["O", "O"], ["O"]], [["O", "O"]])


def test_words_get_their_most_frequent_tag():
    words = "Ada was Ada of Ada x x".split()
    tags = "B-PER O B-PER O O I-ORG B-ORG".split()
    found = ner_scores.tag_by_majority(
        words, tags, [["Ada", "x"], ["new", "was"]]
    )
    assert found == [["B-PER", "B-ORG"], ["O", "O"]]


def test_accuracy_is_the_fraction_of_words_with_the_right_tag():
    gold = [["DET", "NOUN"], ["VERB"]]
    assert ner_scores.accuracy(gold, gold) == 1
    found = ner_scores.accuracy(gold, [["DET", "VERB"], ["NOUN"]])
    assert found == pytest.approx(1 / 3)
    assert ner_scores.accuracy([], []) == 0
    with pytest.raises(ValueError, match="2 predicted tags in 1 sentences"):
        ner_scores.accuracy(gold, [["DET", "NOUN"]])


def test_unknown_words_have_the_most_frequent_tag_if_none_is_given():
    words, tags = ["a", "a", "b", "c"], ["D", "D", "N", "N"]
    rows = [["a", "b", "z"]]
    # D and N are equally frequent: the first of the alphabet.
    assert ner_scores.tag_by_majority(words, tags, rows, None) == [
        ["D", "N", "D"]
    ]
    assert ner_scores.tag_by_majority(words, tags, rows) == [["D", "N", "O"]]
