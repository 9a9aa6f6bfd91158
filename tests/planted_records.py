"""Faults by name -> small pre-training records with only these faults."""

import os

import numpy as np
import record_folders

from tfrecords import schema
from tfrecords.io import atomic_files, serialization
from tfrecords.text import vocab

SIZES = {"max_seq_length": 32, "max_predictions_per_seq": 5}
FLAGS = {
    "dupe_factor": 2,
    "masked_lm_prob": 0.15,
    "max_predictions_per_seq": 5,
    "pairs": "next_sentence",
}
_WORDS = [c + v for c in "bdfghklmnprstvz" for v in "aeiou"]
UNCASED = [*vocab.SPECIAL_TOKENS, *_WORDS, *(f"##{word}" for word in _WORDS)]
CASED = [*UNCASED, *(word.title() for word in _WORDS)]
UNK, CLS, SEP, MASK = 1, 2, 3, 4


def make_batch(
    num_examples=800,
    entries=UNCASED,
    *,
    seed=0,
    unk_share=0.0,
    capital_share=0.0,
    random_next_share=0.5,
    masked_lm_prob=0.15,
    mask_share=0.8,
    copies=1,
):
    """Returns features of examples, which are valid for default arguments.

    Args:
      num_examples: number of examples.
      entries: vocabulary.
      seed: random seed.
      unk_share: share of words that are [UNK].
      capital_share: share of words that begin with a capital; needs CASED.
      random_next_share: share of examples whose B is random.
      masked_lm_prob: share of tokens that are masked.
      mask_share: share of masked tokens replaced by [MASK]; half of the others
        are random, half are kept.
      copies: number of examples with the same text and different masks.
    """
    rng = np.random.default_rng(seed)
    length, slots = SIZES.values()
    num_texts = num_examples // copies
    first, last = 5, len(UNCASED)
    ids = rng.integers(first, last, (num_texts, length))
    if capital_share:
        is_capital = rng.random(ids.shape) < capital_share
        capitals = rng.integers(last, len(entries), ids.shape)
        ids = np.where(is_capital, capitals, ids)
    ids = np.where(rng.random(ids.shape) < unk_share, UNK, ids)
    tokens = rng.integers(20, length + 1, num_texts)
    ends = rng.integers(4, 15, num_texts)  # Position of the [SEP] after A.
    ids, tokens, ends = (
        np.tile(x, (copies, *[1] * (x.ndim - 1)))
        if x.ndim > 1
        else np.tile(x, copies)
        for x in (ids, tokens, ends)
    )
    rows, positions = np.arange(len(ids)), np.arange(length)
    is_token = positions < tokens[:, None]
    ids[:, 0] = CLS
    ids[rows, ends] = ids[rows, tokens - 1] = SEP
    ids *= is_token
    batch = {
        "input_word_ids": ids.copy(),
        "input_mask": is_token.astype(int),
        "input_type_ids": (is_token & (positions > ends[:, None])).astype(int),
        "masked_lm_positions": np.zeros((len(ids), slots), int),
        "masked_lm_ids": np.zeros((len(ids), slots), int),
        "masked_lm_weights": np.zeros((len(ids), slots), np.float32),
        "next_sentence_labels": (
            rng.random(len(ids)) < random_next_share
        ).astype(int),
    }
    for row in rows:
        wanted = round(tokens[row] * masked_lm_prob)
        number = min(max(wanted, 1), slots)
        maskable = np.flatnonzero((ids[row] > 4) | (ids[row] == UNK))
        chosen = np.sort(rng.permutation(maskable)[:number])
        kinds = rng.random(len(chosen))
        rest = (1 - mask_share) / 2
        shown = np.where(kinds < mask_share, MASK, ids[row, chosen])
        random_ids = rng.integers(0, len(entries), len(chosen))
        shown = np.where(kinds >= 1 - rest, random_ids, shown)
        used = slice(0, len(chosen))
        batch["masked_lm_positions"][row, used] = chosen
        batch["masked_lm_ids"][row, used] = ids[row, chosen]
        batch["masked_lm_weights"][row, used] = 1.0
        batch["input_word_ids"][row, chosen] = shown
    return batch


def write(
    folder,
    batch,
    entries=UNCASED,
    *,
    do_lower_case=True,
    num_shards=2,
    flags=None,
    sizes=None,
    schema_name="pretraining",
):
    """Writes records and manifest, and vocab.txt in the parent folder.

    Returns:
      The folder of the records, and the path of the vocabulary.
    """
    folder = str(folder)
    os.makedirs(folder, exist_ok=True)
    vocab_file = os.path.join(os.path.dirname(folder), "vocab.txt")
    vocab.write(entries, vocab_file)
    kind = schema.SCHEMAS[schema_name]
    sizes = sizes or SIZES
    serialized = serialization.serialize_rows(
        {name: np.asarray(batch[name]) for name in kind}, kind, sizes
    )
    record_folders.write(
        folder,
        *(serialized[shard::num_shards] for shard in range(num_shards)),
        schema_name=schema_name,
        sizes=sizes,
        flags=FLAGS if flags is None else flags,
        vocabulary={
            "sha256": atomic_files.digest(vocab_file),
            "size": len(entries),
            "do_lower_case": do_lower_case,
        },
    )
    return folder, vocab_file
