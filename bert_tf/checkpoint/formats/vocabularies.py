"""Vocabulary file <-> `Contents.vocabulary`, with the case inferred.

The bytes are kept unchanged, except that a final newline is added if missing,
since `vocab.read` would warn of a truncated file.
"""

import os

from tfrecords.text import vocab

VOCABULARY = "vocab.txt"


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


def read_inferred(folder: str) -> dict[str, object]:
    """Returns the fields of Contents in vocab.txt, with the case inferred.

    For the folder `variables` of a SavedModel, it is that of its `assets`.
    """
    path = os.path.join(folder, VOCABULARY)
    above = os.path.join(folder, os.pardir)
    is_inside = os.path.isfile(os.path.join(above, "saved_model.pb"))
    if is_inside and not os.path.isfile(path):
        path = os.path.join(above, "assets", VOCABULARY)
    vocabulary = read(path)
    do_lower_case = vocab.infer_lower_case(vocabulary)
    return {
        "vocabulary": vocabulary,
        "do_lower_case": do_lower_case,
        "is_case_inferred": do_lower_case is not None,
    }


def case_note(do_lower_case: bool | None) -> str:
    """Returns a note on the result of `vocab.infer_lower_case`."""
    if do_lower_case is None:
        return "no vocab.txt, so do_lower_case is unknown"
    return (
        f"do_lower_case={do_lower_case} is inferred: the vocabulary has "
        + ("almost no entries" if do_lower_case else "entries")
        + " with capitals or accents. A script's --do_lower_case overrides it"
    )
