"""Entries of a WordPiece vocabulary <-> vocab.txt."""

import dataclasses
import hashlib
import itertools
import os
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from tfrecords.io import atomic_files
from tfrecords.options import Options, option, quoted
from tfrecords.text import text_files

# Entries that models and the tokenizer look up by name.
MASK = "[MASK]"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK)
UNUSED = re.compile(r"\[unused\d+\]")
# These, and tokens of one's own in this form, such as [DRUG] or [/E1].
SPECIAL = re.compile(r"\[/?[A-Z][A-Z0-9_]*\]")
MAX_LINES = 10  # In a warning.
_BOM = b"\xef\xbb\xbf"  # Byte order mark of UTF-8.
# tokenization.py: WordpieceTokenizer.max_input_chars_per_word; longer words are
# always [UNK].
MAX_CHARS_PER_WORD = 200
# What splits text into words, besides the vocabulary: keys of model.json and of
# manifests, arguments of BertTokenizer, and flags, but for `SPLIT`.
SPLIT = "split_special_tokens"
RULES = ("do_lower_case", "strip_accents", "tokenize_chinese_chars", SPLIT)


def rules_of(entries: Mapping[str, object]) -> dict[str, bool]:
    """Returns the `RULES` among some entries.

    Those that are None are left out, and so are the original's values:
    `strip_accents` as `do_lower_case`, and True of the others.

    Args:
      entries: those of a model.json, for example. An unknown `do_lower_case`
        counts as True.
    """
    rules = {n: entries[n] for n in RULES if entries.get(n) is not None}
    originals = _originals(rules.get("do_lower_case", True))
    return {n: x for n, x in rules.items() if x != originals.get(n)}


def all_rules_of(entries: Mapping[str, object]) -> dict[str, bool]:
    """Returns all `RULES`, or {} if `do_lower_case` is not among the entries.

    Args:
      entries: what they leave out has the original's value.
    """
    case = entries.get("do_lower_case")
    if case is None:
        return {}
    return {"do_lower_case": case} | _originals(case) | rules_of(entries)


