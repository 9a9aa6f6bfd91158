"""Reference tokenizer: the original's rules in plain Python.

Follows google-research/bert tokenization.py one character at a time and uses
nothing of tfrecords/. `tokenize_with_offsets` does the same and also tracks the
offsets of each character. Rules are those of `BertTokenizer.rules`; without
accents or Chinese characters, the original's step of that name is left out.
"""

import re
import string
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
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


def is_control(character):
    if character in "\t\n\r":
        return False
    return unicodedata.category(character) in ("Cc", "Cf")


def is_chinese(character):
    # A fast path for most text.
    if character < "\u3400":
        return False
    return any(low <= ord(character) <= high for low, high in _CHINESE)


def is_punctuation(character):
    if character in string.punctuation:
        return True
    return unicodedata.category(character)[0] == "P"


def strip_accents_of(word):
    letters = unicodedata.normalize("NFD", word)
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def clean(word, do_lower_case=True, strip_accents=None, **_):
    """Word -> the same, lower-cased and without accents if so set."""
    if do_lower_case:
        word = word.lower()
    if do_lower_case if strip_accents is None else strip_accents:
        return strip_accents_of(word)
    return word


def split_words(text, **rules):
    """Text or bytes -> list of words."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "ignore")
    cleaned = ""
    for character in text:
        if character == "\ufffd" or is_control(character):
            continue
        if is_space(character):
            cleaned += " "
        elif rules.get("tokenize_chinese_chars", True) and is_chinese(
            character
        ):
            cleaned += f" {character} "
        else:
            cleaned += character
    words = []
    for word in cleaned.split():
        word = clean(word, **rules)
        spaced = "".join(f" {c} " if is_punctuation(c) else c for c in word)
        words += spaced.split()
    return words


def split_pieces(word, entries):
    """Word -> pieces by longest match from the left, or [UNK]."""
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


def tokenize(text, entries, **rules):
    """Text or bytes, set of entries -> list of tokens."""
    return [
        piece
        for word in split_words(text, **rules)
        for piece in split_pieces(word, entries)
    ]


def follow_characters(text, **rules):
    """Text or bytes -> [cleaned characters, start, end] of each character.

    A character becomes a string of one or several. One that becomes empty
    because it is an accent extends the end of the one before.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    found = []
    for offset, character in enumerate(text):
        if character == "\ufffd" or is_control(character):
            continue
        result = " " if is_space(character) else clean(character, **rules)
        if result:
            found.append([result, offset, offset + 1])
        elif found:
            found[-1][2] = offset + 1
    return found


def tokenize_with_offsets(text, entries, **rules):
    """Text or bytes, set of entries -> list of (token, start, end).

    Offsets count characters of the text; bytes are decoded with "replace".
    """
    spans = [
        (start, end)
        for result, start, end in follow_characters(text, **rules)
        for _ in result
        if not result.isspace()
    ]
    found, before = [], 0
    for word in split_words(text, **rules):
        of_word = spans[before : before + len(word)]
        before += len(word)
        done = 0
        for piece in split_pieces(word, entries):
            length = len(piece.removeprefix("##") if done else piece)
            if piece == "[UNK]":
                length = len(word)
            of_piece = of_word[done : done + length]
            found.append((piece, of_piece[0][0], of_piece[-1][1]))
            done += length
    assert before == len(spans), "words and cleaned characters differ"
    return found


def tokenize_around(text, kept_tokens, entries, **rules):
    """As `tokenize_with_offsets`, without splitting `kept_tokens`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    longest_first = sorted(kept_tokens, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    found, offset = [], 0
    for part in re.split(f"({pattern})", text):
        if part in kept_tokens:
            found.append((part, offset, offset + len(part)))
        else:
            found += [
                (piece, start + offset, end + offset)
                for piece, start, end in tokenize_with_offsets(
                    part, entries, **rules
                )
            ]
        offset += len(part)
    return found
