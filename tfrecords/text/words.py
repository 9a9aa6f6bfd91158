"""Strings -> words, by the rules of the original's BasicTokenizer.

google-research/bert tokenization.py, as TensorFlow ops for tf.data and
SavedModels. Accents can be kept or stripped apart from lower case, and Chinese
characters left in their words, as by Hugging Face's BertTokenizer. N strings.

Every code point assigned in Unicode 14 is treated as in the original on Python
3.11, which has the tables of Unicode 14. A test checks each one inside a word,
alone and at the end of a string. Known differences:

- 85 code points are unassigned in Unicode 14, so the original treats them as
  letters. TensorFlow's newer tables treat them as follows; accents and
  decomposed characters differ only in uncased text:

      punctuation: 11B00-11B09 11F43-11F4F
      format characters: 13439-1343F
      accents: 0ECE 10EFD-10EFF 11241 11F00-11F01 11F36-11F3A 11F40 11F42
        13440 13447-13455 1E08F 1E4EC-1E4EF
      decomposed: 105C9 105E4 11383 11385 1138E 11391 113C5 113C7-113C8
        16121-16128 16D68-16D6A

- In uncased text, ICU decides whether a capital sigma is at the end of a word
  by the tables of Unicode 13. This matters next to 301 marks and letters that
  Unicode 14 added or changed, as in U+03A3 U+0898 U+03B1. (Among them are
  U+1734, Vithkuqi, U+0898-089F, U+08C9-08D2, U+1AC1-1ACE and U+1CF00-1CF46.)
- The original on Python 3.10 uses Unicode 13, in which U+1734 is an accent and
  the capitals of `_NEW_CAPITALS` have no lower case.
"""

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging

from tfrecords.options import quoted
from tfrecords.text import vocab

# Matches strings in which cleaning only lower-cases ASCII letters, and words of
# several characters are ASCII: 90% of English strings and most Chinese ones.
# FastWordpieceTokenizer alone splits them as the original does, in half the
# time. Besides ASCII, they contain spaces and characters that are one word each
# and have neither case nor decomposition.
_PLAIN = (
    r"\t\n\r -~\x{A0}\x{A1}\x{A7}\x{AB}\x{B7}\x{BB}\x{BF}"
    r"\x{2002}-\x{200A}\x{2010}-\x{2027}\x{2030}-\x{2043}"
    r"\x{3000}-\x{3003}\x{3008}-\x{3011}\x{3014}-\x{301B}"
    r"\x{FF01}\x{FF08}-\x{FF0A}\x{FF0C}-\x{FF0F}"
    r"\x{FF1A}\x{FF1B}\x{FF1F}"
)
_PLAIN_CHINESE = r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}"
# tokenization.py: _is_control (\t, \n and \r are space), and U+FFFD.
_DROPPED = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\p{Cf}\x{FFFD}]+"
_ACCENTS = r"\p{Mn}+"
# All separators (Z), as str.split() also splits at those of lines and
# paragraphs.
_SPACE = r"[\t\n\r\p{Z}]+"
# tokenization.py: _is_punctuation counts all ASCII symbols, such as $ and ^.
_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
# tokenization.py: _is_chinese_char; first and last code points.
_CHINESE_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_CHINESE = "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in _CHINESE_RANGES)
# Entries of the released vocabularies that no text gives, beside [unused] ones.
_RELEASED = (*vocab.SPECIAL_TOKENS, "<S>", "<T>", "...")
# The released vocabularies have fewer [unused] entries.
_MOST_REPLACED = 1000
# Capitals added in Unicode 14: first, last, offset of their lower case. ICU,
# which lower-cases the rest, has the tables of Unicode 13.
_NEW_CAPITALS = (
    (0x2C2F, 0x2C2F, 0x30),
    (0xA7C0, 0xA7C0, 1),
    (0xA7D0, 0xA7D0, 1),
    (0xA7D6, 0xA7D6, 1),
    (0xA7D8, 0xA7D8, 1),
    (0x10570, 0x1057A, 0x27),
    (0x1057C, 0x1058A, 0x27),
    (0x1058C, 0x10592, 0x27),
    (0x10594, 0x10595, 0x27),
)
# Capitals that ICU lower-cases with another accent in a Turkish or Lithuanian
# locale.
_LOCALE_LOWER = {"İ": "i\u0307", "Ì": "ì", "Í": "í", "Ĩ": "ĩ", "Į": "į"}


