"""Unmasked rows, their positions in training -> masked rows.

Dynamic masking (Liu et al. 2019, section 4.1), with the same code and the same
rates as static masking. In training, the masks of a row depend on the seed and
on its position in the endless training order (`batch_order.py`): they differ
between epochs, and are the same after a restart and on any number of replicas.
In evaluation they depend only on the record.

Packed examples are separated, masked and packed again.

B rows, S positions in each, P masked slots, at most E examples in a row.
"""

import os
from typing import NamedTuple

import numpy as np

from tfrecords import random_numbers, schema
from tfrecords.io import atomic_files, records
from tfrecords.pretraining import masking, packing
from tfrecords.pretraining import settings as settings_lib
from tfrecords.text import vocab

# Purposes of masks: masks of the same seed differ between them.
_TRAINING, _EVALUATION = np.arange(2, dtype=np.uint64)


class Masker(NamedTuple):
    """Rules and random key for masking rows when they are read."""

    rules: masking.Rules
    sizes: dict[str, int]  # Of the rows.
    vocabulary: masking.Vocabulary
    key: np.ndarray  # [1] uint64, seeds all random numbers.


def masker(
    unmasked: records.Records, sizes: schema.Sizes, seed: int | None
) -> Masker:
    """Returns the masker of unmasked records.

    Args:
      unmasked: records with a manifest, which has the masking rates.
      sizes: sizes of the batches.
      seed: seed of the training; None for evaluation.

    Raises:
      ValueError: if the sizes differ from the manifest's, or the vocabulary in
        the folder of the shards is missing or differs from the manifest's.
    """
    folder = os.path.dirname(unmasked.paths[0])
    settings = settings_lib.Settings.of(unmasked.manifest.flags)
    for name, size in settings.sizes.items():
        if sizes[name] != size:
            raise ValueError(
                f"{name}={sizes[name]}, but the records in {folder!r}, which "
                f"are masked when read, were made with {size}. Omit the flag."
            )
    path = os.path.join(folder, masking.VOCABULARY_NAME)
    wanted = unmasked.manifest.vocabulary.get("sha256")
    if not os.path.isfile(path) or atomic_files.digest(path) != wanted:
        raise ValueError(
            f"{path} should be the vocabulary that the records were made "
            f"with, of sha256 {wanted}, because they are masked when read. "
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
      masker: result of the function `masker`.
      rows: the features of the records' schema, each [B, ...].
      positions: [B] int64, positions in the training order; in evaluation,
        indices of the records.

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
