"""Text files -> pre-training records, resumable shard by shard.

First each input file, or part of a large one, becomes a token file
(token_files.py). Then the documents of all files are split at random into
partitions of about a million tokens, and each partition becomes one shard. A
process holds one document of text or the tokens of one partition in memory; the
driver holds 48 bytes per document.

  <output_dir>/progress.jsonl   everything the records depend on; then a line
                                per shard
  <output_dir>/train/           shards, their indices, manifest.json
  <output_dir>/held_out/        the same, if documents are held out
  <output_dir>/work/            token files; removed at the end
"""

import dataclasses
import os
import pathlib
from typing import NamedTuple

import numpy as np
from absl import logging

from tfrecords import random_numbers
from tfrecords.engines import processes
from tfrecords.io import journal as journal_lib
from tfrecords.io import progress, records, storage
from tfrecords.options import REQUIRED, Options, check_on_disk, option
from tfrecords.pretraining import corpus as corpus_lib
from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import masking, token_files
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import text_files
from tfrecords.text import vocab as vocab_lib

TRAIN, HELD_OUT = "train", "held_out"
# Small enough for the memory of a process, large enough that random segments
# come from many documents.
_PARTITION_TOKENS = 1_000_000
_PARTITION_DOCUMENTS = 8
_MAX_UNUSED = 1  # Percent of tokens in no example, without a warning.
_MAX_UNKNOWN = 5  # The same for [UNK].
# Raised when the same text and flags give other examples, so that shards of
# two versions are not mixed.
_VERSION = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output(Options):
    """Output folder and number of shards."""

    output_dir: str = option(
        REQUIRED, "Output folder; train/ and held_out/ are created in it."
    )
    num_shards: int | None = option(
        None,
        "Number of files in train/. Default: one per million tokens of text, "
        "or so; one with --compat=original. The records depend on it.",
        at_least=1,
    )
    held_out_prob: float = option(
        0.0,
        "Fraction of documents to hold out in held_out/, at least one "
        "document; 0 for none.",
        at_least=0.0,
        at_most=1.0,
    )
    compat: str | None = option(
        None,
        "original: write exactly the records, in the same order, that "
        "google-research/bert's create_pretraining_data.py writes for these "
        "flags. Needs one sentence per line and a blank line between "
        "documents; files are read in the order given. Runs on one core and "
        "keeps all tokens and examples in memory: for small corpora and for "
        "comparisons.",
        choices=("original",),
    )

    def __post_init__(self):
        super().__post_init__()
        if self.compat:
            check_on_disk("output_dir", self.output_dir)


def make(
    corpus: corpus_lib.Corpus,
    settings: settings_lib.Settings,
    output: Output,
    engine: progress.Engine | None = None,
) -> dict[str, records.Manifest]:
    """Writes the records of a corpus; existing shards are kept.

    Args:
      corpus: text and vocabulary.
      settings: settings of the examples. Held-out documents are used once,
        regardless of `dupe_factor`.
      output: folder and number of shards.
      engine: runs the jobs; None for this process. The records do not depend
        on it. All its machines need access to `output_dir` and the input files.

    Returns:
      The manifest of each folder, by folder name.

    Raises:
      ValueError: if the folder holds other records or a damaged shard, or the
        corpus has no text.
      OSError: if the disk is full; no partial file remains.
    """
    fault = masking.too_few_slots(
        settings.max_seq_length,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
    )
    if fault:
        logging.warning("%s", fault)
    if corpus.is_split_into_words:
        _check_words(settings, output.compat)
    names = [TRAIN, HELD_OUT] if output.held_out_prob else [TRAIN]
    if output.compat:
        # Imported here, as few runs need it.
        from tfrecords.pretraining import original_records

        original_records.check(corpus, settings, output.held_out_prob)
        corpus = dataclasses.replace(corpus, input_format="sentences")
        # The original reads those of a glob in the order of the file system.
        paths = text_files.expand_inputs(corpus.input_file, in_order=True)
        # The original has one per name in its --output_file.
        num_shards = {TRAIN: output.num_shards or 1}
        made_with = {"num_shards": num_shards[TRAIN], "compat": output.compat}
    else:
        paths = corpus.paths()
        made_with = {
            "version": _VERSION,
            "num_shards": output.num_shards,
            "held_out_prob": output.held_out_prob,
        }
    vocabulary = masking.Vocabulary.of(vocab_lib.read(corpus.vocab_file))
    run = corpus.describe(paths) | settings.describe() | made_with
    journal = journal_lib.Journal(output.output_dir, run, names)
    folders = [
        os.path.join(output.output_dir, name) for name in [*names, "work"]
    ]
    journal.check_digests()
    manifests = journal.finished_manifests()
    if manifests:
        logging.info("records in %s are already complete", output.output_dir)
        storage.remove_folder(folders[-1])  # If its removal was killed.
        return manifests
    for folder in folders:
        storage.make_folder(folder)
    common = corpus, paths, settings, vocabulary, journal
    try:
        if output.compat:
            counts = original_records.make_shards(
                TRAIN, num_shards[TRAIN], *common
            )
        else:
            num_shards, counts = _make_all_shards(
                *common, output, engine or processes.Workers(1)
            )
    finally:
        # Temporary files of interrupted workers.
        for folder in [output.output_dir, *folders]:
            storage.remove_leftovers(folder)
    for name, number in num_shards.items():
        manifests[name] = _finish(
            name, number, settings, corpus, vocabulary.size, journal, counts
        )
    storage.remove_folder(folders[-1])
    return manifests


