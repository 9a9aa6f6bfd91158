import sys

import pytest
import tensorflow as tf

from tfrecords.text import vocab, word_pieces, words

ENTRIES = [*vocab.SPECIAL_TOKENS, "in", "##to", "the", "é", "##é", ",", "漢"]


@pytest.fixture(scope="module")
def ours():
    return word_pieces.WordPieces(ENTRIES)


def to_lists(pieces):
    ids, starts, ends = (ragged.to_list() for ragged in pieces)
    return [
        [(ENTRIES[i], *offsets) for i, *offsets in zip(*row, strict=True)]
        for row in zip(ids, starts, ends, strict=True)
    ]


def test_pieces_have_byte_offsets(ours):
    texts = ["into,the", "é ééé漢 in", "", "intox the", "é\u2028éx,é"]
    assert to_lists(ours(tf.constant(texts))) == [
        [("in", 0, 2), ("##to", 2, 4), (",", 4, 5), ("the", 5, 8)],
        [
            *(("é", 0, 2), ("é", 3, 5), ("##é", 5, 7), ("##é", 7, 9)),
            *(("漢", 9, 12), ("in", 13, 15)),
        ],
        [],
        [("[UNK]", 0, 5), ("the", 6, 9)],
        [("é", 0, 2), ("[UNK]", 5, 8), (",", 8, 9), ("é", 9, 11)],
    ]


def test_entries_that_no_text_can_match_only_count():
    """tf.text itself refuses zero bytes and an entry that is there twice."""
    unmatched = ["", "a b", "\u2028", "\u2028", "i\0n", "", "##\u2028"]
    entries = [*ENTRIES[:5], *unmatched, *ENTRIES[5:]]
    both = [word_pieces.WordPieces(x) for x in (ENTRIES, entries)]
    texts = tf.constant(["into\u2028the, a b", "é\u2028é i\0n ##", "x", ""])
    one, other = (pieces(texts).ids.to_list() for pieces in both)
    shifted = [[i + 7 * (i > 4) for i in row] for row in one]
    assert other == shifted and other[0][0] == 12


def test_words_are_limited_by_characters_not_bytes(ours):
    texts = ["é" * 200, "é" * 201, "in" * 100, "in" + "to" * 99, "into" * 51]
    found = to_lists(ours(tf.constant(texts)))
    assert len(found[0]) == 200 and found[0][-1] == ("##é", 398, 400)
    assert found[1] == [("[UNK]", 0, 402)]
    assert found[2] == [("[UNK]", 0, 200)]
    assert len(found[3]) == 100
    assert found[4] == [("[UNK]", 0, 204)]


def test_both_paths_agree_on_every_plain_character(ours):
    characters = [
        chr(point)
        for point in range(sys.maxunicode + 1)
        if not 0xD800 <= point < 0xE000
    ]
    is_plain = words.is_plain(tf.constant(characters)).numpy()
    plain = [c for c, is_so in zip(characters, is_plain, strict=True) if is_so]
    assert 27_000 < len(plain) < 28_000
    # 100 characters per text: between words, at ends, alone, twice.
    texts = tf.constant(
        [
            " ".join(f"in{c}the,{c} {c}{c}in" for c in plain[i : i + 100])
            for i in range(0, len(plain), 100)
        ]
    )
    texts = tf.strings.lower(texts)
    fast, general = ours.split_plain(texts), ours._split(texts)
    for one, other in zip(fast, general, strict=True):
        assert one.to_list() == other.to_list()
