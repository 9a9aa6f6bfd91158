"""Tricky texts, random texts, a reference tokenizer -> tokenizer tests."""

import importlib.util
import pathlib
import string
import unicodedata

from hypothesis import strategies

from tfrecords.text import vocab


def _load_reference():
    folder = pathlib.Path(__file__).parent / "tfrecords"
    path = folder / "reference_tokenizer.py"
    spec = importlib.util.spec_from_file_location("reference_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load_reference()

# BERT's rules, uncased and cased; and with each of the others changed.
RULES = [
    {"do_lower_case": True},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {
        "do_lower_case": False,
        "strip_accents": True,
        "tokenize_chinese_chars": False,
    },
]
# Letters of the vocabulary, so that random words split into known pieces.
LETTERS = "abceilnorstABCßéσςΣİıǅﬁåяЖ漢葛ญा\u302e\U0001d1651각"
_ENTRIES = [
    *vocab.SPECIAL_TOKENS,
    *sorted(set(LETTERS + string.punctuation)),
    *(f"##{letter}" for letter in LETTERS),
    *("the", "##the", "un", "##able", "aé", "##es", "sσ", "##ς", "e\u0301"),
    *("##'", "can't", "##ing", "in", "tion", "##tion"),
]
ENTRIES = list(dict.fromkeys(_ENTRIES))
TRICKY = [
    "",
    " \t\r\n\u00a0\u3000",
    " \tHeLLo!how  \n Are yoU?  ",
    "UNwant\u00e9d,running",
    "ah\u535a\u63a8zz",
    "[MASK] [CLS] [UNK] [PAD] ##ing",
    "a\u2028b\u2029c\u0085d\u200be\ufeff",
    "ab\x00c\x1cd\x7fe\ufffdf",
    "ΑΣ ΑΣΑ Σ ΑΣ' ΑΣ\x01Β ΑΣ\u00adΒ ΑΣ.Β",
    "Straße ﬁne ＡＢＣ ™ Ⅷ ǅ İI ıi",
    "e\u0301\u0323 \u0344 a\u0903\u302e\u1d165",
    "\u037e\u1fef\u0387 \uf900\ufa0e\U0002f800",
    "$5.00^2 `~| a-b_c",
    "\u0e0d\u0e33 \u0915\u093e\u094d क्षि 한국어 각",
    "𝒜𝓑 👍🏽 \U000e0041",
    "a" * 200,
    "a" * 201,
    "é" * 200,
    "é" * 201,
    "e\u0301" * 200,
    "я" * 200 + " " + "я" * 201,
    "a" * 201 + "," + "é" * 201 + "," + "in",
]
INVALID = [
    b"ab\xffcd",
    b"\xe4b \xe4\xb8b \xf0\x9f\x91b",
    b"\xed\xa0\x80a \xc0\x80b \xf5c \x80\x80",
    b"tail\xe4\xb8",
]

# Accents at the start or after dropped characters, characters that NFD or
# lower-casing splits, reordered marks, ideographs with a tone mark.
MARKS = [
    "\u0301a e\u0301 e\u200b\u0301\u0323x \u0301 ,\u0301. 漢\u302a字",
    "각\u0301각 \u1100\u1161 e\u302e\u0323\U0001d165n \U0001d160a",
    "İstanbul Cafés naïve\u00ad\u200d, Ⅷ ŉ ǰ ΐ ﬀ Å",
    "\ufeffthe\ufeff \x00un\x00able\x01 \ufffdin\ufffd",
]


# TensorFlow's lower() uses Unicode 13 and Python perhaps a later version, so
# random characters are of Unicode 3.2; test_words.py tests the others.
OLD_CHARACTERS = strategies.characters(
    # Unicode 14 moved one old character from Mn to Mc.
    exclude_categories=["Cs", "Cn"],
    exclude_characters="\u1734",
).filter(lambda c: unicodedata.ucd_3_2_0.category(c) != "Cn")
TEXT = strategies.text(
    strategies.one_of(
        strategies.sampled_from(LETTERS + string.printable + "\u0301\u2028"),
        OLD_CHARACTERS,
    ),
    max_size=40,
)
# Bytes that occur in UTF-8, seldom in a valid order.
INVALID_TEXT = strategies.lists(
    strategies.sampled_from(
        b"a,\x80\x9f\xa0\xbf\xc0\xc2\xc3\xcc\xe0\xe4\xed\xef\xf0\xf4\xf5\xff"
    ),
    max_size=12,
).map(bytes)
