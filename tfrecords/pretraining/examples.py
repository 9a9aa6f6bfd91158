"""Documents -> masked pre-training examples, as arrays.

The unit of work is a partition: a random sample of the corpus's documents that
fits into memory. Random next segments come from documents of the same
partition. All randomness of an example is derived from (`random_seed`,
document, repetition), so it does not depend on the worker.

N examples, S positions per example.
"""

from collections.abc import Iterator

import numpy as np

from tfrecords import random_numbers, schema
from tfrecords.io import serialization
from tfrecords.pretraining import masking, packing, sentence_pairs, token_files
from tfrecords.pretraining import settings as settings_lib

# Positions (N * S) processed at a time: about 30 MB of arrays.
_BLOCK_POSITIONS = 1 << 18

# How a document is cut, and the number of special tokens in an example.
_CUTS = {
    "next_sentence": (sentence_pairs.pair, 3),  # [CLS], [SEP] and [SEP].
    "sentence_order": (sentence_pairs.sentence_order_pairs, 3),
    "none": (sentence_pairs.full_sentences, 2),
}
# A long sentence is cut into parts of an eighth of an example, about the length
# of a sentence in a book, so that truncation removes a few percent of it.
_PARTS = 8


def make_pairs(
    documents: token_files.Documents,
    settings: settings_lib.Settings,
    shard: int,
) -> sentence_pairs.Pairs:
    """Returns all pairs or single segments of a partition, shuffled."""
    cut, num_special = _CUTS[settings.pairs]
    max_num_tokens = settings.max_seq_length - num_special
    stream = random_numbers.Stream(
        settings.random_seed, random_numbers.EXAMPLES
    )
    sentence_bounds = documents.sentence_bounds.tolist()
    document_bounds = documents.document_bounds.tolist()
    of_repetition = []
    for repetition in range(settings.dupe_factor):
        rows = []
        for index, number in enumerate(documents.numbers.tolist()):
            rows += sentence_pairs.rows(
                cut,
                sentence_bounds,
                document_bounds,
                index,
                max_num_tokens,
                settings.short_seq_prob,
                rng=stream.at(repetition, number),
            )
        of_repetition.append(np.array(rows, np.int64).reshape(-1, 6))
    pairs = np.concatenate(of_repetition)
    shuffle = random_numbers.Stream(
        settings.random_seed, random_numbers.SHUFFLE
    )
    shuffle.at(shard).shuffle(pairs)
    return sentence_pairs.truncate(pairs, max_num_tokens)


def pack(
    tokens: np.ndarray,
    pairs: sentence_pairs.Pairs,
    vocabulary: masking.Vocabulary,
    max_seq_length: int,
    is_single: bool = False,
) -> dict[str, np.ndarray]:
    """Returns [CLS] A [SEP] B [SEP] of each pair as encoder inputs [N, S].

    With `is_single`, [CLS] A [SEP].
    """
    positions = np.arange(max_seq_length)
    # [N] positions of the first and of the last [SEP].
    a_end = 1 + pairs.a_end - pairs.a_begin
    last = a_end if is_single else a_end + 1 + pairs.b_end - pairs.b_begin
    is_b = positions > a_end[:, None]  # Also True at padding; cleared below.
    source = positions + np.where(
        is_b, (pairs.b_begin - a_end - 1)[:, None], (pairs.a_begin - 1)[:, None]
    )  # [N, S]
    ids = tokens.take(source, mode="clip").astype(np.int32)
    ids[:, 0] = vocabulary.cls_id
    for end in (a_end, last):
        ids[np.arange(len(ids)), end] = vocabulary.sep_id
    is_token = positions <= last[:, None]
    return {
        "input_word_ids": np.where(is_token, ids, 0),
        "input_mask": is_token.astype(np.int32),
        "input_type_ids": (is_b & is_token).astype(np.int32),
    }


