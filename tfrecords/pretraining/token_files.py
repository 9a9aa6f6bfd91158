"""Documents -> files of token ids with random access to documents.

The token file of an input file is a group of files that need not fit into
memory: `<path>.tokens` holds token ids, `<path>.sentences` the length of each
sentence as int32, `<path>.documents.npy` the end of each document. To find
duplicates, `<path>.keys` and `<path>.digests` hold the fingerprints of
duplicates.py: uint64 per sentence and per document. `<path>.json`, written
last, has the counts of the text reader and a checksum of all.

They are plain arrays, which can be read by offset from local and remote
storage, and need no library on the machines of a cluster.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from tfrecords.io import progress, storage

# Sentences tokenized in one call, and held as text at a time.
_SENTENCES = 4096
_LENGTH_DTYPE = np.dtype("<i4")
_SUFFIXES = ("tokens", "sentences", "documents.npy", "keys", "digests")
_BLOCK_BYTES = 1 << 20  # Read at a time, for checksums.
KEY_DTYPE = np.dtype("<u8")
# Sentences copied at a time.
_COPIED_SENTENCES = 1 << 18

# N strings -> their T token ids, concatenated, and the tokens in each, [N].
Tokenize = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]


class Documents(NamedTuple):
    """Concatenated tokens of some documents.

    Example with two documents, of two sentences and of one:
      tokens           21 22 23 24 25 26
      sentence_bounds   0     2     4     6
      document_bounds   0           2     3
    """

    tokens: np.ndarray  # [T] integer.
    sentence_bounds: np.ndarray  # [sentences + 1] int64, into tokens.
    document_bounds: np.ndarray  # [documents + 1] int64, into sentences.
    numbers: np.ndarray  # [documents] int64, their indices in the corpus.

    def counts(self) -> dict[str, int]:
        """Returns the numbers of documents, sentences and tokens."""
        return {
            "documents": len(self.numbers),
            "sentences": len(self.sentence_bounds) - 1,
            "tokens": len(self.tokens),
        }


def cut_long_sentences(
    documents: Documents,
    max_tokens: int,
    part_tokens: int,
    is_continuation: np.ndarray,
) -> tuple[Documents, dict[str, int]]:
    """Cuts each sentence that is longer than an example into parts.

    An example shows at most `max_tokens` of a sentence, and the rest of it in
    no other example, as in create_pretraining_data.py. So a text without full
    stops would be lost.

      tokens            the cap ##tain looked at the sea
      part_tokens 3     the cap ##tain|looked at the|sea
      part_tokens 2     the|cap ##tain|looked at|the sea

    Args:
      documents: documents of a partition.
      max_tokens: tokens of the longest sentence that is not cut.
      part_tokens: maximum tokens of a part. Parts end where a word ends; a
        word that is longer than a part is cut too.
      is_continuation: [2 vocabulary size] bool, see `masking.Vocabulary`.

    Returns:
      The documents, and the numbers of sentences cut and of their tokens.
    """
    bounds = documents.sentence_bounds
    lengths = np.diff(bounds)
    added, after = [], []  # Ends of parts, and the bounds they come after.
    long = np.flatnonzero(lengths > max_tokens)
    for sentence in long.tolist():
        begin, end = bounds[sentence : sentence + 2].tolist()
        continues = is_continuation[documents.tokens[begin:end]]
        words = begin + np.flatnonzero(~continues)
        while end - begin > part_tokens:
            last = np.searchsorted(words, begin + part_tokens, "right") - 1
            is_word = last >= 0 and words[last] > begin
            begin = int(words[last]) if is_word else begin + part_tokens
            added.append(begin)
            after.append(sentence + 1)
    counts = {
        "cut_sentences": len(long),
        "cut_tokens": int(lengths[long].sum()),
    }
    if not added:
        return documents, counts
    earlier = np.searchsorted(after, documents.document_bounds, "right")
    return documents._replace(
        sentence_bounds=np.insert(bounds, after, added),
        document_bounds=documents.document_bounds + earlier,
    ), counts


class Fingerprint(NamedTuple):
    """Digests of a document's text."""

    keys: np.ndarray  # [sentences] uint64.
    digest: int  # Of the document, below 2^64.