def _check_words(settings: settings_lib.Settings, compat: str | None) -> None:
    """Raises ValueError if the words of the text would not be used."""
    is_static = settings.masking_time == "static"
    if settings.unit == "tokens" or not is_static or compat:
        raise ValueError(
            "--is_split_into_words is for --masking=words or spans with "
            "--masking_time=static, since only then are words known, and not "
            f"for --compat; here masking={settings.unit}, "
            f"masking_time={settings.masking_time}, compat={compat}. Change "
            "these, or omit it."
        )


def _make_all_shards(
    corpus, paths, settings, vocabulary, journal, output, engine
):
    """Writes the missing shards of all sets.

    Returns their number in each set, and the counts of the text reader.
    """
    work = os.path.join(output.output_dir, "work")
    with engine as workers:
        tokenized = corpus_lib.tokenize(corpus, paths, work, workers)
        tables = assign_partitions(
            token_files.locate(tokenized),
            settings.random_seed,
            output.num_shards,
            output.held_out_prob,
        )
        for name, of_set in tables.items():
            _make_shards(
                name, of_set, tokenized, settings, vocabulary, journal, workers
            )
    num_shards = {name: len(of_set) for name, of_set in tables.items()}
    return num_shards, corpus_lib.read_statistics(tokenized)


class _ShardJob(NamedTuple):
    path: str
    token_files: list[str]
    table: np.ndarray
    shard: int
    settings: settings_lib.Settings
    vocabulary: masking.Vocabulary


def _make_shards(
    name, tables, tokenized, settings, vocabulary, journal, workers
):
    """Writes the missing shards."""
    if name == HELD_OUT:
        settings = dataclasses.replace(settings, dupe_factor=1)
    # Absolute: workers on other machines have another current folder.
    folder = os.path.join(storage.absolute_path(journal.output_dir), name)
    jobs = [
        _ShardJob(
            os.path.join(folder, file_name),
            tokenized,
            tables[shard],
            shard,
            settings,
            vocabulary,
        )
        for shard, file_name in enumerate(_shard_names(name, len(tables)))
        if not journal.has(name, file_name)
    ]
    weights = [int((job.table[:, 4] - job.table[:, 2]).sum()) for job in jobs]
    for _, (info, statistics) in workers.run(
        _make_shard, jobs, weights, name=f"write {name}", unit="tokens"
    ):
        journal.add(name, info, statistics)


def _shard_names(name, num_shards):
    numbers = range(num_shards)
    return [records.shard_name(name, shard, num_shards) for shard in numbers]


def _make_shard(job: _ShardJob) -> tuple[records.ShardInfo, dict]:
    documents = token_files.read(
        job.token_files, job.table, job.vocabulary.size
    )
    statistics = documents.counts()
    blocks = examples_lib.make_examples(
        documents, job.vocabulary, job.settings, job.shard, statistics
    )
    serialized = examples_lib.serialize(blocks, job.settings)
    return records.write_shard(job.path, serialized), statistics


