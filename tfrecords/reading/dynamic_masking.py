"""Unmasked rows, their positions in training -> masked rows.

Dynamic masking (Liu et al. 2019, section 4.1), by the same code and the same
rates as when records are written. The masks of a row in training depend on
seed and position in the endless order of training (`batch_order.py`): they
differ between epochs, and are the same after a restart and on any number of
replicas. In evaluation they depend on the record alone.

Examples that share a row are taken apart, masked, and put side by side again.

B rows, S positions in one, P masked slots, E examples in a row at most.
"""

import os
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers, schema
from tfrecords.io import records
from tfrecords.pretraining import masking, packing
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import vocab

# What masks are for: the same seed has other masks for each.
_TRAINING, _EVALUATION = np.arange(2, dtype=np.uint64)


class Masker(NamedTuple):
    """Rules and random key of masking rows when they are read."""

    rules: masking.Rules
    sizes: dict[str, int]  # Of the rows.
    vocabulary: masking.Vocabulary
    key: np.ndarray  # [1] uint64, of all that is random.


def masker(
    unmasked: records.Records, sizes: schema.Sizes, seed: int | None
) -> Masker:
    """Returns the masker of unmasked records.

    Args:
      unmasked: records with a manifest, which has the rates.
      sizes: of the batches.
      seed: of training; None for evaluation.

    Raises:
      ValueError: if the sizes are not those of the manifest, or the vocabulary
        beside the shards is missing or another.
    """
    folder = os.path.dirname(unmasked.paths[0])
    settings = settings_lib.Settings.of(unmasked.manifest.flags)
    for name, size in settings.sizes.items():
        if sizes[name] != size:
            raise ValueError(
                f"{name}={sizes[name]}, but the records in {folder!r}, which "
                f"are masked when they are read, were made with {size}. Omit "
                "the flag."
            )
    path = os.path.join(folder, masking.VOCABULARY_NAME)
    wanted = unmasked.manifest.vocabulary["sha256"]
    if not os.path.isfile(path) or vocab.digest(path) != wanted:
        raise ValueError(
            f"{path} should be the vocabulary that the records were made "
            f"with, of sha256 {wanted}: they are masked when they are read. "
            "Copy it there."
        )
    purpose = _TRAINING
    if seed is None:
        purpose, seed = _EVALUATION, settings.random_seed
    seeds = np.array([seed % (1 << 64)], np.uint64)
    return Masker(
        rules=settings.rules,
        sizes=settings.sizes,
        vocabulary=masking.Vocabulary.of(vocab.read(path)),
        key=random_numbers.bits(seeds, purpose[None])[0],
    )


def mask(
    masker: Masker, rows: dict[str, np.ndarray], positions: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns the rows with masks.

    Args:
      masker: from the function `masker`.
      rows: the features of the records' schema, each [B, ...].
      positions: [B] int64, in the order of training; or numbers of records.

    Returns:
      The features of `schema.MASKED_WHEN_READ`, each [B, ...].
    """
    examples, of_row = packing.separate(rows)  # n of them.
    number = np.arange(len(of_row)) - np.searchsorted(of_row, of_row)
    most = masker.sizes.get("max_examples_per_row", 1)
    positions = (positions[of_row] * most + number).astype(np.uint64)
    masked = masking.mask(
        examples["input_word_ids"],
        examples["input_mask"].sum(axis=1),
        random_numbers.bits(masker.key, positions)[0],
        masker.vocabulary,
        masker.rules,
    )
    examples = examples | masked.features()
    if "example_numbers" not in rows:
        return examples
    counts = np.bincount(of_row, minlength=len(rows["input_mask"]))
    return packing.join(examples, counts, masker.sizes)
