"""Text files -> pre-training records, in steps that a rerun skips.

First each input file is tokenised into a piece (token_files.py). Then the
documents of all pieces are dealt at random into partitions of about a million
tokens, and each partition becomes one shard. A process holds one document of
text or one partition of tokens; the driver 48 bytes for each document.

  <output_dir>/progress.jsonl   what is made, then a line for each shard
  <output_dir>/train/           shards, their indices, manifest.json
  <output_dir>/held_out/        the same, if documents are held out
  <output_dir>/work/            pieces; removed in the end
"""

import dataclasses
import os
from typing import NamedTuple

import numpy as np
from absl import logging

from tfrecords import random_numbers
from tfrecords.engines import processes
from tfrecords.io import journal as progress
from tfrecords.io import progress as job_progress
from tfrecords.io import records, storage
from tfrecords.pretraining import corpus as corpus_lib
from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import (
    masking,
    token_files,
)
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import vocab as vocab_lib

TRAIN, HELD_OUT = "train", "held_out"
# So that a process needs little memory, and yet random segments come from
# many documents.
_PARTITION_TOKENS = 1_000_000
_PARTITION_DOCUMENTS = 8


def make_records(
    corpus: corpus_lib.Corpus,
    settings: settings_lib.Settings,
    output_dir: str,
    *,
    num_shards: int | None = None,
    held_out_prob: float = 0.0,
    num_processes: int = 1,
    engine: job_progress.Engine | None = None,
) -> dict[str, records.Manifest]:
    """Makes the records of a corpus, or what is missing of them.

    Args:
      corpus: text and vocabulary.
      settings: what examples to make. Held-out documents are masked once,
        whatever the `dupe_factor`.
      output_dir: where the folders `train` and `held_out` go.
      num_shards: shards of `train`; None for about a million tokens each. The
        records depend on it, and not on `num_processes`.
      held_out_prob: share of the documents that go to `held_out`.
      num_processes: workers; 1 works in this process.
      engine: runs the jobs in place of `num_processes` workers here, on other
        machines perhaps, which then share `output_dir` and the input files.
        The records do not depend on it either.

    Returns:
      The manifest of each folder.

    Raises:
      ValueError: if the folder holds other records, or the corpus no text.
      OSError: if the disk is full; nothing half-written is left.
    """
    entries = vocab_lib.read(corpus.vocab_file)
    run = corpus.describe() | settings.describe()
    run |= {"num_shards": num_shards, "held_out_prob": held_out_prob}
    names = [TRAIN, HELD_OUT] if held_out_prob else [TRAIN]
    journal = progress.Journal(output_dir, run, names)
    manifests = journal.finished_manifests()
    if manifests:
        logging.info("records in %s are whole already", output_dir)
        return manifests
    folders = [os.path.join(output_dir, name) for name in [*names, "work"]]
    for folder in folders:
        storage.make_folder(folder)
    try:
        with engine or processes.Workers(num_processes) as workers:
            pieces = corpus_lib.tokenize(corpus, folders[-1], workers)
            tables = assign_partitions(
                token_files.places(pieces),
                settings.random_seed,
                num_shards,
                held_out_prob,
            )
            vocabulary = masking.Vocabulary.of(entries)
            for name in names:
                _make_shards(
                    name,
                    tables[name],
                    pieces,
                    settings,
                    vocabulary,
                    journal,
                    workers,
                )
    finally:
        # What a worker was writing when it was stopped.
        for folder in [output_dir, *folders]:
            storage.remove_leftovers(folder)
    read = corpus_lib.read_statistics(pieces)
    for name in names:
        manifests[name] = describe(
            name,
            len(tables[name]),
            settings,
            corpus,
            len(entries),
            journal,
            read,
        )
        if settings.masking_time == "dynamic":
            _keep_vocabulary(corpus.vocab_file, os.path.join(output_dir, name))
        manifests[name].write(os.path.join(output_dir, name))
    storage.remove_folder(folders[-1])
    return manifests


def _keep_vocabulary(vocab_file: str, folder: str) -> None:
    """Copies the vocabulary to where dynamic masking looks for it."""
    with open(vocab_file, "rb") as source:
        content = source.read()
    path = os.path.join(folder, masking.VOCABULARY_NAME)
    with storage.atomic_file(path, "wb") as target:
        target.write(content)


class _ShardJob(NamedTuple):
    path: str
    pieces: list[str]
    table: np.ndarray
    shard: int
    settings: settings_lib.Settings
    vocabulary: masking.Vocabulary


def _set_settings(name, settings):
    if name == HELD_OUT:
        return dataclasses.replace(settings, dupe_factor=1)
    return settings


def _make_shards(name, tables, pieces, settings, vocabulary, journal, workers):
    jobs = []
    for shard, table in enumerate(tables):
        file_name = records.shard_name(name, shard, len(tables))
        if not journal.has(name, file_name):
            # Whole: other machines have another current folder.
            folder = storage.whole_path(journal.output_dir)
            path = os.path.join(folder, name, file_name)
            jobs.append(
                _ShardJob(
                    path,
                    pieces,
                    table,
                    shard,
                    _set_settings(name, settings),
                    vocabulary,
                )
            )
    weights = [int((job.table[:, 4] - job.table[:, 2]).sum()) for job in jobs]
    for _, (info, statistics) in workers.run(
        _make_shard, jobs, weights, name=f"write {name}", unit="tokens"
    ):
        journal.add(name, info, statistics)


