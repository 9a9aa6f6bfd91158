"""Vocabulary file <-> `Contents.vocabulary`; inference of do_lower_case.

The bytes are kept unchanged, except that a final newline is added if missing,
since `vocab.read` would warn of a truncated file.
"""

import os
import re
import unicodedata

from tfrecords.text import vocab


def read(path: str) -> bytes | None:
    """Returns the content of vocab.txt, or None if the file is missing."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return vocab.with_end(file.read())


def write(vocabulary: bytes | None, path: str) -> None:
    """Writes vocab.txt atomically; writes nothing for None."""
    if vocabulary is not None:
        vocab.Vocabulary(vocabulary, path).save()


def count_entries(vocabulary: bytes | None) -> int:
    """Returns the number of lines, with or without a final newline."""
    return 0 if vocabulary is None else vocab.with_end(vocabulary).count(b"\n")


def _uncased(word: str, strip_accents: bool) -> str:
    """Lower-cases a word as BasicTokenizer in tokenization.py does."""
    if not strip_accents:
        return word.lower()
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(x for x in letters if unicodedata.category(x) != "Mn")


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
    never_matched = sum(word != _uncased(word, strip_accents) for word in words)
    return 100 * never_matched < max(len(words), 1)


def read_inferred(folder: str) -> dict[str, object]:
    """Returns the fields of Contents in vocab.txt, with the case inferred."""
    vocabulary = read(os.path.join(folder, "vocab.txt"))
    do_lower_case = infer_lower_case(vocabulary)
    return {
        "vocabulary": vocabulary,
        "do_lower_case": do_lower_case,
        "is_case_inferred": do_lower_case is not None,
    }


def case_note(do_lower_case: bool | None) -> str:
    """Returns a note on the result of `infer_lower_case`."""
    if do_lower_case is None:
        return "no vocab.txt, so do_lower_case is unknown"
    return (
        f"do_lower_case={do_lower_case} is inferred: the vocabulary has "
        + ("almost no entries" if do_lower_case else "entries")
        + " with capitals or accents. A script's --do_lower_case overrides it"
    )
