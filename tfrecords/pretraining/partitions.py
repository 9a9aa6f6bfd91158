"""Table of documents -> sets, and partitions of each, dealt at random."""

import numpy as np
from absl import logging

from tfrecords import random_numbers

TRAIN, HELD_OUT = "train", "held_out"
# So that a process needs little memory, and yet random segments come from
# many documents.
_PARTITION_TOKENS = 1_000_000
_PARTITION_DOCUMENTS = 8


def assign_partitions(
    table: np.ndarray,
    random_seed: int,
    num_shards: int | None,
    held_out_prob: float,
) -> dict[str, list[np.ndarray]]:
    """Deals documents at random into sets, and each set into partitions.

    Every partition is a uniform sample of its set, and their numbers of
    documents differ by one at most: so the partner of a random next sentence
    is uniform over the other documents of the set, though it is only looked
    for in the partition.

    Args:
      table: all documents, as `token_store.places` gives them.
      random_seed: of the deal.
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
