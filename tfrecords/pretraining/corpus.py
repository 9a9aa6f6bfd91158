"""Text files -> token files, one per text file or part of a large one."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from tfrecords import libraries
from tfrecords.io import atomic_files, progress, storage
from tfrecords.options import REQUIRED, option
from tfrecords.pretraining import duplicates, file_parts, token_files
from tfrecords.text import documents as documents_lib
from tfrecords.text import text_files
from tfrecords.text import vocab as vocab_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus(documents_lib.TextOptions, vocab_lib.TokenOptions):
    """Input text, how to read it, and the vocabulary to tokenize it with."""

    vocab_file: str = option(
        REQUIRED,
        "WordPiece vocabulary, one entry per line, as released with BERT.",
        reads=True,
    )
    do_lower_case: bool = option(
        True, "Lower-case text and strip accents; false for cased vocabularies."
    )
    is_split_into_words: bool = option(
        False,
        "Words of the text are already separated by spaces, as jieba and LTP "
        "write Chinese. --masking=words or spans then masks all tokens of such "
        "a word or none; otherwise each Chinese character is a word.",
    )
    # Kinds of duplicates to drop, a subset of `duplicates.KINDS`.
    drop_duplicates: tuple[str, ...] = ()

    @property
    def rules(self) -> dict[str, bool]:
        """The rules that split text into words, see `vocab.rules_of`."""
        return vocab_lib.rules_of(vars(self))

    def describe(self, paths: Sequence[str]) -> dict:
        """Returns everything that the tokens of the files `paths` depend on."""
        versions = [_file_version(path) for path in paths]
        return {
            "input_files": f"{len(versions)} files; their names, sizes and "
            f"times have sha256 {_digest(versions)[:16]}",
            "vocab_sha256": atomic_files.digest(self.vocab_file),
            **self.rules,
            **self.reading(),
            "drop_duplicates": sorted(set(self.drop_duplicates)),
            **(
                {"is_split_into_words": True}
                if self.is_split_into_words
                else {}
            ),
            "libraries": libraries.of_records(
                *(["sentencex"] if self.input_format != "sentences" else ())
            ),
        }


def _file_version(path):
    return [storage.absolute_path(path), *storage.version(path)]


def _digest(content) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class _Job(NamedTuple):
    corpus: Corpus
    input_format: str
    version: list  # Of the file, its path first.
    part: text_files.Part
    token_file: str


def tokenize(
    corpus: Corpus, paths: Sequence[str], work: str, workers: progress.Engine
) -> list[str]:
    """Writes the token files of each input file, unless they exist.

    Returns:
      Paths of the token files, in the order of the input files and their parts.

    Raises:
      ValueError: if a file cannot be read, or changes while it is read.
    """
    # A token file depends only on its part of its own input file.
    basis = corpus.describe([])
    # Absolute paths: workers on other machines have another current folder.
    work = storage.absolute_path(work)
    corpus = dataclasses.replace(
        corpus, vocab_file=os.path.abspath(corpus.vocab_file)
    )
    versions = [_file_version(path) for path in paths]
    files = file_parts.split(
        [(path, size) for path, size, _ in versions],
        corpus.input_format,
        workers,
    )
    jobs = [
        _Job(
            corpus,
            input_format,
            version,
            part,
            os.path.join(work, _digest([basis, version, part])[:20]),
        )
        for version, (input_format, parts) in zip(versions, files, strict=True)
        for part in parts
    ]
    tokenized = [job.token_file for job in jobs]
    complete = token_files.find_complete(tokenized, workers)
    missing = [job for job in jobs if job.token_file not in complete]
    weights = [
        (job.part.end or job.version[1]) - job.part.begin for job in missing
    ]
    list(
        workers.run(
            _tokenize_part, missing, weights, name="tokenize", unit="bytes"
        )
    )
    for path, group in itertools.groupby(jobs, lambda job: job.version[0]):
        _count_empty_file(path, [job.token_file for job in group])
    if corpus.drop_duplicates:
        vocab_size = len(vocab_lib.read(corpus.vocab_file))
        return duplicates.drop(
            tokenized, corpus.drop_duplicates, work, vocab_size, workers
        )
    return tokenized


def _tokenize_part(job: _Job) -> None:
    corpus, path = job.corpus, job.version[0]
    statistics = text_files.ReadStatistics()
    reading = corpus.reading() | {"input_format": job.input_format}
    documents = documents_lib.read_file(
        path, statistics=statistics, part=job.part, **reading
    )
    fingerprints = None
    if corpus.drop_duplicates:
        documents, again = itertools.tee(documents)
        fingerprints = map(duplicates.fingerprint, again)
    function, vocab_size = load_tokenizer(
        corpus.vocab_file, corpus.is_split_into_words, **corpus.rules
    )
    token_files.write(
        job.token_file,
        (document.sentences for document in documents),
        function,
        vocab_size,
        fingerprints,
    )
    after = _file_version(path)
    if after != job.version:
        token_files.remove(job.token_file)
        raise ValueError(
            f"{path} changed while it was read: it had {job.version[1]} "
            f"bytes when the run began, it has {after[1]} now. Wait until it "
            "is complete, then run the same command again."
        )
    # Written last: it marks the token file as complete.
    token_files.finish(job.token_file, dataclasses.asdict(statistics))


def _count_empty_file(path, parts) -> None:
    """Counts and names a file whose parts all have no sentences."""
    if len(parts) > 1 and not read_statistics(parts)["sentences"]:
        logging.warning("%s has no sentences", path)
        counts = read_statistics(parts[:1]) | {"empty_files": 1}
        token_files.finish(parts[0], counts)


@functools.lru_cache(maxsize=1)
def load_tokenizer(
    vocab_file: str, is_split_into_words: bool = False, **rules: bool
) -> tuple[token_files.Tokenize, int]:
    """Returns a function that tokenizes sentences, and its vocabulary size.

    The function maps N strings to their T token ids, concatenated, and the
    number of tokens of each, [N]. It is created once per process. With
    `is_split_into_words`, the vocabulary size is added to the ids of tokens
    that continue a word, see `masking.Vocabulary`.
    """
    import tensorflow as tf

    from tfrecords.text import tokenizer as tokenizer_lib

    tokenizer = tokenizer_lib.BertTokenizer(vocab_file, **rules)
    graph = tf.function(
        tokenizer.__call__,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,  # No control flow to convert; saves seconds.
    )

    def function(sentences):
        ids = graph(tf.constant(sentences, tf.string))
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    def tokenize_words(sentences):
        words = [sentence.split() for sentence in sentences]
        ids, lengths = function(list(itertools.chain(*words)))
        begins = np.cumsum(lengths) - lengths
        continues = np.ones(len(ids), np.int64)
        continues[begins[lengths > 0]] = 0
        splits = np.cumsum([0, *map(len, words)])
        ends = np.append(0, np.cumsum(lengths))[splits]
        return ids + tokenizer.vocab_size * continues, np.diff(ends)

    if is_split_into_words:
        return tokenize_words, tokenizer.vocab_size
    return function, tokenizer.vocab_size


def read_statistics(paths: Sequence[str]) -> dict:
    """Returns the text reader's counts, summed over all token files."""
    total = text_files.ReadStatistics()
    for path in paths:
        total.add(text_files.ReadStatistics(**token_files.read_counts(path)))
    return dataclasses.asdict(total)
