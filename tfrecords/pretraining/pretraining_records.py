"""Text files -> pre-training records, in steps that a rerun skips.

First each input file is tokenised into a piece (token_store.py). Then the
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

from tfrecords.engines import processes
from tfrecords.io import journal as progress
from tfrecords.io import progress as job_progress
from tfrecords.io import records, storage
from tfrecords.pretraining import corpus as corpus_lib
from tfrecords.pretraining import (
    dynamic_masking,
    masking,
    partitions,
    token_store,
)
from tfrecords.pretraining import pretraining_examples as examples_lib
from tfrecords.text import vocab as vocab_lib

TRAIN, HELD_OUT = partitions.TRAIN, partitions.HELD_OUT


def make_records(
    corpus: corpus_lib.Corpus,
    settings: examples_lib.Settings,
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
            tables = partitions.assign_partitions(
                token_store.places(pieces),
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
            dynamic_masking.keep_vocabulary(
                corpus.vocab_file, os.path.join(output_dir, name)
            )
        manifests[name].write(os.path.join(output_dir, name))
    storage.remove_folder(folders[-1])
    return manifests


class _ShardJob(NamedTuple):
    path: str
    pieces: list[str]
    table: np.ndarray
    shard: int
    settings: examples_lib.Settings
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
    documents = token_store.read(job.pieces, job.table, job.vocabulary.size)
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
    settings: examples_lib.Settings,
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
