import string
import sys
import unicodedata

import pytest
import tensorflow as tf
import tokenizer_cases

from tfrecords.text import vocab, words

reference = tokenizer_cases.reference


def split(texts, **rules):
    rows = words.split_words(tf.constant(texts), **rules).to_list()
    return [[word.decode() for word in row] for row in rows]


def assigned_characters():
    """Yields this Python's characters, except the docstring's differences."""
    changed = "\u1734" if unicodedata.unidata_version < "14" else ""
    for point in range(sys.maxunicode + 1):
        if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co"):
            if chr(point) not in changed:
                yield chr(point)


@pytest.mark.slow
@pytest.mark.parametrize("rules", tokenizer_cases.RULES, ids=str)
def test_every_assigned_character_is_split_as_in_the_original(rules):
    characters = list(assigned_characters())
    # Inside a word, alone and at the end.
    texts = [f"a{c}b {c} B{c}" for c in characters]
    wrong = [
        f"U+{ord(character):04X}"
        for character, text, found in zip(
            characters, texts, split(texts, **rules), strict=True
        )
        if found != reference.split_words(text, **rules)
    ]
    assert len(characters) > 140_000
    assert not wrong


def test_capitals_of_unicode_14_have_small_letters():
    texts = ["xA\ua7c0 \u2c2f\n", "\U00010570\U0001057b"]
    assert split(texts, do_lower_case=True) == [
        ["xa\ua7c1", "\u2c5f"],
        ["\U00010597\U0001057b"],
    ]
    assert split(["\ua7c0"], do_lower_case=False) == [["\ua7c0"]]


def test_accents_and_runs_of_chinese_characters_can_be_kept():
    texts = ["Élan e\u0301Σ, İI", "漢字 a漢"]
    assert split(texts, do_lower_case=True, strip_accents=False) == [
        ["élan", "e\u0301ς", ",", "i\u0307i"],
        ["漢", "字", "a", "漢"],
    ]
    assert split(
        texts,
        do_lower_case=False,
        strip_accents=True,
        tokenize_chinese_chars=False,
    ) == [["Elan", "eΣ", ",", "II"], ["漢字", "a漢"]]


def test_only_invalid_bytes_and_non_text_characters_are_dropped():
    texts = [b"a\x00\xff\xe4\xb8\tA\xcc\x81", "\u200b\u00adb\ufffd.\n".encode()]
    assert words.drop(tf.constant(texts)).numpy().tolist() == [
        b"a\tA\xcc\x81",
        b"b.\n",
    ]


def test_words_have_byte_offsets():
    cleaned = tf.constant(["an old,漢 é!", " ", ""])
    found, starts = words.split(cleaned)
    assert found.to_list()[0] == [
        word.encode() for word in ("an", "old", ",", "漢", "é", "!")
    ]
    assert starts.to_list() == [[0, 3, 6, 7, 11, 13], [], []]


def test_plain_strings_are_only_lower_cased_by_cleaning():
    plain = [string.printable.replace("\x0b\x0c", ""), "“a” — B…\u00a0漢，字"]
    other = ["é", "e\u0301", "a\x00", "a\x0b", "£", "ж", "가", "ａ", "\u200b"]
    texts = [text.encode() for text in [*plain, *other]] + [b"a\xff", b"\xe4"]
    found = words.is_plain(tf.constant(texts)).numpy().tolist()
    assert found == [True] * len(plain) + [False] * (len(texts) - len(plain))
    assert not words.is_plain(plain[1:], tokenize_chinese_chars=False)[0]
    cleaned = words.clean(tf.constant(plain), True).numpy().tolist()
    assert cleaned == tf.strings.lower(plain).numpy().tolist()


def test_texts_are_split_around_tokens():
    texts = ["a[M]b [M][MM] [m]", "", "\x00[M]", b"\xff[M\xe4\xb8"]
    found = words.split_around(tf.constant(texts), ["[M]", "[M", "a[M]b"])
    assert [[word.decode() for word in row] for row in found.to_list()] == [
        ["", "a[M]b", " ", "[M]", "", "[M", "M] [m]"],
        [""],
        ["\x00", "[M]", ""],
        ["\ufffd", "[M", "\ufffd"],
    ]
    awkward = ["<e 1>", "a|b", "^$", "ü*", "#-~", "\\d"]
    text = "".join(f"x{token}" for token in awkward)
    found = words.split_around(tf.constant([text]), awkward).to_list()[0]
    assert b"".join(found).decode() == text
    assert [word.decode() for word in found[1::2]] == awkward