def drop(strings: tf.Tensor) -> tf.Tensor:
    """Drops invalid bytes and non-text characters; the result is valid UTF-8.

    The other functions require valid UTF-8.
    """
    strings = tf.strings.unicode_transcode(
        strings, "UTF-8", "UTF-8", errors="ignore"
    )
    return tf.strings.regex_replace(strings, _DROPPED, "")


def _lower_new_capitals(strings: tf.Tensor) -> tf.Tensor:
    points = tf.strings.unicode_decode(strings, "UTF-8")  # [N, (characters)]
    flat = points.flat_values
    for first, last, distance in _NEW_CAPITALS:
        is_capital = (first <= flat) & (flat <= last)
        flat = tf.where(is_capital, flat + distance, flat)
    return tf.strings.unicode_encode(points.with_flat_values(flat), "UTF-8")


def _lower(strings: tf.Tensor) -> tf.Tensor:
    # ASCII first, bytewise: in a Turkish locale ICU lower-cases I to dotless i.
    strings = tf.strings.lower(tf.strings.lower(strings), "utf-8")
    ranges = "".join(
        rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last, _ in _NEW_CAPITALS
    )
    has_new = tf.strings.regex_full_match(strings, f"(?s).*[{ranges}].*")
    return tf.cond(
        tf.reduce_any(has_new),
        lambda: _lower_new_capitals(strings),
        lambda: strings,
    )


def clean(
    strings: tf.Tensor, do_lower_case: bool, strip_accents: bool | None = None
) -> tf.Tensor:
    """Drops non-text characters; optionally lower-cases and strips accents.

    Args:
      strings: [N] string, UTF-8; invalid bytes are dropped.
      do_lower_case: whether to lower-case.
      strip_accents: whether to strip accents; None: as `do_lower_case`.
    """
    strings = drop(strings)
    if strip_accents is None:
        strip_accents = do_lower_case
    if do_lower_case:
        if not strip_accents:
            for capital, small in _LOCALE_LOWER.items():
                strings = tf.strings.regex_replace(strings, capital, small)
        strings = _lower(strings)
    if not strip_accents:
        return strings
    strings = tf_text.normalize_utf8(strings, "NFD")
    return tf.strings.regex_replace(strings, _ACCENTS, "")


