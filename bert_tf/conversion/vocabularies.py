"""Bytes of a vocabulary file <-> Checkpoint's vocabulary, a guess of its case.

Bytes stay as they are, but for a newline at the end, which others may leave
out and our tokenizer asks for.
"""

import os
import re
import unicodedata

from tfrecords.io import atomic_files

# In model.json: whether do_lower_case was inferred, so that a flag may win.
INFERRED_CASE = "do_lower_case_inferred"


def _with_end(content: bytes) -> bytes:
    return content and content.removesuffix(b"\n") + b"\n"


def read(path: str) -> bytes | None:
    """Returns the content of vocab.txt, None if there is none."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return _with_end(file.read())


def write(vocabulary: bytes | None, path: str) -> None:
    """Writes vocab.txt, whole or not at all; nothing for None."""
    if vocabulary is None:
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_files.atomic_file(path, "wb") as file:
        file.write(_with_end(vocabulary))


def count_entries(vocabulary: bytes | None) -> int:
    """Returns the number of lines, whether or not the last one ends."""
    return 0 if vocabulary is None else _with_end(vocabulary).count(b"\n")


def _uncased(word: str) -> str:
    """tokenization.py: BasicTokenizer, of one word with do_lower_case."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(x for x in letters if unicodedata.category(x) != "Mn")


def infer_lower_case(vocabulary: bytes | None) -> bool | None:
    """Returns whether text is lower-cased before a vocabulary is applied.

    Nothing in a checkpoint of TensorFlow says so; tokenization.py guesses from
    the folder's name (validate_case_matches_checkpoint). The vocabulary knows
    it better: lower-cased text, which also loses its accents, never matches an
    entry with a capital or a combining mark. If these are one in a hundred,
    it is not lower-cased. Thai and Hindi have no capitals but such marks, and
    Hangul is taken apart. The uncased Chinese one has two, <S> and <T>. Where a
    script has neither, as Hebrew, the guess is True. None gives None.
    """
    if vocabulary is None:
        return None
    entries = vocabulary.decode("utf-8", "replace").split()
    words = [word for word in entries if not re.match(r"[\[<].+[\]>]$", word)]
    never_matched = sum(word != _uncased(word) for word in words)
    return 100 * never_matched < max(len(words), 1)


def read_inferred(folder: str) -> dict[str, object]:
    """Returns the fields of a Checkpoint with vocab.txt, the case inferred."""
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
        return "no vocab.txt: whether text is lower-cased is not known"
    return (
        f"do_lower_case={do_lower_case} is guessed: the vocabulary has "
        + ("no" if do_lower_case else "entries with")
        + " capitals or accents. A runner's --do_lower_case overrules it"
    )
