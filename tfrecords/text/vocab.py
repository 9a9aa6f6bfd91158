"""Entries of a WordPiece vocabulary <-> vocab.txt."""

import dataclasses
import os
import pathlib
from collections.abc import Iterable

from absl import logging

from tfrecords.io import atomic_files
from tfrecords.options import Options, option

# Entries that models and the tokenizer look up by name.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# tokenization.py: WordpieceTokenizer.max_input_chars_per_word; longer words are
# always [UNK].
MAX_CHARS_PER_WORD = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions(Options):
    """Settings for converting text to token ids."""

    vocab_file: str | None = option(
        None, "WordPiece vocabulary, one entry per line, as released with BERT."
    )
    do_lower_case: bool | None = option(
        None,
        "Lower-case text and strip accents; false for cased vocabularies. "
        "Default: the model's setting, otherwise true.",
    )


def to_bytes(entries: Iterable[str]) -> bytes:
    """Returns the content of vocab.txt."""
    return "".join(f"{entry}\n" for entry in entries).encode()


def write(entries: list[str], path: str) -> None:
    """Writes vocab.txt atomically.

    Raises:
      ValueError: if the entries would not pass `read`.
    """
    _check(entries, path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_files.atomic_file(path, "wb") as file:
        file.write(to_bytes(entries))


def read(path: str) -> list[str]:
    """Returns the entries of vocab.txt, one per line, in order of their ids.

    Raises:
      ValueError: if the file is missing, empty or not UTF-8, or has an empty
        line, a duplicate entry or not all special tokens.
    """
    if not os.path.isfile(path):
        raise ValueError(
            f"No vocabulary at {path}; give the vocab.txt of the released "
            "model, or make one with run_scripts.make_vocab."
        )
    data = pathlib.Path(path).read_bytes()
    if not data:
        raise ValueError(f"{path} is empty; copy or make the vocabulary again.")
    try:
        text = data.decode("utf-8")
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
            "%s:%d: no newline after the last entry, %r. If the file may be "
            "truncated, copy it again.",
            path,
            len(lines),
            lines[-1],
        )
    entries = [line.removesuffix("\r") for line in lines]
    _check(entries, path)
    return entries


def digest(path: str) -> str:
    """Returns the sha256 of a vocabulary file, as in manifests of records."""
    return atomic_files.digest(path)


def _check(entries: list[str], path: str) -> None:
    """Raises ValueError, naming file and line, if an entry is invalid."""
    line_of: dict[str, int] = {}
    for line, entry in enumerate(entries, 1):
        if not entry.strip():
            raise ValueError(
                f"{path}:{line}: an empty line where an entry was expected; "
                "copy or make the vocabulary again."
            )
        if entry in line_of:
            raise ValueError(
                f"{path}:{line}: entry {entry!r} is also on line "
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