def _finish(name, num_shards, settings, corpus, vocab_size, journal, counts):
    """Writes the manifest of a set whose shards are complete; logs counts."""
    shards, statistics = journal.read(name, _shard_names(name, num_shards))
    examples = statistics.get("examples")
    if not examples:
        raise ValueError(
            "The documents gave no examples. With --pairs=sentence_order, a "
            "document needs two tokens: check --input_file, or add documents."
        )
    rows = statistics.setdefault("rows", examples)
    row_tokens = statistics["example_tokens"] / settings.max_seq_length
    statistics |= {
        "padding_share": 1 - row_tokens / rows,
        # If no examples shared a row.
        "unpacked_padding_share": 1 - row_tokens / examples,
        "corpus": counts,
    }
    flags = dict(journal.run)
    manifest = records.Manifest(
        schema_name=settings.schema_name,
        sizes=settings.sizes,
        flags=flags,
        vocabulary={
            "sha256": flags["vocab_sha256"],
            "size": vocab_size,
            **corpus.rules,
        },
        statistics=statistics,
        shards=shards,
        libraries=flags.pop("libraries", {}),
    )
    folder = os.path.join(journal.output_dir, name)
    if settings.masking_time == "dynamic":
        # Dynamic masking reads it from there.
        path = os.path.join(folder, masking.VOCABULARY_NAME)
        with storage.atomic_file(path, "wb") as file:
            file.write(pathlib.Path(corpus.vocab_file).read_bytes())
    manifest.write(folder)
    _log(folder, manifest)
    return manifest


def _log(folder, manifest):
    statistics = manifest.statistics
    logging.info(
        "%s  shards %d  examples %d  documents %d  tokens %d  "
        "invalid_characters %d  digest %s",
        folder,
        len(manifest.shards),
        statistics["examples"],
        statistics["documents"],
        statistics["tokens"],
        statistics["corpus"]["invalid_characters"],
        manifest.digest,
    )
    logging.info(
        "%s  rows %d  padding %.1f %%, without packing %.1f %%",
        folder,
        statistics["rows"],
        100 * statistics["padding_share"],
        100 * statistics["unpacked_padding_share"],
    )
    unused, unknown = (
        100 * statistics[name] / statistics["tokens"]
        for name in ("unused_tokens", "unknown_tokens")
    )
    logging.info(
        "%s  cut_sentences %d  cut_tokens %d  unused_tokens %.1f %%  "
        "unknown_tokens %.1f %%",
        folder,
        statistics.get("cut_sentences", 0),
        statistics.get("cut_tokens", 0),
        unused,
        unknown,
    )
    # Held-out text is used once, so that truncation always loses some of it.
    if unused > _MAX_UNUSED and os.path.basename(folder) != HELD_OUT:
        fix = (
            "Pairs are truncated to --max_seq_length: a larger --dupe_factor "
            "gives each token more chances, and --pairs=none uses all."
        )
        if manifest.flags.get("compat"):
            fix = (
                "The original truncates sentences that are longer than an "
                "example; without --compat they are cut into parts."
            )
        logging.warning(
            "%s  %.1f %% of the tokens are in no example. %s",
            folder,
            unused,
            fix,
        )
    if unknown > _MAX_UNKNOWN:
        logging.warning(
            "%s  %.1f %% of the tokens are [UNK]: words with characters that "
            "the vocabulary lacks, or of more than %d characters, as in text "
            "without spaces. Use a vocabulary of this language, or split the "
            "text into words.",
            folder,
            unknown,
            vocab_lib.MAX_CHARS_PER_WORD,
        )


def assign_partitions(
    table: np.ndarray,
    random_seed: int,
    num_shards: int | None,
    held_out_prob: float,
) -> dict[str, list[np.ndarray]]:
    """Splits documents at random into sets, and each set into partitions.

    Every partition is a uniform sample of its set, and sizes of partitions
    differ by at most one document. So the document of a random next segment is
    uniform over the other documents of the set, although it is drawn from the
    same partition.

    Args:
      table: all documents, from `token_files.locate`.
      random_seed: seed of the split.
      num_shards: number of partitions of `train`; None to choose it by the size
        of the corpus.
      held_out_prob: share of documents in `held_out`; at least one, unless 0.

    Returns:
      The partitions of each set, by its name; each has some rows of the table.

    Raises:
      ValueError: if there are no documents, or too few.
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
            "documents to train on. Add documents, or set it to 0. In the "
            "format text each file is a document; in the format sentences "
            "blank lines separate them."
        )
    rng = random_numbers.Stream(random_seed, random_numbers.HELD_OUT).at()
    is_held_out = np.zeros(len(table), bool)
    is_held_out[rng.permutation(len(table))[:num_held_out]] = True
    rng = random_numbers.Stream(random_seed, random_numbers.PARTITIONS).at()
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
            f"num_shards={num_shards} exceeds the {len(table)} documents, "
            "which are not split. Lower --num_shards."
        )
    if len(table) < 2 * num_shards:
        logging.warning(
            "%d documents in %d shards: in a shard with a single document, "
            "random next sentences come from that same document",
            len(table),
            num_shards,
        )
    partition = rng.permutation(len(table)) % num_shards
    order = np.argsort(partition, kind="stable")
    ends = np.cumsum(np.bincount(partition, minlength=num_shards))
    return np.split(table[order], ends[:-1])