def _make_shard(job: _ShardJob) -> tuple[records.ShardInfo, dict]:
    documents = token_files.read(job.pieces, job.table, job.vocabulary.size)
    statistics = {
        "documents": len(documents.numbers),
        "sentences": len(documents.sentence_bounds) - 1,
        "tokens": len(documents.tokens),
    }
    blocks = examples_lib.make_examples(
        documents, job.vocabulary, job.settings, job.shard, statistics
    )
    serialized = examples_lib.serialize(blocks, job.settings)
    return records.write_shard(job.path, serialized), statistics


def describe(
    name: str,
    num_shards: int,
    settings: settings_lib.Settings,
    corpus: corpus_lib.Corpus,
    vocab_size: int,
    journal: progress.Journal,
    read: dict,
) -> records.Manifest:
    """Returns the manifest of a set of which every shard is finished.

    Args:
      name: of the set.
      num_shards: its shards.
      settings: what its examples are.
      corpus: what they were made of.
      vocab_size: entries in its vocabulary.
      journal: what was made.
      read: what was seen while reading the text.
    """
    names = [
        records.shard_name(name, shard, num_shards)
        for shard in range(num_shards)
    ]
    shards, statistics = journal.read(name, names)
    shares = examples_lib.shares(statistics)
    examples = statistics["examples"]
    rows = statistics.setdefault("rows", examples)
    row_tokens = statistics["example_tokens"] / settings.max_seq_length
    statistics |= {
        "padding_share": 1 - row_tokens / rows,
        # With a row for each example.
        "unpacked_padding_share": 1 - row_tokens / examples,
        **shares,
        "corpus": read,
    }
    return records.Manifest(
        schema_name=settings.schema_name,
        sizes=settings.sizes,
        flags=journal.run,
        vocabulary={
            "sha256": journal.run["vocab_sha256"],
            "size": vocab_size,
            "do_lower_case": corpus.do_lower_case,
        },
        statistics=statistics,
        shards=shards,
    )


def assign_partitions(
    table: np.ndarray,
    random_seed: int,
    num_shards: int | None,
    held_out_prob: float,
) -> dict[str, list[np.ndarray]]:
    """Splits documents at random into sets, and each set into partitions.

    Every partition is a uniform sample of its set, and their numbers of
    documents differ by one at most: so the partner of a random next sentence
    is uniform over the other documents of the set, though it is only looked
    for in the partition.

    Args:
      table: all documents, as `token_files.places` gives them.
      random_seed: of the split.
      num_shards: partitions of `train`; None for what fits the corpus.
      held_out_prob: share of documents in `held_out`; one at least, unless 0.

    Returns:
      Set to partitions, each a part of the table.

    Raises:
      ValueError: if there is no document, or fewer than needed.
    """
    num_held_out = 0
    if held_out_prob:
        num_held_out = max(1, round(len(table) * held_out_prob))
    if not len(table):
        raise ValueError(
            "There is no sentence with a token in the input files; check "
            "--input_file and --input_format."
        )
    if num_held_out >= len(table):
        raise ValueError(
            f"held_out_prob={held_out_prob} leaves none of {len(table)} "
            "documents to train on. Give more documents, or lower it to 0; "
            "blank lines separate documents."
        )
    rng = random_numbers.Stream(random_seed, random_numbers.HELD_OUT).at()
    is_held_out = np.zeros(len(table), bool)
    is_held_out[rng.permutation(len(table))[:num_held_out]] = True
    rng = random_numbers.Stream(random_seed, random_numbers.DEAL).at()
    tables = {TRAIN: _partitions(table[~is_held_out], num_shards, rng)}
    if num_held_out:
        tables[HELD_OUT] = _partitions(table[is_held_out], None, rng)
    return tables


def _partitions(table, num_shards, rng):
    if num_shards is None:
        tokens = (table[:, 4] - table[:, 2]).sum()
        num_shards = min(
            round(tokens / _PARTITION_TOKENS),
            len(table) // _PARTITION_DOCUMENTS,
        )
        num_shards = max(1, num_shards)
    if num_shards > len(table):
        raise ValueError(
            f"num_shards={num_shards} exceeds the {len(table)} documents; a "
            "shard holds whole documents. Lower --num_shards."
        )
    if len(table) < 2 * num_shards:
        logging.warning(
            "%d documents in %d shards: where a shard has one document, its "
            "random next sentences come from that same document",
            len(table),
            num_shards,
        )
    partition = rng.permutation(len(table)) % num_shards
    order = np.argsort(partition, kind="stable")
    ends = np.cumsum(np.bincount(partition, minlength=num_shards))
    return np.split(table[order], ends[:-1])
