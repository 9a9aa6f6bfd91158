"""raw_words.py: words of raw strings and their offsets."""

import tensorflow as tf

from tfrecords.text import raw_words


def split(*texts):
    found = raw_words.split(tf.constant(texts, tf.string))
    rows = []
    for text, *parts in zip(
        texts, *(part.to_list() for part in found), strict=True
    ):
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        row = []
        for word, start, end in zip(*parts, strict=True):
            assert word.decode() == text[start:end]
            row.append(word.decode())
        rows.append(row)
    return rows


def test_punctuation_around_words_is_split_off_and_inside_is_kept():
    assert split(
        '"Jobs", said the U.N. (in 1996-08-22) all-rounder\'s!?', "a.b ."
    ) == [
        [
            *['"', "Jobs", '"', ",", "said", "the", "U.N", ".", "("],
            *["in", "1996-08-22", ")", "all-rounder's", "!", "?"],
        ],
        ["a.b", "."],
    ]


def test_empty_strings_and_spaces_have_no_words():
    assert split("", " \t\n ", "x", "") == [[], [], ["x"], []]
    assert split("") == [[]]
    found = raw_words.split(tf.zeros([0], tf.string))
    assert found.words.nrows() == 0


def test_a_word_ends_with_its_string():
    assert split("ab", "cd", "...", "ef.") == [
        ["ab"],
        ["cd"],
        [".", ".", "."],
        ["ef", "."],
    ]


def test_offsets_count_characters_of_any_script():
    assert split("Zürich—Köln 日本 人。\u3000e\u0301té", b"a\xff b") == [
        ["Zürich—Köln", "日", "本", "人", "。", "e\u0301té"],
        ["a\ufffd", "b"],
    ]


def test_graph_and_eager_mode_give_the_same_words():
    graph = tf.function(
        raw_words.split,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    for texts in (["(a b)", "", "c!"], []):
        texts = tf.constant(texts, tf.string)
        for part, eager in zip(
            graph(texts), raw_words.split(texts), strict=True
        ):
            assert part.to_list() == eager.to_list()
