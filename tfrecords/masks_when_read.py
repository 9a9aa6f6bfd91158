"""Rows written unmasked, and their places -> masked rows, anew in each epoch.

Dynamic masking (Liu et al. 2019, section 4.1), by the same code and the same
rates as when records are written. The masks of a row in training depend on
seed and place in the endless order of training (`batch_order.py`), so that they
are others in each epoch, and the same after a restart and on any number of
replicas. In evaluation they depend on the record alone.

B rows, S places in one, P masked slots.
"""

import os
from typing import NamedTuple

import numpy as np

from tfrecords import (
    example_settings,
    masking,
    random_numbers,
    records,
    schema,
    vocab,
    whole_files,
)

# Beside the shards, as masking has to know special tokens and ## pieces.
VOCABULARY_NAME = "vocab.txt"
# What masks are for: the same seed has other masks for each.
_TRAINING, _EVALUATION = np.arange(2, dtype=np.uint64)


class Masker(NamedTuple):
    """What masks rows when they are read."""

    rules: masking.Rules
    vocabulary: masking.Vocabulary
    key: np.ndarray  # [1] uint64, of all that is random.


def keep_vocabulary(vocab_file: str, folder: str) -> None:
    """Copies the vocabulary to where `masker` looks for it."""
    with open(vocab_file, "rb") as source:
        content = source.read()
    path = os.path.join(folder, VOCABULARY_NAME)
    with whole_files.whole_file(path, "wb") as target:
        target.write(content)


def is_needed(found: records.Records, wanted: schema.Schema) -> bool:
    """Returns whether masks are wanted that the records do not hold."""
    return bool(
        found.manifest
        and found.manifest.schema_name in schema.MASKED_WHEN_READ
        and "masked_lm_ids" in wanted
    )


def masker(
    found: records.Records, sizes: schema.Sizes, seed: int | None
) -> Masker:
    """Returns what masks the rows of unmasked records.

    Args:
      found: records with a manifest, which says the rates.
      sizes: of the batches.
      seed: of training; None for evaluation.

    Raises:
      ValueError: if the sizes are not those of the manifest, or the vocabulary
        beside the shards is missing or another.
    """
    settings = example_settings.Settings.of(found.manifest.flags)
    for name, size in settings.sizes.items():
        if sizes[name] != size:
            raise ValueError(
                f"{name}={sizes[name]}, but the records in "
                f"{os.path.dirname(found.paths[0])!r}, which are masked when "
                f"they are read, were made with {size}. Leave the flag away."
            )
    path = os.path.join(os.path.dirname(found.paths[0]), VOCABULARY_NAME)
    wanted = found.manifest.vocabulary["sha256"]
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
        vocabulary=masking.Vocabulary.of(vocab.read(path)),
        key=random_numbers.bits(seeds, purpose[None])[0],
    )


def mask(
    how: Masker,
    input_word_ids: np.ndarray,
    input_mask: np.ndarray,
    places: np.ndarray,
) -> dict[str, np.ndarray]:
    """Returns the features of rows that masking makes or changes.

    Args:
      how: from `masker`.
      input_word_ids: [B, S] int32.
      input_mask: [B, S] int32.
      places: [B] int64, in the order of training; or numbers of records.

    Returns:
      `input_word_ids` [B, S] int32, `masked_lm_positions` and `masked_lm_ids`
      [B, P] int32, `masked_lm_weights` [B, P] float32.
    """
    seeds = random_numbers.bits(how.key, places.astype(np.uint64))[0]
    masked = masking.mask(
        input_word_ids,
        input_mask.sum(axis=1),
        seeds,
        how.vocabulary,
        how.rules,
    )
    return {
        "input_word_ids": masked.input_word_ids,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.ids,
        "masked_lm_weights": masked.weights,
    }