def test_characters_are_space_punctuation_or_chinese():
    found = words.character_classes(
        tf.constant(["a", "\u3000", "\n", "$", "。", "人"])
    )
    assert [x.numpy().tolist() for x in found] == [
        [False, True, True, False, False, False],
        [False, False, False, True, True, False],
        [False, False, False, False, False, True],
    ]


# Entries that no text can give.


def warned(caplog, entries, kept=(), path="v.txt", **rules):
    caplog.clear()
    rules = vocab.all_rules_of({"do_lower_case": True} | rules)
    words.warn_of_unreachable(entries, path, rules, kept)
    return "".join(caplog.messages)


@pytest.mark.parametrize(
    ("entry", "rules", "words"),
    [
        ("Covid", {}, ["covid"]),
        ("covid-19", {}, ["covid", "-", "19"]),
        ("na\u00efve", {}, ["naive"]),
        ("new york", {}, ["new", "york"]),
        ("\u4e2d\u6587", {}, ["\u4e2d", "\u6587"]),
        ("[E1]", {}, ["[", "e1", "]"]),
        ("##Ab", {}, ["##ab"]),
        ("##a-b", {}, ["##a", "-", "b"]),
        ("ab-ab", {}, ["ab", "-", "ab"]),
        ("\uac00", {}, ["\u1100\u1161"]),  # Hangul becomes letters.
        ("U.S.", {"do_lower_case": False}, ["U", ".", "S", "."]),
        ("\u00e9", {"do_lower_case": False, "strip_accents": True}, ["e"]),
    ],
)
def test_a_word_that_the_tokenizer_never_makes_is_named(
    caplog, entry, rules, words
):
    entries = [*vocab.SPECIAL_TOKENS, entry, "of", "-", ".", "[", "]"]
    message = warned(caplog, entries, **rules)
    assert message.startswith("v.txt:6: no text can give 1 of 11 entries, ")
    read = ", ".join(map(repr, words))
    missing = next(x for x in words if x not in entries)
    wanted = f" {entry!r} on line 6 is read as {read}: write {missing!r}"
    assert wanted in message
    whole = [x.removeprefix("##") for x in words]
    settings = vocab.all_rules_of({"do_lower_case": True} | rules)
    piece = entry.removeprefix("##")
    assert tokenizer_cases.reference.split_words(piece, **settings) == whole
    # The advice works.
    entries[5:6] = dict.fromkeys(x for x in words if x not in entries)
    assert not warned(caplog, entries, **rules)


@pytest.mark.parametrize(
    ("entry", "settings"),
    [
        ("Covid", {"do_lower_case": False}),
        ("na\u00efve", {"strip_accents": False}),
        ("\u4e2d\u6587", {"tokenize_chinese_chars": False}),
        ("[E1]", {"kept": ["[E1]"]}),
        *(
            (x, {})
            for x in ("[unused7]", "covid", "##19", "-", "##-", "\u4e2d")
        ),
        *((x, {}) for x in ("##\u4e2d", "\u2028", "##", "")),
    ],
)
def test_other_entries_are_not_named(caplog, entry, settings):
    assert not warned(caplog, [*vocab.SPECIAL_TOKENS, entry, "a"], **settings)


def test_nothing_is_advised_twice_and_a_long_list_is_shortened(caplog):
    entries = [*vocab.SPECIAL_TOKENS, *(f"Word{i % 20}" for i in range(20))]
    message = warned(caplog, [*entries, "WORD0"])
    assert "'WORD0'" not in message and message.endswith("; 11 more.")
    message = warned(caplog, [*vocab.SPECIAL_TOKENS, "Word", "WORD"])
    assert message.endswith(
        "'WORD' on line 7 is read as 'word', which the vocabulary has."
    )
    # Of another tokenizer.
    assert not warned(caplog, [f"a-{i}" for i in range(1001)])
    message = warned(caplog, [f"Word{i}" for i in range(1001)])
    assert message.startswith("v.txt has entries with capitals or accents, ")
    assert "set do_lower_case=false, unless" in message


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("base-uncased", True),
        ("base-cased", False),
        ("base-multilingual-cased", False),
    ],
)
def test_released_vocabularies_have_no_such_entries(
    shared_data, caplog, name, lower
):
    path = shared_data / "vocab" / f"bert-{name}-vocab.txt"
    entries = vocab.read(str(path))
    assert not warned(caplog, entries, do_lower_case=lower)
    entries[1] = "Covid-19"
    assert "'Covid-19' on line 2" in warned(
        caplog, entries, do_lower_case=lower
    )
