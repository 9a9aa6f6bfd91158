"""The original's rules of tokenization in plain Python: the oracle.

Written from what google-research/bert tokenization.py does, one character at
a time, and with nothing of tfrecords/.
"""

import unicodedata

MAX_CHARS = 200
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def is_space(character):
    category = unicodedata.category(character)
    return character in " \t\n\r" or category == "Zs"


def is_control(character):
    category = unicodedata.category(character)
    return character not in "\t\n\r" and category in ("Cc", "Cf")


def is_chinese(character):
    return any(low <= ord(character) <= high for low, high in _CHINESE)


def is_punctuation(character):
    symbol = character.isascii() and character.isprintable()
    if symbol and not character.isalnum() and character != " ":
        return True
    return unicodedata.category(character)[0] == "P"


def strip_accents(word):
    letters = unicodedata.normalize("NFD", word)
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def split_words(text, do_lower_case):
    """Text or bytes -> list of words."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "ignore")
    cleaned = ""
    for character in text:
        if character == "\ufffd" or is_control(character):
            continue
        if is_space(character):
            cleaned += " "
        elif is_chinese(character):
            cleaned += f" {character} "
        else:
            cleaned += character
    words = []
    for word in cleaned.split():
        if do_lower_case:
            word = strip_accents(word.lower())
        spaced = "".join(f" {c} " if is_punctuation(c) else c for c in word)
        words += spaced.split()
    return words


def split_pieces(word, entries):
    """Word -> the longest pieces from the left, or [UNK]."""
    if len(word) > MAX_CHARS:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in entries:
                pieces.append(prefix + word[start:end])
                start = end
                break
        else:
            return ["[UNK]"]
    return pieces


def tokenize(text, entries, do_lower_case):
    """Text or bytes, set of entries -> list of tokens."""
    return [
        piece
        for word in split_words(text, do_lower_case)
        for piece in split_pieces(word, entries)
    ]
