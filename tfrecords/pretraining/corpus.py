"""Text files -> pieces of tokens, one for each file."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
from typing import NamedTuple

import tensorflow as tf

from tfrecords.io import progress, storage
from tfrecords.pretraining import duplicates, token_files
from tfrecords.text import documents as documents_lib
from tfrecords.text import text_files
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import vocab as vocab_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """Text and how to read it.

    Attributes:
      input_files: in the order of their documents.
      vocab_file: as released with BERT.
      do_lower_case: for uncased vocabularies.
      input_format: one of `documents.INPUT_FORMATS`.
      language: whose rules say where a sentence ends.
      text_field: of "jsonl" and "parquet", the field with the text.
      drop_duplicates: what is left out when it comes again, of
        `duplicates.KINDS`.
    """

    input_files: tuple[str, ...]
    vocab_file: str
    do_lower_case: bool = True
    input_format: str = "auto"
    language: str = "en"
    text_field: str = "text"
    drop_duplicates: tuple[str, ...] = ()

    def describe(self) -> dict:
        """Returns what records depend on; equal if and only if that is."""
        files = [_file_version(path) for path in self.input_files]
        with open(self.vocab_file, "rb") as file:
            vocab_sha256 = hashlib.sha256(file.read()).hexdigest()
        described = {
            "input_files": f"{len(files)} files; their names, sizes and "
            f"times have sha256 {_digest(files)[:16]}",
            "vocab_sha256": vocab_sha256,
            "do_lower_case": self.do_lower_case,
            "input_format": self.input_format,
            "language": self.language,
        }
        # Named if they are not what folders without them were made with.
        if self.text_field != "text":
            described["text_field"] = self.text_field
        if self.drop_duplicates:
            described["drop_duplicates"] = sorted(self.drop_duplicates)
        return described


def _file_version(path):
    return [storage.whole_path(path), *storage.version(path)]


def _digest(content) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class _FileJob(NamedTuple):
    corpus: Corpus  # Without its other files.
    path: str
    version: list
    piece: str


def tokenize(corpus: Corpus, work: str, workers: progress.Engine) -> list[str]:
    """Makes the piece of each input file, unless it is there.

    Returns:
      Paths of the pieces, in the order of the files.

    Raises:
      ValueError: if a file cannot be read, or changes while it is.
    """
    basis = corpus.describe()
    del basis["input_files"]  # A piece depends on its own file alone.
    # Whole paths: other machines have another current folder.
    work = storage.whole_path(work)
    alone = dataclasses.replace(
        corpus, input_files=(), vocab_file=os.path.abspath(corpus.vocab_file)
    )
    jobs, pieces = [], []
    for path in corpus.input_files:
        version = _file_version(path)
        piece = os.path.join(work, _digest([basis, version])[:20])
        pieces.append(piece)
        if not storage.exists(f"{piece}.json"):
            jobs.append(_FileJob(alone, version[0], version, piece))
    weights = [job.version[1] for job in jobs]
    for _ in workers.run(
        _tokenize_file, jobs, weights, name="tokenize", unit="bytes"
    ):
        pass
    if corpus.drop_duplicates:
        vocab_size = len(vocab_lib.read(corpus.vocab_file))
        return duplicates.drop(
            pieces, corpus.drop_duplicates, work, vocab_size, workers
        )
    return pieces


def _tokenize_file(job: _FileJob) -> None:
    corpus = job.corpus
    statistics = text_files.ReadStatistics()
    found = documents_lib.read_file(
        job.path,
        language=corpus.language,
        input_format=corpus.input_format,
        text_field=corpus.text_field,
        statistics=statistics,
    )
    fingerprints = None
    if corpus.drop_duplicates:
        found, again = itertools.tee(found)
        fingerprints = map(duplicates.fingerprint, again)
    function, vocab_size = load_tokenizer(
        corpus.vocab_file, corpus.do_lower_case
    )
    token_files.write_piece(
        job.piece,
        (document.sentences for document in found),
        function,
        vocab_size,
        fingerprints,
    )
    after = _file_version(job.path)
    if after != job.version:
        token_files.remove_piece(job.piece)
        raise ValueError(
            f"{job.path} changed while it was read: it had {job.version[1]} "
            f"bytes when the run began, it has {after[1]} now. Wait until it "
            "is whole, then run the same command again."
        )
    # Last: it says that the piece is whole.
    token_files.write_json(f"{job.piece}.json", dataclasses.asdict(statistics))


@functools.lru_cache(maxsize=1)
def load_tokenizer(
    vocab_file: str, do_lower_case: bool
) -> tuple[token_files.Tokenize, int]:
    """Returns a function of sentences, and the size of its vocabulary.

    The function maps strings [N] to ids [T] of all of them and lengths [N]. It
    is made once a process.
    """
    tokenizer = tokenizer_lib.BertTokenizer(vocab_file, do_lower_case)
    graph = tf.function(
        tokenizer.__call__,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,  # Nothing to convert, and that takes seconds.
    )

    def function(sentences):
        ids = graph(tf.constant(sentences))
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    return function, tokenizer.vocab_size


def read_statistics(pieces: list[str]) -> dict:
    """Returns what was seen while reading the files of pieces."""
    total = text_files.ReadStatistics()
    for piece in pieces:
        with storage.open_bytes(f"{piece}.json") as file:
            total.add(text_files.ReadStatistics(**json.load(file)))
    return dataclasses.asdict(total)