def _originals(do_lower_case: bool) -> dict[str, bool]:
    originals = dict.fromkeys(RULES[1:], True)
    return originals | {"strip_accents": do_lower_case}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleOptions(Options):
    """Rules that only some uncased and multilingual models change."""

    strip_accents: bool | None = option(
        None,
        "Strip accents. Default: the model's setting if there is one, "
        "otherwise as --do_lower_case.",
    )
    tokenize_chinese_chars: bool | None = option(
        None,
        "Make each Chinese character a word. Default: the model's setting if "
        "there is one, otherwise true.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenOptions(RuleOptions):
    """The same, and the rule of special tokens, for records without a model."""

    split_special_tokens: bool | None = option(
        None,
        "Split [SEP] and the like in a text, as any text. If false, they are "
        "kept, and so are entries of your own in this form, such as [DRUG]. "
        "Default: true.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions(RuleOptions):
    """Settings for converting text to token ids."""

    vocab_file: str | None = option(
        None,
        "WordPiece vocabulary, one entry per line, as released with BERT.",
        reads=True,
    )
    do_lower_case: bool | None = option(
        None,
        "Lower-case text and strip accents; false for cased vocabularies. "
        "Default: the model's setting, otherwise true.",
    )


def special_tokens(entries: Iterable[str]) -> list[str]:
    """Returns the entries in the form of special tokens, as in `SPECIAL`."""
    return [*dict.fromkeys(filter(SPECIAL.fullmatch, entries))]


class Vocabulary(NamedTuple):
    """Content of a vocab.txt.

    Attributes:
      content: bytes of the file, by whose sha256 records know it.
      path: the file, or a name for messages.
    """

    content: bytes
    path: str

    @classmethod
    def open(cls, path: str) -> "Vocabulary":
        """Reads a file; raises ValueError if it is missing."""
        if not os.path.isfile(path):
            raise ValueError(
                f"No vocabulary at {path}; give the vocab.txt of the released "
                "model, or make one with run_scripts.make_vocab."
            )
        return cls(pathlib.Path(path).read_bytes(), os.fspath(path))

    def save(self) -> None:
        """Writes the file atomically, with a newline at its end."""
        # The folder of `new/` is that of `new`.
        folder = os.path.dirname(os.path.realpath(self.path))
        os.makedirs(folder, exist_ok=True)
        with atomic_files.atomic_file(self.path, "wb") as file:
            file.write(with_end(self.content))

    def sha256(self) -> str:
        """Returns the sha256 of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def entries(self) -> list[str]:
        """Returns the entries; raises ValueError as in `parse`."""
        return parse(self.content, self.path)


def with_end(content: bytes) -> bytes:
    """Returns a vocab.txt with a final newline; `parse` warns of others."""
    return content and content.removesuffix(b"\n") + b"\n"


def to_bytes(entries: Iterable[str]) -> bytes:
    """Returns the content of vocab.txt."""
    return "".join(f"{entry}\n" for entry in entries).encode()


def write(entries: list[str], path: str) -> None:
    """Writes vocab.txt atomically.

    Raises:
      ValueError: if the entries would not pass `read`.
    """
    check(entries, path)
    Vocabulary(to_bytes(entries), path).save()


def read(path: str) -> list[str]:
    """Returns the entries of vocab.txt, one per line, in order of their ids.

    Raises:
      ValueError: if the file is missing, or as in `parse`.
    """
    return Vocabulary.open(path).entries()


def parse(data: bytes, path: str) -> list[str]:
    r"""Returns the entries of the content of a vocab.txt.

    Lines end with \n alone, so that the id of an entry is the number of its
    line less one. A byte order mark, and spaces and tabs around an entry, are
    removed with a warning. Entries that no text can match keep their ids, with
    a warning: the released Chinese vocabulary has U+2028 as an entry.

    Args:
      data: content of the file.
      path: its name, for messages.

    Raises:
      ValueError: if it is empty or not UTF-8, has a duplicate of an entry that
        a text can match, lacks a special token, or has no other entry.
    """
    if not data:
        raise ValueError(f"{path} is empty; copy or make the vocabulary again.")
    first = data.partition(b"\n")[0]
    text_files.check_line(first, 1, path, is_table=True)
    if data.startswith(_BOM):
        logging.warning(
            "%s:1: the file begins with a byte order mark, which is ignored "
            "here but not by other software. Remove it.",
            path,
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8; a "
            "vocabulary is a UTF-8 text file. Copy it again, or convert it."
        ) from None
    # Not splitlines(), which also splits at characters that occur in entries.
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    else:  # Some tools write no newline at the end.
        logging.warning(
            "%s:%d: no newline after the last entry, %s. If the file may be "
            "truncated, copy it again.",
            path,
            len(lines),
            quoted(lines[-1]),
        )
    entries = [line.removesuffix("\r") for line in lines]
    stripped = [entry.strip(" \t") for entry in entries]
    with_spaces = [n for n, e in enumerate(entries) if e != stripped[n]]
    if with_spaces:
        # tokenization.py: load_vocab removes them, too.
        logging.warning(
            "%s:%d: spaces around %s and around %d other entries are removed. "
            "Other software keeps them, and then never finds the entry in a "
            "text: remove them from the file.",
            path,
            with_spaces[0] + 1,
            quoted(entries[with_spaces[0]]),
            len(with_spaces) - 1,
        )
    check(stripped, path)
    _warn_of_unmatched(stripped, path)
    pad_id = stripped.index("[PAD]")
    if pad_id:
        logging.warning(
            "%s:%d: [PAD] has the id %d. Rows are padded with id 0, %s, as by "
            "the original; no model here reads padding.",
            path,
            pad_id + 1,
            pad_id,
            quoted(stripped[0]),
        )
    return stripped


def _warn_of_unmatched(entries: Sequence[str], path: str) -> None:
    lines = [n for n, e in enumerate(entries, 1) if not can_match(e)]
    if not lines:
        return
    more = [str(line) for line in lines[1:MAX_LINES]]
    if len(lines) > MAX_LINES:
        more.append(f"{len(lines) - MAX_LINES} more")
    logging.warning(
        "%s:%d: no text can match the entry %s%s. They keep their ids; if the "
        "file may be damaged, copy it again.",
        path,
        lines[0],
        quoted(entries[lines[0] - 1]),
        f", nor those on lines {', '.join(more)}" if more else "",
    )


def list_changes(
    old: Sequence[str], new: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Returns the ids of replaced [unused] entries, and of other changes.

    The released vocabularies have entries such as [unused0] that the authors
    of BERT advise to replace by words of one's own (README of
    google-research/bert, "Learning a new WordPiece vocabulary").
    """
    replaced, others = [], []
    for number, pair in enumerate(itertools.zip_longest(old, new)):
        if pair[0] != pair[1]:
            is_unused = None not in pair and UNUSED.fullmatch(pair[0])
            (replaced if is_unused else others).append(number)
    return replaced, others


def can_match(entry: str) -> bool:
    """Returns whether a word of a text can have this entry as a piece.

    tokenization.py removes control characters and splits text at separators of
    every kind. Markers such as [CLS], which it splits too, count as words.
    """
    piece = entry.removeprefix("##")
    # Almost always, and fast; U+FFFD is printable.
    if piece.isprintable() and " " not in piece and "\ufffd" not in piece:
        return bool(piece)
    return not any(
        # Control and format characters; separators of words, lines, paragraphs.
        unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp")
        or c == "\ufffd"
        for c in piece
    )


def check(entries: Sequence[str], path: str) -> None:
    """Raises ValueError, naming file and line, if an entry is invalid.

    Args:
      entries: the vocabulary; entry i is on line i + 1.
      path: its file, or any name for entries that were not read from a file.
    """
    line_of: dict[str, int] = {}
    for line, entry in enumerate(entries, 1):
        if entry in line_of and can_match(entry):
            raise ValueError(
                f"{path}:{line}: entry {quoted(entry)} is also on line "
                f"{line_of[entry]}; entries must be unique. Copy or make the "
                "vocabulary again."
            )
        line_of[entry] = line
    missing = [token for token in SPECIAL_TOKENS if token not in line_of]
    if missing:
        raise ValueError(
            f"{path} has {len(entries)} entries but no {', '.join(missing)}; "
            "BERT needs all of them. Is it a vocabulary of another model? "
            "Make one with run_scripts.make_vocab."
        )
    if all(
        e in SPECIAL_TOKENS or UNUSED.fullmatch(e) or not can_match(e)
        for e in line_of
    ):
        raise ValueError(
            f"{path} has {len(entries)} special tokens and no other entry, so "
            "every word would be [UNK]. Copy or make the vocabulary again."
        )


def clean(text: str, do_lower_case: bool, strip_accents: bool) -> str:
    """Lower-cases and strips accents as BasicTokenizer in tokenization.py."""
    if do_lower_case:
        text = text.lower()
    if not strip_accents:
        return text
    letters = unicodedata.normalize("NFD", text)
    marks = {x for x in {*letters} if unicodedata.category(x) == "Mn"}
    return "".join(x for x in letters if x not in marks) if marks else letters


def infer_lower_case(
    vocabulary: bytes | None, strip_accents: bool = True
) -> bool | None:
    """Infers from a vocabulary whether text is lower-cased before tokenization.

    A TensorFlow checkpoint does not specify it; tokenization.py only compares a
    flag with the folder's name (validate_case_matches_checkpoint). The
    vocabulary is more reliable: lower-cased text, whose accents are stripped
    too, never matches an entry with a capital or a combining mark. If at least
    1 % of the entries are of this kind, text is not lower-cased. Entries in
    brackets, such as [CLS] and the <S> and <T> of the uncased Chinese
    vocabulary, are not counted. Thai and Hindi have combining marks, although
    no capitals, and NFD decomposes Hangul, so these scripts are recognized too.
    For scripts with neither, such as Hebrew, the result is True. If
    `vocabulary` is None, the result is None. Without `strip_accents`, only
    capitals count.
    """
    if vocabulary is None:
        return None
    entries = vocabulary.decode("utf-8", "replace").split()
    words = [word for word in entries if not re.match(r"[\[<].+[\]>]$", word)]
    never_matched = sum(
        word != clean(word, True, strip_accents) for word in words
    )
    return 100 * never_matched < max(len(words), 1)
