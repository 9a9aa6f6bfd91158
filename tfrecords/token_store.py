"""Documents -> token ids on disk, any document read at once.

A piece is what one input file becomes: three files that need not fit into
memory. `<piece>.tokens` holds ids, `<piece>.sentences` the length of each
sentence as int32, and `<piece>.documents.npy` where each document ends.
"""

import array
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfrecords import whole_files

# Sentences that are tokenised in one call, and kept as text at a time.
_SENTENCES = 4096
_LENGTH_DTYPE = np.dtype("<i4")

# Strings [N] -> ids of all of them [T], and how many each has [N].
Tokenize = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]


class Documents(NamedTuple):
    """Tokens of some documents, one after the other.

    Two documents, of two sentences and one:
      tokens           21 22 23 24 25 26
      sentence_bounds   0     2     4     6
      document_bounds   0           2     3
    """

    tokens: np.ndarray  # [T] integer.
    sentence_bounds: np.ndarray  # [sentences + 1] int64, into tokens.
    document_bounds: np.ndarray  # [documents + 1] int64, into sentences.
    numbers: np.ndarray  # [documents] int64, which of the corpus they are.


def token_dtype(vocab_size: int) -> np.dtype:
    """Returns the smallest type on disk that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<i4")


def _groups(documents: Iterable[Sequence[str]]) -> Iterator[list[list[str]]]:
    """Yields lists of documents that have enough sentences together."""
    group, num_sentences = [], 0
    for sentences in documents:
        group.append(sentences)
        num_sentences += len(sentences)
        if num_sentences >= _SENTENCES:
            yield group
            group, num_sentences = [], 0
    if group:
        yield group


def write_piece(
    path: str,
    documents: Iterable[Sequence[str]],
    tokenize: Tokenize,
    vocab_size: int,
) -> None:
    """Writes documents of sentences; sentences without a token are left out.

    As in create_pretraining_data.py, so are documents without a sentence.

    Args:
      path: of the piece, to which the three endings are added.
      documents: the sentences of each.
      tokenize: turns sentences into ids.
      vocab_size: ids are below it.
    """
    ends = array.array("q", [0, 0])  # Tokens and sentences before each.
    with (
        whole_files.whole_file(f"{path}.tokens", "wb") as tokens_file,
        whole_files.whole_file(f"{path}.sentences", "wb") as sentences_file,
        whole_files.whole_file(f"{path}.documents.npy", "wb") as documents_file,
    ):
        for group in _groups(documents):
            last = np.cumsum([len(sentences) for sentences in group])
            flat = [sentence for sentences in group for sentence in sentences]
            lengths = []
            for begin in range(0, len(flat), _SENTENCES):
                ids, counts = tokenize(flat[begin : begin + _SENTENCES])
                tokens_file.write(ids.astype(token_dtype(vocab_size)).data)
                lengths.append(counts)
            lengths = np.concatenate(lengths).astype(_LENGTH_DTYPE)
            sentences_file.write(lengths[lengths > 0].data)
            token_ends = ends[-2] + np.cumsum(lengths, dtype=np.int64)
            sentence_ends = ends[-1] + np.cumsum(lengths > 0)
            for end in (last - 1).tolist():
                if sentence_ends[end] > ends[-1]:
                    ends.extend((int(token_ends[end]), int(sentence_ends[end])))
        np.save(documents_file, np.array(ends, np.int64).reshape(-1, 2))


def write_json(path: str, content: dict) -> None:
    """Writes a small file that marks a piece as whole."""
    with whole_files.whole_file(path, "wb") as file:
        file.write(json.dumps(content).encode())


def read_bounds(path: str) -> np.ndarray:
    """Returns [documents + 1, 2]: tokens, sentences before each, and in all."""
    return np.load(f"{path}.documents.npy")


# Where a document lies, as a row of int64.
class Place(NamedTuple):
    """Columns of a table of documents, [documents, 6] int64."""

    number: int
    piece: int
    first_token: int
    first_sentence: int
    last_token: int
    last_sentence: int


def places(pieces: Sequence[str]) -> np.ndarray:
    """Returns the table of all documents of some pieces, [documents, 6]."""
    rows = []
    for piece, path in enumerate(pieces):
        bounds = read_bounds(path)
        number = np.full((len(bounds) - 1, 1), piece)
        rows.append(np.hstack([number, number, bounds[:-1], bounds[1:]]))
    table = np.concatenate(rows) if rows else np.zeros((0, 6), np.int64)
    table[:, 0] = np.arange(len(table))
    return table


def read(
    pieces: Sequence[str], table: np.ndarray, vocab_size: int
) -> Documents:
    """Reads the documents of some rows of `places`."""
    dtype = token_dtype(vocab_size)
    tokens, lengths, counts = [], [], []
    for row in map(Place._make, table.tolist()):
        path = pieces[row.piece]
        counts.append(row.last_sentence - row.first_sentence)
        for name, found, kind, begin, end in (
            ("tokens", tokens, dtype, row.first_token, row.last_token),
            (
                "sentences",
                lengths,
                _LENGTH_DTYPE,
                row.first_sentence,
                row.last_sentence,
            ),
        ):
            found.append(
                np.fromfile(
                    f"{path}.{name}",
                    kind,
                    count=end - begin,
                    offset=begin * kind.itemsize,
                )
            )
    return Documents(
        tokens=np.concatenate(tokens),
        sentence_bounds=_bounds(np.concatenate(lengths)),
        document_bounds=_bounds(counts),
        numbers=table[:, 0],
    )


def _bounds(lengths) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def remove_piece(path: str) -> None:
    """Removes the three files of a piece."""
    for name in ("tokens", "sentences", "documents.npy"):
        os.remove(f"{path}.{name}")