def split(
    cleaned: tf.Tensor, tokenize_chinese_chars: bool = True
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Splits at whitespace, and around each punctuation and Chinese character.

    Args:
      cleaned: [N] string, from `clean`.
      tokenize_chinese_chars: whether to split around Chinese characters.

    Returns:
      words: [N, (words)] string.
      starts: [N, (words)] int64, their offsets in bytes.
    """
    alone = f"[{_PUNCTUATION}{_CHINESE if tokenize_chinese_chars else ''}]"
    words, starts, _ = tf_text.regex_split_with_offsets(
        cleaned, f"{_SPACE}|{alone}", alone
    )
    return words, starts


def split_words(
    strings: tf.Tensor,
    do_lower_case: bool,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> tf.RaggedTensor:
    """Splits strings into words, which WordPiece then splits into pieces.

    Args:
      strings: as for `clean`.
      do_lower_case: as for `clean`.
      strip_accents: as for `clean`.
      tokenize_chinese_chars: as for `split`.

    Returns:
      [N, (words)] string.
    """
    cleaned = clean(strings, do_lower_case, strip_accents)
    words, _ = split(cleaned, tokenize_chinese_chars)
    return words


def split_around(strings: tf.Tensor, tokens: Sequence[str]) -> tf.RaggedTensor:
    """Splits before and after each occurrence of the given tokens.

      strings   "the [MASK][SEP]"
      tokens    "[MASK]" "[SEP]"
      returns   "the " "[MASK]" "" "[SEP]" ""

    Args:
      strings: [N] string.
      tokens: if several match at a position, the longest is used.

    Returns:
      [N, (segments)] string; every second segment is a token. Invalid bytes
      are replaced by U+FFFD as by Python's `decode("utf-8", "replace")`.
    """
    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8")
    # RE2 uses the first alternative that matches.
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    # Valid UTF-8 has no byte 0xFF. (tf.text's regex_split stops at U+0000.)
    strings = tf.strings.regex_replace(strings, f"({pattern})", b"\xff\\1\xff")
    return tf.strings.split(strings, b"\xff")


def character_classes(
    characters: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns whether characters are whitespace, punctuation, Chinese.

    Three tensors [N] bool. The rules are those of `split`.
    """
    return tuple(
        tf.strings.regex_full_match(characters, pattern)
        for pattern in (_SPACE, f"[{_PUNCTUATION}]", f"[{_CHINESE}]")
    )


def is_plain(
    strings: tf.Tensor, tokenize_chinese_chars: bool = True
) -> tf.Tensor:
    """Returns whether strings have only plain characters, [N] bool."""
    plain = _PLAIN + (_PLAIN_CHINESE if tokenize_chinese_chars else "")
    return tf.strings.regex_full_match(strings, f"[{plain}]*")


def warn_of_unreachable(
    entries: Sequence[str], path: str, rules: Mapping, kept: Sequence[str]
) -> None:
    """Logs the entries that texts never have after cleaning and splitting.

      'covid-19' on line 7 is read as 'covid', '-', '19': write 'covid'

    They are somebody's own, such as for [unused] entries: the released
    vocabularies have none but `_RELEASED`. If they are more than those could
    be, the vocabulary is of another tokenizer, and no single entry is wrong.

    Args:
      entries: the vocabulary.
      path: its file, for the message.
      rules: all `vocab.RULES`.
      kept: entries that are not split.
    """
    case, strip_accents, chinese = (rules[n] for n in vocab.RULES[:3])
    pieces = [x[2:] if x[:2] == "##" and len(x) > 2 else x for x in entries]
    # At once, as there may be 100,000.
    joined = "\n".join(piece.replace("\n", " ") for piece in pieces)
    cleaned = vocab.clean(joined, case, strip_accents)
    alone = {x for x in {*cleaned} - {"\n"} if _is_alone(x, chinese)}
    known, lines, found = {*entries}, [], []
    for i, text in enumerate(cleaned.split("\n")):
        is_word = len(text) == 1 or alone.isdisjoint(text)
        if (text == pieces[i] and is_word) or entries[i] in (*_RELEASED, *kept):
            continue
        # Of others `vocab.parse` warns.
        words = "".join(f" {x} " if x in alone else x for x in text).split()
        is_text = vocab.can_match(entries[i].replace(" ", ""))
        if not words or not is_text or vocab.UNUSED.fullmatch(entries[i]):
            continue
        words[0] = entries[i].removesuffix(pieces[i]) + words[0]
        # No word is advised twice.
        missing = [*dict.fromkeys(x for x in words if x not in known)]
        known.update(missing)
        lines.append(i + 1)
        found.append(
            f"{quoted(entries[i])} on line {i + 1} is read as "
            + ", ".join(map(repr, words))
            + (": write " if missing else ", which the vocabulary has")
            + " and ".join(map(repr, missing))
        )
        if len(found) > _MOST_REPLACED:
            content = "\n".join(entries).encode()
            if case and not vocab.infer_lower_case(content, strip_accents):
                logging.warning(
                    "%s has entries with capitals or accents, which text in "
                    "lower case never gives: set do_lower_case=false, unless "
                    "its model was trained otherwise",
                    path,
                )
            return
    if found:
        more = len(found) - vocab.MAX_LINES
        logging.warning(
            "%s:%d: no text can give %d of %d entries, since it is cleaned and "
            "split into words first. %s%s.",
            *(path, lines[0], len(found), len(entries)),
            "; ".join(found[: vocab.MAX_LINES]),
            f"; {more} more" if more > 0 else "",
        )


def _is_alone(character: str, chinese: bool) -> bool:
    """Returns whether a character is a word of its own, or between words."""
    if character in string.punctuation or character == " ":
        return True
    if unicodedata.category(character).startswith("P"):
        return True
    return chinese and any(a <= ord(character) <= b for a, b in _CHINESE_RANGES)
