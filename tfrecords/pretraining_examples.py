"""Documents -> pre-training examples: pairs, masked, as arrays.

The unit of work is a partition: some thousand documents, drawn at random from
the corpus, that fit into memory. Random next segments come from the documents
of the same partition. All that is random in an example comes from
(`random_seed`, document, repetition), so it does not matter who makes it.

N examples, S places in one.
"""

from collections.abc import Iterator

import numpy as np

from tfrecords import (
    example_settings,
    masking,
    random_numbers,
    schema,
    sentence_pairs,
    serialization,
    token_store,
)

# Places (N * S) that are worked on at a time: some 30 MB of arrays.
_BLOCK_PLACES = 1 << 18


# What says how to make them, under the name of what makes them.
Settings = example_settings.Settings


def make_pairs(
    documents: token_store.Documents, settings: Settings, shard: int
) -> sentence_pairs.Pairs:
    """Returns all pairs of a partition, shuffled."""
    max_num_tokens = settings.max_seq_length - 3  # [CLS], [SEP] and [SEP].
    stream = random_numbers.Stream(
        settings.random_seed, random_numbers.EXAMPLES
    )
    sentence_bounds = documents.sentence_bounds.tolist()
    document_bounds = documents.document_bounds.tolist()
    found = []
    for repetition in range(settings.dupe_factor):
        rows = []
        for place, number in enumerate(documents.numbers.tolist()):
            rows += sentence_pairs.pair(
                sentence_bounds,
                document_bounds,
                place,
                max_num_tokens,
                settings.short_seq_prob,
                stream.at(repetition, number),
            )
        found.append(np.array(rows, np.int64))
    pairs = np.concatenate(found)
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
) -> dict[str, np.ndarray]:
    """Returns [CLS] A [SEP] B [SEP] of each pair as encoder inputs [N, S]."""
    places = np.arange(max_seq_length)
    a_end = 1 + pairs.a_end - pairs.a_begin  # [N], the place of the first SEP.
    b_end = a_end + 1 + pairs.b_end - pairs.b_begin  # That of the second.
    is_b = places > a_end[:, None]  # Padding too, until it is cleared below.
    source = places + np.where(
        is_b,
        (pairs.b_begin - a_end - 1)[:, None],
        (pairs.a_begin - 1)[:, None],
    )  # [N, S]
    ids = tokens.take(source, mode="clip").astype(np.int32)
    ids[:, 0] = vocabulary.cls_id
    rows = np.arange(len(ids))
    ids[rows, a_end] = vocabulary.sep_id
    ids[rows, b_end] = vocabulary.sep_id
    is_token = places <= b_end[:, None]
    return {
        "input_word_ids": np.where(is_token, ids, 0),
        "input_mask": is_token.astype(np.int32),
        "input_type_ids": (is_b & is_token).astype(np.int32),
    }


def make_examples(
    documents: token_store.Documents,
    vocabulary: masking.Vocabulary,
    settings: Settings,
    shard: int,
    statistics: dict[str, int],
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the examples of a partition in blocks.

    Args:
      documents: the partition.
      vocabulary: of its tokens.
      settings: what to make.
      shard: number of the partition, for its order.
      statistics: counts are added to it.

    Yields:
      The features of `schema.PRETRAINING`, each [N, ...].
    """
    all_pairs = make_pairs(documents, settings, shard)
    block = max(1, _BLOCK_PLACES // settings.max_seq_length)
    for begin in range(0, len(all_pairs.seeds), block):
        pairs = sentence_pairs.Pairs(
            *(column[begin : begin + block] for column in all_pairs)
        )
        features = pack(
            documents.tokens, pairs, vocabulary, settings.max_seq_length
        )
        masked = masking.mask(
            features["input_word_ids"],
            features["input_mask"].sum(axis=1),
            pairs.seeds,
            vocabulary,
            settings.rules,
        )
        yield merge(features, masked, pairs, vocabulary, statistics)


def merge(
    features: dict[str, np.ndarray],
    masked: masking.Masked,
    pairs: sentence_pairs.Pairs,
    vocabulary: masking.Vocabulary,
    statistics: dict[str, int],
) -> dict[str, np.ndarray]:
    """Returns the features of `schema.PRETRAINING`, each [N, ...].

    Args:
      features: what `pack` made of the pairs.
      masked: the same rows, with tokens hidden.
      pairs: what the rows were made of.
      vocabulary: of the tokens.
      statistics: counts are added to it.
    """
    num_tokens = features["input_mask"].sum(axis=1)
    _count(statistics, pairs, num_tokens, masked, vocabulary)
    return features | {
        "input_word_ids": masked.input_word_ids,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.ids,
        "masked_lm_weights": masked.weights,
        "next_sentence_labels": pairs.is_random_next.astype(np.int32),
    }


def _count(statistics, pairs, num_tokens, masked, vocabulary):
    rows = np.arange(len(num_tokens))[:, None]
    shown = masked.input_word_ids[rows, masked.positions]
    is_used = masked.weights > 0
    for name, count in (
        ("examples", len(num_tokens)),
        ("random_next_examples", pairs.is_random_next.sum()),
        ("truncated_examples", (pairs.num_truncated > 0).sum()),
        ("truncated_tokens", pairs.num_truncated.sum()),
        ("example_tokens", num_tokens.sum()),
        ("predictions", is_used.sum()),
        ("mask_tokens", (is_used & (shown == vocabulary.mask_id)).sum()),
        ("kept_tokens", (is_used & (shown == masked.ids)).sum()),
    ):
        statistics[name] = statistics.get(name, 0) + int(count)


def serialize(
    blocks: Iterator[dict[str, np.ndarray]], settings: Settings
) -> Iterator[bytes]:
    """Yields each example of the blocks as a serialised tf.train.Example."""
    for block in blocks:
        yield from serialization.serialize_rows(
            block, schema.PRETRAINING, settings.sizes
        )