def token_dtype(vocab_size: int) -> np.dtype:
    """Returns the smallest dtype on disk of ids below 2 `vocab_size`."""
    return np.dtype("<u2" if vocab_size <= 1 << 15 else "<i4")


def _groups(documents) -> Iterator[list[tuple]]:
    """Yields lists of documents with about `_SENTENCES` sentences each."""
    group, num_sentences = [], 0
    for document in documents:
        group.append(document)
        num_sentences += len(document[0])
        if num_sentences >= _SENTENCES:
            yield group
            group, num_sentences = [], 0
    if group:
        yield group


def write(
    path: str,
    documents: Iterable[Sequence[str]],
    tokenize: Tokenize,
    vocab_size: int,
    fingerprints: Iterable[Fingerprint] | None = None,
) -> None:
    """Writes the token file of documents.

    As in create_pretraining_data.py, sentences without tokens are omitted, and
    then documents without sentences.

    Args:
      path: path of the token file, to which suffixes are added.
      documents: the sentences of each document.
      tokenize: sentences -> ids and lengths.
      vocab_size: all ids are below twice this, see `masking.Vocabulary`.
      fingerprints: fingerprint of each document, to write as well; None to
        write none.
    """
    suffixes = ["tokens", "sentences"]
    both = ((document, None) for document in documents)
    if fingerprints is not None:
        suffixes += ["keys", "digests"]
        both = zip(documents, fingerprints, strict=True)
    ends = [np.zeros((1, 2), np.int64)]  # Tokens and sentences before each.
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(storage.atomic_file(f"{path}.{suffix}", "wb"))
            for suffix in suffixes
        ]
        for group in _groups(both):
            flat = [text for sentences, _ in group for text in sentences]
            lengths = []
            for begin in range(0, len(flat), _SENTENCES):
                ids, counts = tokenize(flat[begin : begin + _SENTENCES])
                files[0].write(ids.astype(token_dtype(vocab_size)).data)
                lengths.append(counts)
            lengths = np.concatenate(lengths).astype(_LENGTH_DTYPE)
            files[1].write(lengths[lengths > 0].data)
            sentences = [len(sentences) for sentences, _ in group]
            after, has_any = _ends(lengths, lengths > 0, _bounds(sentences))
            if fingerprints is not None:
                keys = np.concatenate([print_.keys for _, print_ in group])
                files[2].write(keys[lengths > 0].astype(KEY_DTYPE).data)
                digests = np.array(
                    [print_.digest for _, print_ in group], KEY_DTYPE
                )
                files[3].write(digests[has_any].data)
            if has_any.any():
                ends.append(ends[-1][-1] + after[has_any])
    save(f"{path}.documents.npy", np.concatenate(ends))


def _ends(lengths, is_kept, document_bounds):
    """Returns the numbers of kept tokens and sentences up to documents' ends.

    These are [documents, 2]. Also returns [documents] bool, whether sentences
    of the document are kept. `lengths` and `is_kept` are per sentence.
    """
    before = np.stack([_bounds(lengths * is_kept), _bounds(is_kept)], 1)
    before = before[document_bounds]
    return before[1:], np.diff(before[:, 1]) > 0


def copy(path: str, target: str, is_kept: np.ndarray, vocab_size: int) -> None:
    """Copies the selected sentences, and the documents that contain them.

    `is_kept` [sentences] bool selects them. The copy has no fingerprints.
    """
    lengths = storage.read_array(f"{path}.sentences", _LENGTH_DTYPE)
    starts = _bounds(lengths)
    with storage.atomic_file(f"{target}.tokens", "wb") as file:
        for begin in range(0, len(lengths), _COPIED_SENTENCES):
            block = slice(begin, begin + _COPIED_SENTENCES)
            first, last = starts[begin], starts[: block.stop + 1][-1]
            tokens = storage.read_array(
                f"{path}.tokens", token_dtype(vocab_size), first, last
            )
            file.write(tokens[np.repeat(is_kept[block], lengths[block])].data)
    with storage.atomic_file(f"{target}.sentences", "wb") as file:
        file.write(lengths[is_kept].data)
    ends, has_any = _ends(lengths, is_kept, read_bounds(path)[:, 1])
    ends = np.concatenate([np.zeros((1, 2), np.int64), ends[has_any]])
    save(f"{target}.documents.npy", ends)


