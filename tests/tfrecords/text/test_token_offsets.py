import gzip
import json

import hypothesis
import pytest
import tensorflow as tf
import tokenizer_cases
from hypothesis import strategies

from tfrecords.text import tokenizer, vocab

reference = tokenizer_cases.reference
RANDOM = hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
KEPT = ("[MASK]", "[SEP]", "the", "[CLS]", "aé")


def compile(function):
    """Compiles to a graph, in which random examples run faster."""
    spec = [tf.TensorSpec([None], tf.string)]
    return tf.function(function, spec, autograph=False)


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab.write(tokenizer_cases.ENTRIES, str(path))
    return str(path)


@pytest.fixture(scope="module", params=tokenizer_cases.RULES, ids=str)
def ours(request, vocab_file):
    found = tokenizer.BertTokenizer(vocab_file, **request.param)
    found.locate = compile(found.tokenize_with_offsets)
    found.tokenize = compile(found)
    return found


@pytest.fixture(scope="module")
def keeping(ours, vocab_file):
    found = tokenizer.BertTokenizer(vocab_file, kept_tokens=KEPT, **ours.rules)
    found.locate = compile(found.tokenize_with_offsets)
    found.tokenize = compile(found)
    return found


def located(ours, texts):
    """Returns [(token, start, end), ...] of each text; checks the ids."""
    ids, starts, ends = ours.locate(tf.constant(texts, tf.string))
    assert [ragged.dtype for ragged in (ids, starts, ends)] == [tf.int32] * 3
    ids, starts, ends = (ragged.to_list() for ragged in (ids, starts, ends))
    assert ids == ours.tokenize(tf.constant(texts, tf.string)).to_list()
    tokens = ([ours.vocab[i] for i in row] for row in ids)
    return [
        list(zip(*row, strict=True))
        for row in zip(tokens, starts, ends, strict=True)
    ]


def expected(ours, texts):
    entries = set(ours.vocab)
    return [
        reference.tokenize_with_offsets(text, entries, **ours.rules)
        for text in texts
    ]


def expected_around(ours, texts):
    entries = set(ours.vocab)
    return [
        reference.tokenize_around(text, KEPT, entries, **ours.rules)
        for text in texts
    ]


def surfaces(ours, text):
    """Returns (token, the raw text at its offsets) for the tokens of a text."""
    return [
        (token, text[start:end])
        for token, start, end in located(ours, [text])[0]
    ]


def test_tokens_of_ascii_equal_the_text_at_their_offsets(ours):
    text = "in\tthe  unable,tion!\nin-the1"
    for token, surface in surfaces(ours, text):
        assert token.removeprefix("##") == surface


def test_offsets_count_characters_of_the_raw_string(vocab_file):
    ours = tokenizer.BertTokenizer(vocab_file)
    ours.locate, ours.tokenize = ours.tokenize_with_offsets, ours
    # Stripped accents belong to their character; dropped characters to none.
    assert surfaces(ours, "ÉE\u0301 E\u200b\u0301\u00ad, \u0301la") == [
        *(("e", "É"), ("##e", "E\u0301"), ("e", "E\u200b\u0301"), (",", ",")),
        *(("l", "l"), ("##a", "a")),
    ]
    # İ is two characters in lower case, but one without accents.
    assert surfaces(ours, "\ufeffİ\x00N") == [("in", "İ\x00N")]
    assert surfaces(ours, "a漢\u302a\u0301b") == [
        ("a", "a"),
        ("漢", "漢\u302a\u0301"),
        ("b", "b"),
    ]
    # A syllable of three letters, each an entry.
    assert surfaces(ours, "각a") == [
        *(("ᄀ", "각"), ("##ᅡ", "각"), ("##ᆨ", "각"), ("##a", "a"))
    ]
    unknown = "Zz" + "e\u0301" * 200
    assert surfaces(ours, f"in {unknown}, in") == [
        *(("in", "in"), ("[UNK]", unknown), (",", ","), ("in", "in"))
    ]


def test_invalid_bytes_count_as_in_python(ours):
    text = b"\xffin \xe4\xb8 in\xf0\x9fthe\xed\xa0\x80"
    typed = text.decode("utf-8", "replace")
    assert [
        typed[start:end].replace("\ufffd", "")
        for _, start, end in located(ours, [text])[0]
    ] == ["in", "in", "the"]


def test_offsets_of_tricky_strings_equal_the_reference(ours):
    texts = [*tokenizer_cases.TRICKY, *tokenizer_cases.MARKS]
    assert located(ours, texts) == expected(ours, texts)
    invalid = tokenizer_cases.INVALID
    assert located(ours, invalid) == expected(ours, invalid)


def test_offsets_do_not_depend_on_other_strings(ours):
    # Accents at the start of strings, after strings with various endings.
    texts = ["a", "\u0301in", "", "a\u200b", "\u0301", "\u0301", "é", "the"]
    together = located(ours, texts)
    assert together == [located(ours, [text])[0] for text in texts]
    assert together == expected(ours, texts)
    assert located(ours, []) == []


@RANDOM
@hypothesis.given(
    strategies.lists(tokenizer_cases.TEXT, min_size=1, max_size=30)
)
def test_offsets_of_random_unicode_equal_the_reference(ours, texts):
    assert located(ours, texts) == expected(ours, texts)


@RANDOM
@hypothesis.given(
    strategies.lists(tokenizer_cases.INVALID_TEXT, min_size=1, max_size=30)
)
def test_offsets_of_random_bytes_equal_the_reference(ours, texts):
    assert located(ours, texts) == expected(ours, texts)


def test_kept_tokens_are_not_split_and_have_offsets(keeping):
    texts = [
        *("a[MASK]b", "[MASK]", "[MASK][MASK] the[SEP]in", "[mask] [UNK]"),
        *("", "ΑΣ[MASK]Α é[SEP]e\u0301[CLS]\u0301e the", "theaé[MASK"),
    ]
    found = located(keeping, texts)
    assert found == expected_around(keeping, texts)
    assert found[0] == [("a", 0, 1), ("[MASK]", 1, 7), ("b", 7, 8)]
    invalid = [b"\xff[MASK]\xe4\xb8[SEP]in\xf0the", b"[MASK]\x80"]
    assert located(keeping, invalid) == expected_around(keeping, invalid)


@RANDOM
@hypothesis.given(
    strategies.lists(
        strategies.lists(
            strategies.sampled_from(KEPT) | tokenizer_cases.TEXT, max_size=6
        ).map("".join),
        min_size=1,
        max_size=20,
    )
)
def test_random_texts_with_kept_tokens_equal_the_reference(keeping, texts):
    assert located(keeping, texts) == expected_around(keeping, texts)


@pytest.mark.slow
@pytest.mark.parametrize("rules", tokenizer_cases.RULES, ids=str)
def test_offsets_of_all_of_unicode_equal_the_reference(shared_data, rules):
    case = "uncased" if rules["do_lower_case"] else "cased"
    ours = tokenizer.BertTokenizer(
        str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt"), **rules
    )
    ours.locate = compile(ours.tokenize_with_offsets)
    ours.tokenize = compile(ours)
    name = f"google_tokenizer_all_unicode_{case}.jsonl.gz"
    with gzip.open(shared_data / "golden" / name, "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    found = located(ours, [row["text"] for row in rows])
    ids = {entry: i for i, entry in enumerate(ours.vocab)}
    golden = [[ids[token] for token, _, _ in row] for row in found] == [
        row["ids"] for row in rows
    ]
    assert golden is (len(rules) == 1)  # Of the original's rules alone.
    assert found == expected(ours, [row["text"] for row in rows])