def make_examples(
    documents: token_files.Documents,
    vocabulary: masking.Vocabulary,
    settings: settings_lib.Settings,
    shard: int,
    statistics: dict[str, int],
) -> Iterator[dict[str, np.ndarray]]:
    """Returns the examples of a partition in blocks, packed if so configured.

    A block has the features of the settings' schema, each [N, ...], or
    [rows, ...] if packed. The order of examples depends on the shard number.
    Counts are added to `statistics` while blocks are read; "rows" is set.
    """
    if settings.pairs != "none":  # Single segments continue a long sentence.
        longest = settings.max_seq_length - _CUTS[settings.pairs][1]
        documents, counts = token_files.cut_long_sentences(
            documents,
            longest,
            max(1, longest // _PARTS),
            vocabulary.is_continuation,
        )
        statistics |= counts
    pairs = make_pairs(documents, settings, shard)
    statistics |= count_lost(documents.tokens, pairs, vocabulary)
    if settings.is_packed:
        a_lengths = pairs.a_end - pairs.a_begin
        b_lengths = pairs.b_end - pairs.b_begin
        rows = packing.assign(
            _CUTS[settings.pairs][1] + a_lengths + b_lengths,
            settings.max_seq_length,
            settings.max_examples_per_row,
        )
        statistics["rows"] = len(rows.counts)
        pairs = pairs.of(rows.order)
    blocks = _make_blocks(documents, pairs, vocabulary, settings, statistics)
    if settings.is_packed:
        blocks = packing.pack(blocks, rows.counts, settings.sizes)
    return blocks


def count_lost(
    tokens: np.ndarray,
    pairs: sentence_pairs.Pairs,
    vocabulary: masking.Vocabulary,
) -> dict[str, int]:
    """Returns the numbers of tokens in no pair, and of [UNK]."""
    begins = np.concatenate([pairs.a_begin, pairs.b_begin])
    ends = np.concatenate([pairs.a_end, pairs.b_end])
    changes = np.bincount(begins, minlength=len(tokens) + 1)
    changes -= np.bincount(ends, minlength=len(tokens) + 1)
    return {
        "unused_tokens": int((np.cumsum(changes[:-1]) == 0).sum()),
        "unknown_tokens": int(
            (tokens % vocabulary.size == vocabulary.unk_id).sum()
        ),
    }


def _make_blocks(documents, all_pairs, vocabulary, settings, statistics):
    """Yields the examples of the pairs, in order, in blocks."""
    block = max(1, _BLOCK_POSITIONS // settings.max_seq_length)
    for begin in range(0, len(all_pairs.seeds), block):
        pairs = all_pairs.of(slice(begin, begin + block))
        features = pack(
            documents.tokens,
            pairs,
            vocabulary,
            settings.max_seq_length,
            is_single=settings.pairs == "none",
        )
        masked = None
        if settings.masking_time == "static":
            masked = masking.mask(
                features["input_word_ids"],
                features["input_mask"].sum(axis=1),
                pairs.seeds,
                vocabulary,
                settings.rules,
            )
        yield merge(features, masked, pairs, statistics, settings.pairs)


def merge(
    features: dict[str, np.ndarray],
    masked: masking.Masked | None,
    pairs: sentence_pairs.Pairs,
    statistics: dict[str, int],
    kind: str = "next_sentence",
) -> dict[str, np.ndarray]:
    """Returns all features of examples, each [N, ...].

    `features` are those of `pack`; `masked` holds the same rows after masking,
    or is None. Counts are added to `statistics`. `kind` is one of
    `settings.PAIRS`.
    """
    is_token = features["input_mask"]
    for name, count in (
        ("examples", len(is_token)),
        ("example_tokens", is_token.sum()),
    ):
        statistics[name] = statistics.get(name, 0) + int(count)
    if masked is not None:
        features = features | masked.features()
    if kind == "none":
        return features
    labels = pairs.is_random_next.astype(np.int32)
    return features | {"next_sentence_labels": labels}


def serialize(
    blocks: Iterator[dict[str, np.ndarray]], settings: settings_lib.Settings
) -> Iterator[bytes]:
    """Yields each row of the blocks as a serialized tf.train.Example."""
    features = schema.SCHEMAS[settings.schema_name]
    for block in blocks:
        yield from serialization.serialize_rows(block, features, settings.sizes)
