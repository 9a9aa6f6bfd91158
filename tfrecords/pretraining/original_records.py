"""Text files -> the records that the original writes, bit for bit.

google-research/bert create_pretraining_data.py. Unlike records.py, this holds
the entire corpus in memory, runs on one core, and restarts from the beginning
after an interruption: it is for small corpora and comparisons.
"""

import dataclasses
import os
import random
from collections.abc import Iterable, Iterator

from tfrecords.io import journal as journal_lib
from tfrecords.io import records, storage
from tfrecords.pretraining import corpus as corpus_lib
from tfrecords.pretraining import examples as examples_lib
from tfrecords.pretraining import masking, original_examples, token_files
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import documents as documents_lib
from tfrecords.text import text_files

_BLOCK_EXAMPLES = 2048  # Built and serialized at a time.


def read_documents(
    paths: Iterable[str], statistics: text_files.ReadStatistics
) -> Iterator[list[str]]:
    """Yields the sentences of each document, one per input line.

    create_pretraining_data.py: create_training_instances. A blank line ends a
    document; the end of a file does not. Errors are those of
    `text_files.read_lines`.
    """

    def lines():
        for path in paths:
            statistics.files += 1
            for line in text_files.read_lines(path, statistics):
                # tf.gfile's readline drops every carriage return.
                yield line.replace("\r", "")

    for _, sentences in documents_lib.split_paragraphs(lines()):
        statistics.add_document(len(sentences))
        yield sentences


def check(
    corpus: corpus_lib.Corpus,
    settings: settings_lib.Settings,
    held_out_prob: float,
) -> None:
    """Raises ValueError for an option that the original does not support."""
    examples = (
        "The original only makes next-sentence pairs, with tokens or words "
        "masked 80/10/10 when records are written."
    )
    refused = {
        f"held_out_prob={held_out_prob}": (
            held_out_prob,
            "The original holds out no documents: put them into a separate "
            "file and make their records in another --output_dir.",
        ),
        f"drop_duplicates={','.join(corpus.drop_duplicates)}": (
            corpus.drop_duplicates,
            "The original does not drop duplicates.",
        ),
        f"input_format={corpus.input_format}": (
            corpus.input_format not in ("auto", "sentences"),
            "The original reads one sentence per line: split the text into "
            "sentences first.",
        ),
        f"mask_mix={','.join(settings.mask_mix)}": (
            settings.rules.mix != masking.Mix(),
            examples,
        ),
        f"masking={settings.unit}": (settings.unit == "spans", examples),
    } | {
        f"{name}={getattr(settings, name)}": (
            getattr(settings, name) != getattr(settings_lib.Settings, name),
            examples,
        )
        for name in ("max_examples_per_row", "pairs", "masking_time")
    }
    for flag, (is_refused, reason) in refused.items():
        if is_refused:
            raise ValueError(
                f"--{flag} cannot be combined with --compat=original; omit "
                f"one of the two flags. {reason}"
            )


def make_shards(
    name: str,
    num_shards: int,
    corpus: corpus_lib.Corpus,
    paths: Iterable[str],
    settings: settings_lib.Settings,
    vocabulary: masking.Vocabulary,
    journal: journal_lib.Journal,
) -> dict:
    """Writes the shards of a corpus, and adds them to the journal.

    create_pretraining_data.py: main, write_instance_to_example_files. Example
    i goes to shard i % num_shards.

    Args:
      name: name of the set of records.
      num_shards: number of its shards.
      corpus: how to tokenize the text.
      paths: its files, one sentence per line.
      settings: settings of the examples.
      vocabulary: properties of the corpus's vocabulary.
      journal: of the run. Tokens are in `work/` of its folder meanwhile.

    Returns:
      The counts of the text reader.

    Raises:
      ValueError: if the corpus has no text.
      OSError: if the disk is full; no partial file remains.
    """
    counts = text_files.ReadStatistics()
    rng = random.Random(settings.random_seed)
    work = os.path.join(journal.output_dir, "work")
    documents = _read_shuffled(corpus, paths, work, counts, rng)
    examples = original_examples.make_examples(
        documents, vocabulary, settings, rng
    )
    # Statistics of all shards are summed: only the first counts the corpus.
    statistics = documents.counts()
    statistics |= examples_lib.count_lost(
        documents.tokens, examples.pairs, vocabulary
    )
    step = _BLOCK_EXAMPLES * num_shards
    for shard in range(num_shards):
        shard_name = records.shard_name(name, shard, num_shards)
        path = os.path.join(journal.output_dir, name, shard_name)
        blocks = (
            original_examples.build(
                examples,
                slice(start, start + step, num_shards),
                documents.tokens,
                vocabulary,
                settings.max_seq_length,
                statistics,
            )
            for start in range(shard, len(examples.num_masked), step)
        )
        serialized = examples_lib.serialize(blocks, settings)
        journal.add(name, records.write_shard(path, serialized), statistics)
        statistics = {}
    return dataclasses.asdict(counts)


def _read_shuffled(corpus, paths, work, counts, rng):
    """Returns all documents in random order; adds to the reader's counts."""
    tokenize, vocab_size = corpus_lib.load_tokenizer(
        corpus.vocab_file, **corpus.rules
    )
    token_file = os.path.join(work, "corpus")
    try:
        documents = read_documents(paths, counts)
        token_files.write(token_file, documents, tokenize, vocab_size)
        table = token_files.locate([token_file])
        if not len(table):
            raise ValueError(
                f"There is no sentence with a token in the {counts.files} "
                "input files; check --input_file."
            )
        order = list(range(len(table)))
        rng.shuffle(order)
        return token_files.read([token_file], table[order], vocab_size)
    finally:
        storage.remove_folder(work)  # It cannot be resumed.