def finish(path: str, counts: dict) -> None:
    """Writes `<path>.json`, which marks a token file as complete."""
    content = {"counts": counts, "checksum": _checksum(path, counts)}
    with storage.atomic_file(f"{path}.json", "wb") as file:
        file.write(json.dumps(content).encode())


def read_counts(path: str) -> dict:
    """Returns the counts of a token file that is complete."""
    with storage.open_bytes(f"{path}.json") as file:
        return json.load(file)["counts"]


def find_complete(paths: Sequence[str], workers: progress.Engine) -> set[str]:
    """Returns the token files that are complete; logs which are damaged."""
    found = [path for path in paths if storage.exists(f"{path}.json")]
    ones = [1] * len(found)
    faults = dict(
        workers.run(_find_fault, found, ones, name="compare", unit="files")
    )
    for path in filter(faults.get, found):
        logging.warning("%s.*  made again: %s", path, faults[path])
    return {path for path in found if not faults[path]}


def _find_fault(path: str) -> str:
    """Returns what is wrong with a token file that was complete once, or ""."""
    # Not OSError: a store that cannot be reached is no damage.
    damages = (FileNotFoundError, ValueError, TypeError, KeyError)
    with contextlib.suppress(*damages):
        with storage.open_bytes(f"{path}.json") as file:
            content = json.load(file)
        if "checksum" not in content:
            return "it is of an earlier version"
        if content["checksum"] == _checksum(path, content["counts"]):
            return ""
    return "a file is damaged"


def _checksum(path: str, counts: dict) -> int:
    """Returns the checksum of a token file's name, counts and files."""
    name = os.path.basename(path)
    value = zlib.crc32(f"{name} {json.dumps(counts)}".encode())
    for suffix in _SUFFIXES:
        if storage.exists(f"{path}.{suffix}"):
            with storage.open_bytes(f"{path}.{suffix}") as file:
                while block := file.read(_BLOCK_BYTES):
                    value = zlib.crc32(block, value)
    return value


def read_bounds(path: str) -> np.ndarray:
    """Returns [documents + 1, 2] tokens, sentences before each; then totals."""
    return load(f"{path}.documents.npy")


def save(path: str, array: np.ndarray) -> None:
    """Writes a local or remote .npy file."""
    with storage.atomic_file(path, "wb") as file:
        np.save(file, array)


def load(path: str) -> np.ndarray:
    """Returns the array of a local or remote .npy file."""
    with storage.open_bytes(path) as file:
        return np.load(file)


def locate(paths: Sequence[str]) -> np.ndarray:
    """Returns the table of all documents, [documents, 6] int64.

    Columns: index of the document, index of its token file; in that file, the
    document's first token and first sentence, and the ends of its tokens and of
    its sentences.
    """
    rows = []
    for index, path in enumerate(paths):
        bounds = read_bounds(path)
        file = np.full((len(bounds) - 1, 1), index)
        rows.append(np.hstack([file, file, bounds[:-1], bounds[1:]]))
    table = np.concatenate(rows) if rows else np.zeros((0, 6), np.int64)
    table[:, 0] = np.arange(len(table))
    return table


def read(paths: Sequence[str], table: np.ndarray, vocab_size: int) -> Documents:
    """Returns the documents in `table`, which has rows of `locate`."""
    dtype = token_dtype(vocab_size)
    tokens, lengths, counts = [], [], []
    for _, file, first_token, first, last_token, last in table.tolist():
        path = paths[file]
        counts.append(last - first)
        tokens.append(
            storage.read_array(f"{path}.tokens", dtype, first_token, last_token)
        )
        lengths.append(
            storage.read_array(f"{path}.sentences", _LENGTH_DTYPE, first, last)
        )
    return Documents(
        tokens=np.concatenate(tokens),
        sentence_bounds=_bounds(np.concatenate(lengths)),
        document_bounds=_bounds(counts),
        numbers=table[:, 0],
    )


def _bounds(lengths) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def remove(path: str) -> None:
    """Removes those files of a token file that exist."""
    for suffix in _SUFFIXES:
        storage.remove(f"{path}.{suffix}")
