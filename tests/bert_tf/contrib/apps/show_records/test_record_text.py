"""record_text.py: examples as readable text."""

import numpy as np

from bert_tf.contrib.apps.show_records import record_text
from tfrecords.text import vocab

ENTRIES = [*vocab.SPECIAL_TOKENS, "the", "look", "##ed", "sea", "gull"]
# [CLS] the look ##ed [SEP] sea [UNK] gull [SEP] and padding.
ORIGINAL = [2, 5, 6, 7, 3, 8, 1, 9, 3, 0, 0]


def example(masked):
    """Returns features; `masked` maps positions to the ids shown there."""
    ids = np.array(ORIGINAL)
    positions = list(masked)
    for position in positions:
        ids[position] = masked[position]
    unused = [0] * (4 - len(positions))
    return {
        "input_word_ids": ids,
        "input_mask": np.array([1] * 9 + [0] * 2),
        "input_type_ids": np.array([0] * 5 + [1] * 4 + [0] * 2),
        "masked_lm_positions": np.array(positions + unused),
        "masked_lm_ids": np.array([ORIGINAL[p] for p in positions] + unused),
        "masked_lm_weights": np.array([1.0] * len(positions) + unused),
    }


def lines(masked, entries=ENTRIES):
    return record_text.segments(record_text.pieces(example(masked), entries))


def test_pieces_are_joined_and_keep_their_marks():
    assert lines({}) == ["A [CLS] the look##ed [SEP]", "B sea [UNK] gull [SEP]"]


def test_a_truncated_word_is_not_joined_to_a_special_token():
    cut = example({})
    cut["input_word_ids"][1] = 7
    found = record_text.segments(record_text.pieces(cut, ENTRIES))
    assert found[0] == "A [CLS] ##ed look##ed [SEP]"


def test_masked_tokens_show_original_and_replacement():
    assert lines({1: 4, 3: 4, 5: 9, 7: 9}) == [
        "A [CLS] {the -> [MASK]} look{##ed -> [MASK]} [SEP]",
        "B {sea -> gull} [UNK] {gull = kept} [SEP]",
    ]


def test_each_token_has_its_kind():
    found = record_text.pieces(example({1: 4, 5: 9, 7: 9}), ENTRIES)
    assert [piece.kind for piece in found] == [
        *("special", "mask", "text", "text", "special"),
        *("random", "unknown", "kept", "special"),
    ]
    assert [piece.segment for piece in found] == [0] * 5 + [1] * 4


def test_a_random_special_token_has_the_kind_random():
    (piece,) = [
        piece
        for piece in record_text.pieces(example({5: 3}), ENTRIES)
        if piece.kind == "random"
    ]
    assert piece == record_text.Piece("[SEP]", "sea", "random", 1)


def test_each_piece_is_painted():
    found = record_text.pieces(example({3: 4}), ENTRIES)
    painted = record_text.segments(
        found, lambda text, piece: f"<{text}|{piece.kind}>"
    )
    assert painted[0] == (
        "A <[CLS]|special> <the|text> <look|text><{##ed -> [MASK]}|mask> "
        "<[SEP]|special>"
    )


def test_without_a_vocabulary_ids_are_shown():
    assert lines({1: 4}, None)[0] == "A <2> {<5> -> <4>} <6> <7> <3>"
    assert lines({1: 99})[0].startswith("A [CLS] {the -> <99>} look")


def test_examples_without_masks_are_shown():
    plain = example({})
    plain = {n: x for n, x in plain.items() if n.startswith("input")}
    found = record_text.segments(record_text.pieces(plain, ENTRIES))
    assert found == lines({})


def test_labels_have_their_names():
    describe = record_text.describe_label
    assert describe("next_sentence_labels", 1, {}) == (
        "next_sentence_labels 1: random"
    )
    assert describe(
        "next_sentence_labels", 1, {"pairs": "sentence_order"}
    ).endswith("1: swapped")
    flags = {"labels": ["bad", "good"]}
    assert describe("label_ids", 0, flags) == "label_ids 0: bad"
    assert describe("label_ids", 7, flags) == "label_ids 7"
    assert describe("label_ids", 0, {}) == "label_ids 0"
    assert describe("label_scores", 3.5, {"labels": []}) == "label_scores 3.5"
    describe = record_text.describe_labels
    names = {"labels": ["bad", "good", "long"]}
    assert describe(np.array([1.0, 0.0, 1.0]), names) == "labels bad, long"
    assert describe(np.array([0.0, 1.0]), {}) == "labels 1"
    assert describe(np.zeros(3), names) == "labels none"


def test_tags_are_named_with_their_words():
    entries = ["[PAD]", "[CLS]", "[SEP]", "a", "##b", "c"]
    example = {
        "input_word_ids": np.array([1, 3, 4, 5, 2, 0]),
        "input_mask": np.array([1, 1, 1, 1, 1, 0]),
        "input_type_ids": np.zeros(6, int),
        "tag_ids": np.array([0, 1, 0, 0, 0, 0]),
        "tag_weights": np.array([0, 1, 0, 1, 0, 0], np.float32),
    }
    found = record_text.pieces(example, entries)
    for flags, name in (({"labels": ["O", "B-X"]}, "B-X"), ({}, "<1>")):
        text = record_text.describe_tags(example, found, flags)
        assert text.startswith(f"2 words tagged, a##b {name}")


def test_passages_of_a_list_have_their_grades():
    words = {n: x for n, x in example({}).items() if "masked" not in n}
    more = {
        "passage_grades": np.array([2.0, 0.0, 0.0], np.float32),
        "passage_weights": np.array([1.0, 1.0, 0.0], np.float32),
    }
    shown = [
        next(record_text._example_lines(given, ENTRIES, {}, False))
        for given in (words | more | {"choices": i} for i in range(3))
    ]
    assert shown == [
        f"  choice {i}, {said}, 9 tokens of 11, 1 [UNK]"
        for i, said in enumerate(["grade 2", "grade 0", "missing"])
    ]
