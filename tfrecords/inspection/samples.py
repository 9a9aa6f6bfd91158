"""Records -> a sample of their examples as arrays, masked or unmasked.

Records of any schema, ours or the original's. N examples, S positions in each.
"""

from collections.abc import Sequence

import numpy as np

from tfrecords import schema
from tfrecords.io import records as records_lib

# Consecutive records that are read together, for fewer seeks.
_RUN_LENGTH = 64


def features_of(records: records_lib.Records, index: int) -> dict:
    """Returns `Records.features`, with the original's names changed to ours."""
    ours = {legacy: name for name, legacy in schema.LEGACY_NAMES.items()}
    return {
        ours.get(name, name): values
        for name, values in records.features(index).items()
    }


def schema_name(records: records_lib.Records) -> str:
    """Returns the schema of records, a key of `schema.SCHEMAS`.

    Raises:
      ValueError: if they are empty or match no schema.
    """
    if not len(records):
        raise ValueError(f"The records in {records.paths} hold no examples.")
    if records.manifest:
        if records.manifest.schema_name in schema.SCHEMAS:
            return records.manifest.schema_name
        raise ValueError(
            f"{records.paths[0]!r}: the manifest has the unknown schema "
            f"{records.manifest.schema_name!r}; known are "
            f"{', '.join(schema.SCHEMAS)}. Use the version of bert_tf that "
            "made the records."
        )
    present = features_of(records, 0)
    fitting = [
        name
        for name, features in schema.SCHEMAS.items()
        if set(features) <= set(present)
    ]
    if not fitting:
        raise ValueError(
            f"{records.describe(0)} has features {sorted(present)}, but not "
            f"all of {sorted(schema.ENCODER_INPUTS)}. Are these records for "
            "BERT?"
        )
    return max(fitting, key=lambda name: len(schema.SCHEMAS[name]))


def sizes_of(records: records_lib.Records, name: str) -> dict[str, int]:
    """Returns the sizes of a schema, from the manifest or the first record.

    Raises:
      ValueError: as in `features_of`.
    """
    if records.manifest:
        return dict(records.manifest.sizes)
    present = features_of(records, 0)
    return {
        feature.shape[0]: len(present[feature_name])
        for feature_name, feature in schema.SCHEMAS[name].items()
        if len(feature.shape) == 1
    }


def spread(num_records: int, num_wanted: int | None) -> np.ndarray:
    """Returns indices of records spread over the set, in consecutive runs.

    Args:
      num_records: size of the set.
      num_wanted: approximate number of indices; None for all.

    Returns:
      [N] int64, ascending.
    """
    if num_wanted is None or num_wanted >= num_records:
        return np.arange(num_records)
    runs = max(1, num_wanted // _RUN_LENGTH)
    length = min(_RUN_LENGTH, num_wanted)
    begins = np.linspace(0, num_records - length, runs).astype(np.int64)
    return np.unique(begins[:, None] + np.arange(length))


def read(
    records: records_lib.Records,
    name: str,
    sizes: schema.Sizes,
    indices: Sequence[int],
) -> dict[str, np.ndarray]:
    """Returns the features of some examples, each [N, ...].

    Raises:
      ValueError: if one is damaged, or its features have other sizes.
    """
    import tensorflow as tf

    serialized = records.get(indices)
    try:
        batch = schema.parse(
            serialized, schema.SCHEMAS[name], sizes, records.legacy_names
        )
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"Some of the records {indices[0]} to {indices[-1]} of "
            f"{records.paths[0]!r} do not have the sizes {dict(sizes)}: "
            f"{error.message.splitlines()[0]}. Make them again."
        ) from error
    return {name: tensor.numpy() for name, tensor in batch.items()}


def unpack(
    batch: dict[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Splits packed rows into examples, each in its own row.

    Args:
      batch: features of a packed schema or of choices, [R, ...]; those of
        other schemas are returned unchanged.

    Returns:
      The features of `schema.PRETRAINING` that the rows have, [N, ...], and the
      row of each example, ascending. Each choice is an example, with its index
      in `choices` [N] and the label of its record in `label_ids` [N].
    """
    if batch["input_mask"].ndim == 3:
        return _unpack_choices(batch)
    from tfrecords.pretraining import packing  # Of packed rows alone.

    return packing.separate(batch)


def _unpack_choices(batch):
    """`unpack` for features [R, C, S] and labels [R]."""
    shape = batch["input_mask"].shape[:2]
    rows, choices = (numbers.ravel() for numbers in np.indices(shape))
    examples = {
        name: values.reshape(len(rows), -1)
        if values.ndim == 3
        else values[rows]
        for name, values in batch.items()
    }
    return examples | {"choices": choices}, rows


def unmask(batch: dict[str, np.ndarray]) -> np.ndarray:
    """Returns `input_word_ids` as they were before masking, [N, S]."""
    ids = np.array(batch["input_word_ids"])
    if "masked_lm_positions" in batch:
        is_used = is_masked(batch)
        rows = np.nonzero(is_used)[0]
        positions = batch["masked_lm_positions"][is_used]
        ids[rows, positions] = batch["masked_lm_ids"][is_used]
    return ids


def is_masked(batch: dict[str, np.ndarray]) -> np.ndarray:
    """Returns [N, P] bool: slots in use whose position is in the row."""
    positions = batch["masked_lm_positions"]
    is_inside = (positions >= 0) & (positions < batch["input_mask"].shape[1])
    return (batch["masked_lm_weights"] > 0) & is_inside
