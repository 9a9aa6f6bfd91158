"""Text files -> the very records that the original writes, in one go.

google-research/bert create_pretraining_data.py. Unlike records.py
this needs memory for the whole corpus, one core does it all, and a run that is
stopped begins anew: for small corpora, and for comparing.

  <output_dir>/progress.jsonl   what is made, then a line for each shard
  <output_dir>/train/           shards, their indices, manifest.json
  <output_dir>/work/            tokens; removed in the end
"""

import dataclasses
import os
import random
import shutil
from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from tfrecords.io import journal as progress
from tfrecords.io import records
from tfrecords.pretraining import corpus as corpus_lib
from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import (
    masking,
    original_examples,
    token_files,
)
from tfrecords.pretraining import records as pretraining_records
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import text_files
from tfrecords.text import vocab as vocab_lib

_BLOCK_EXAMPLES = 2048  # Built and serialised at a time.


def expand_inputs(patterns: str) -> list[str]:
    """Returns the files that match, in the order in which they are named.

    The order decides the records, and a file named twice is read twice. Files
    of one glob are sorted by name; the original takes them as they lie in
    their folder, which no two machines need to agree on.

    Args:
      patterns: names or globs, separated by commas.

    Raises:
      ValueError: if a pattern matches no file.
    """
    named = [pattern for pattern in patterns.split(",") if pattern.strip()]
    return [
        path
        for pattern in named or [patterns]
        for path in text_files.expand_inputs(pattern)
    ]


def read_documents(
    paths: Iterable[str], statistics: text_files.ReadStatistics
) -> Iterator[list[str]]:
    """Yields the sentences of each document, one a line.

    create_pretraining_data.py: create_training_instances. A blank line ends a
    document, and the end of a file does not.

    Args:
      paths: files to read, in this order.
      statistics: counts what is seen.

    Raises:
      ValueError: if a file is missing or not text, or its .gz is damaged.
    """
    sentences: list[str] = []
    for path in paths:
        statistics.files += 1
        for line in text_files.read_lines(path, statistics):
            # tf.gfile's readline leaves out each carriage return.
            line = line.replace("\r", "").strip()
            if line:
                sentences.append(line)
            elif sentences:
                yield _counted(sentences, statistics)
                sentences = []
    if sentences:
        yield _counted(sentences, statistics)


def _counted(sentences, statistics):
    statistics.documents += 1
    statistics.one_sentence_documents += len(sentences) == 1
    statistics.sentences += len(sentences)
    return sentences


def make_records(
    corpus: corpus_lib.Corpus,
    settings: settings_lib.Settings,
    output_dir: str,
    *,
    num_shards: int = 1,
) -> dict[str, records.Manifest]:
    """Makes the records of a corpus, unless they are there.

    create_pretraining_data.py: main, write_instance_to_example_files. Example
    i goes to shard i % num_shards.

    Args:
      corpus: text, one sentence a line, and vocabulary.
      settings: what examples to make.
      output_dir: where the folder `train` goes.
      num_shards: as many as the original was given names of output files.

    Returns:
      The manifest of `train`, under that name.

    Raises:
      ValueError: if the folder holds other records, or the corpus no text.
      OSError: if the disk is full; nothing half-written is left.
    """
    entries = vocab_lib.read(corpus.vocab_file)
    run = corpus.describe() | settings.describe()
    run |= {"num_shards": num_shards, "compat": "original"}
    name = pretraining_records.TRAIN
    journal = progress.Journal(output_dir, run, [name])
    manifests = journal.finished_manifests()
    if manifests:
        logging.info("records in %s are whole already", output_dir)
        return manifests
    folder, work = (os.path.join(output_dir, part) for part in (name, "work"))
    os.makedirs(folder, exist_ok=True)
    os.makedirs(work, exist_ok=True)
    read = text_files.ReadStatistics()
    rng = random.Random(settings.random_seed)
    try:
        documents = _read_shuffled(corpus, work, read, rng)
    finally:
        shutil.rmtree(work)
    vocabulary = masking.Vocabulary.of(entries)
    examples = original_examples.make_examples(
        documents, vocabulary, settings, rng
    )
    # Those of all shards are added up: the first one counts the corpus.
    statistics = {
        "documents": len(documents.numbers),
        "sentences": len(documents.sentence_bounds) - 1,
        "tokens": len(documents.tokens),
    }
    for shard in range(num_shards):
        rows = np.arange(shard, len(examples.num_masked), num_shards)
        path = os.path.join(folder, records.shard_name(name, shard, num_shards))
        serialized = _serialize(
            examples, rows, documents.tokens, vocabulary, settings, statistics
        )
        journal.add(name, records.write_shard(path, serialized), statistics)
        statistics = {}
    manifest = pretraining_records.describe(
        name,
        num_shards,
        settings,
        corpus,
        len(entries),
        journal,
        dataclasses.asdict(read),
    )
    manifest.write(folder)
    return {name: manifest}


def _read_shuffled(corpus, work, read, rng) -> token_files.Documents:
    """Returns all documents in random order; counts in `read` what is seen."""
    tokenize, vocab_size = corpus_lib.load_tokenizer(
        corpus.vocab_file, corpus.do_lower_case
    )
    piece = os.path.join(work, "corpus")
    token_files.write_piece(
        piece, read_documents(corpus.input_files, read), tokenize, vocab_size
    )
    table = token_files.places([piece])
    if not len(table):
        raise ValueError(
            f"There is no sentence with a token in the {read.files} input "
            "files; check --input_file."
        )
    order = list(range(len(table)))
    rng.shuffle(order)
    return token_files.read([piece], table[order], vocab_size)


def _serialize(examples, rows, tokens, vocabulary, settings, statistics):
    """Yields each of some examples as a serialised tf.train.Example."""
    blocks = (
        original_examples.build(
            examples,
            rows[begin : begin + _BLOCK_EXAMPLES],
            tokens,
            vocabulary,
            settings.max_seq_length,
            statistics,
        )
        for begin in range(0, len(rows), _BLOCK_EXAMPLES)
    )
    return examples_lib.serialize(blocks, settings)
