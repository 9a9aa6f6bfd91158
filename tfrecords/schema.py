"""Feature table -> parsing spec, serialized examples, batch signature.

The single declaration of all features. Writer, parser, model inputs and serving
signature are derived from the tables below.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # Imported late at run time, for a fast --help.
    import tensorflow as tf

INT32, FLOAT32 = np.dtype("int32"), np.dtype("float32")


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named array of an example."""

    # Names of dimensions, which are also names of flags. `Sizes` such as
    # `{"max_seq_length": 128}` give their numbers.
    shape: tuple[str, ...]
    dtype: np.dtype  # In a batch. On disk every integer is int64.
    doc: str  # Meaning of the values.


Schema = dict[str, Feature]
Sizes = Mapping[str, int]

_SEQUENCE = ("max_seq_length",)
_CHOICES = ("num_choices", "max_seq_length")
_TEXTS = ("num_texts", "max_seq_length")
_PREDICTIONS = ("max_predictions_per_seq",)
_ROW_EXAMPLES = ("max_examples_per_row",)
_ROW_PREDICTIONS = ("max_predictions_per_row",)

ENCODER_INPUTS: Schema = {
    "input_word_ids": Feature(_SEQUENCE, INT32, "Token ids; 0 is [PAD]."),
    "input_mask": Feature(_SEQUENCE, INT32, "1 token, 0 padding."),
    "input_type_ids": Feature(_SEQUENCE, INT32, "Segment A 0, B 1."),
}
PRETRAINING: Schema = ENCODER_INPUTS | {
    "masked_lm_positions": Feature(
        _PREDICTIONS, INT32, "Positions of masked tokens; 0 in unused slots."
    ),
    "masked_lm_ids": Feature(_PREDICTIONS, INT32, "Ids before masking."),
    "masked_lm_weights": Feature(
        _PREDICTIONS, FLOAT32, "1 masked token, 0 unused slot."
    ),
    "next_sentence_labels": Feature(
        (), INT32, "0 next, 1 random; or 0 in order, 1 swapped."
    ),
}
# Packed rows, each of several examples: the inputs of the encoder, ...
PACKED_INPUTS: Schema = ENCODER_INPUTS | {
    "example_numbers": Feature(
        _SEQUENCE, INT32, "Example of each token, from 1; 0 padding."
    ),
    "position_ids": Feature(
        _SEQUENCE, INT32, "Position of each token in its example, from 0."
    ),
    "cls_positions": Feature(
        _ROW_EXAMPLES, INT32, "Position of each example's [CLS]."
    ),
}
# ... and the labels of each example.
PACKED_PRETRAINING: Schema = PACKED_INPUTS | {
    "masked_lm_positions": Feature(
        _ROW_PREDICTIONS, INT32, "Positions of masked tokens in the row."
    ),
    "masked_lm_ids": Feature(_ROW_PREDICTIONS, INT32, "Ids before masking."),
    "masked_lm_weights": Feature(
        _ROW_PREDICTIONS, FLOAT32, "1 masked token, 0 unused slot."
    ),
    "next_sentence_labels": Feature(_ROW_EXAMPLES, INT32, "0 next, 1 random."),
    "next_sentence_weights": Feature(
        _ROW_EXAMPLES, FLOAT32, "1 example, 0 padding."
    ),
}


def _without(features: Schema, prefix: str) -> Schema:
    return {n: f for n, f in features.items() if not n.startswith(prefix)}


# Single segments: no next-sentence prediction.
MASKED_LM = _without(PRETRAINING, "next_sentence")
PACKED_MASKED_LM = _without(PACKED_PRETRAINING, "next_sentence")
# The same without masks, for records that are masked when read.
UNMASKED_PAIRS = _without(PRETRAINING, "masked_lm")
UNMASKED_SEGMENTS = _without(MASKED_LM, "masked_lm")
PACKED_UNMASKED_PAIRS = _without(PACKED_PRETRAINING, "masked_lm")
PACKED_UNMASKED_SEGMENTS = _without(PACKED_MASKED_LM, "masked_lm")
CLASSIFICATION: Schema = ENCODER_INPUTS | {
    "label_ids": Feature((), INT32, "Index into the task's labels."),
}
REGRESSION: Schema = ENCODER_INPUTS | {
    "label_scores": Feature((), FLOAT32, "The score to predict."),
}
MULTI_LABEL: Schema = ENCODER_INPUTS | {
    "multi_hot_labels": Feature(
        ("num_labels",), FLOAT32, "1 for each label of the row, otherwise 0."
    ),
}
# Of records whose rows have weights in the loss.
EXAMPLE_WEIGHT: Schema = {
    "example_weights": Feature((), FLOAT32, "Weight in the loss, at least 0."),
}
# One row per choice; the label is the index of the correct choice.
CHOICE_INPUTS: Schema = {
    name: dataclasses.replace(feature, shape=_CHOICES)
    for name, feature in ENCODER_INPUTS.items()
}
MULTIPLE_CHOICE: Schema = CLASSIFICATION | CHOICE_INPUTS
# One row per text of a pair, or of several.
TEXTS: Schema = {
    name: dataclasses.replace(feature, shape=_TEXTS)
    for name, feature in ENCODER_INPUTS.items()
}
SCORED_TEXTS: Schema = TEXTS | {
    "label_scores": Feature((), FLOAT32, "Similarity of the texts, in [0, 1]."),
}
TAUGHT_TEXTS: Schema = TEXTS | {
    "teacher_scores": Feature(
        ("num_candidates",), FLOAT32, "A teacher's, of all texts but the first."
    ),
}
# One row per passage of a query, of which some may be missing.
RANKING: Schema = CHOICE_INPUTS | {
    "passage_grades": Feature(
        ("num_choices",), FLOAT32, "Above 0 for relevant passages; 0 others."
    ),
    "passage_weights": Feature(
        ("num_choices",), FLOAT32, "1 passage, 0 missing: a copy of the first."
    ),
}
# One tag per word, at the word's first piece.
TAGGING: Schema = ENCODER_INPUTS | {
    "tag_ids": Feature(_SEQUENCE, INT32, "Tags, at words' first pieces."),
    "tag_weights": Feature(_SEQUENCE, FLOAT32, "1 tag, 0 no tag."),
}
SPANS: Schema = ENCODER_INPUTS | {
    "start_positions": Feature((), INT32, "Answer's first token; 0 if none."),
    "end_positions": Feature((), INT32, "Answer's last token; 0 if none."),
}

# Keyed by `Manifest.schema_name`.
SCHEMAS: dict[str, Schema] = {
    "encoder_inputs": ENCODER_INPUTS,
    "pretraining": PRETRAINING,
    "masked_lm": MASKED_LM,
    "unmasked_pairs": UNMASKED_PAIRS,
    "unmasked_segments": UNMASKED_SEGMENTS,
    "packed_pretraining": PACKED_PRETRAINING,
    "packed_masked_lm": PACKED_MASKED_LM,
    "packed_unmasked_pairs": PACKED_UNMASKED_PAIRS,
    "packed_unmasked_segments": PACKED_UNMASKED_SEGMENTS,
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "multi_label": MULTI_LABEL,
    "weighted_classification": CLASSIFICATION | EXAMPLE_WEIGHT,
    "weighted_regression": REGRESSION | EXAMPLE_WEIGHT,
    "weighted_multi_label": MULTI_LABEL | EXAMPLE_WEIGHT,
    "choice_inputs": CHOICE_INPUTS,
    "multiple_choice": MULTIPLE_CHOICE,
    "texts": TEXTS,
    "scored_texts": SCORED_TEXTS,
    "taught_texts": TAUGHT_TEXTS,
    "ranking": RANKING,
    "tagging": TAGGING,
    "spans": SPANS,
}

# Batch schemas for records that are masked when read.
MASKED_WHEN_READ: dict[str, Schema] = {
    "unmasked_pairs": PRETRAINING,
    "unmasked_segments": MASKED_LM,
    "packed_unmasked_pairs": PACKED_PRETRAINING,
    "packed_unmasked_segments": PACKED_MASKED_LM,
}

# The keys of SCHEMAS for pre-training.
_PRETRAINING_KINDS = ("pretraining", "masked_lm", *MASKED_WHEN_READ)
PRETRAINING_SCHEMAS = tuple(
    name
    for name in SCHEMAS
    if name.removeprefix("packed_") in _PRETRAINING_KINDS
)

# A feature of batches only: the reader adds it.
IS_REAL_EXAMPLE = Feature(
    (), FLOAT32, "1 for a record, 0 for a row that fills the last batch."
)

# Feature names in records of google-research/bert, for reading only.
LEGACY_NAMES = {
    "input_word_ids": "input_ids",
    "input_type_ids": "segment_ids",
}


def name_on_disk(name: str, legacy_names: bool) -> str:
    """Returns a feature's name in our records, or in the original's."""
    return LEGACY_NAMES.get(name, name) if legacy_names else name


def of_batch(name: str) -> Schema:
    """Returns the schema of batches of records, given a key of `SCHEMAS`."""
    return MASKED_WHEN_READ.get(name, SCHEMAS[name])


def shape_of(feature: Feature, sizes: Sizes) -> tuple[int, ...]:
    """Returns the shape of one example's array.

    Raises:
      ValueError: if `sizes` lacks one of the feature's dimensions.
    """
    missing = [name for name in feature.shape if name not in sizes]
    if missing:
        raise ValueError(
            f"Sizes {dict(sizes)} lack {missing}; give a number for each."
        )
    return tuple(sizes[name] for name in feature.shape)


def parsing_spec(
    schema: Schema, sizes: Sizes, legacy_names: bool = False
) -> dict[str, "tf.io.FixedLenFeature"]:
    """Returns the spec for `tf.io.parse_example`, keyed by name on disk.

    In a tf.train.Example integers are int64.
    """
    import tensorflow as tf

    return {
        name_on_disk(name, legacy_names): tf.io.FixedLenFeature(
            shape_of(feature, sizes),
            tf.int64 if feature.dtype == INT32 else tf.float32,
        )
        for name, feature in schema.items()
    }


def parse(
    serialized: "tf.Tensor",
    schema: Schema,
    sizes: Sizes,
    legacy_names: bool = False,
) -> dict[str, "tf.Tensor"]:
    """Parses a batch of serialized examples with TensorFlow ops.

    Args:
      serialized: [B] string.
      schema: the features to read.
      sizes: size of each named dimension.
      legacy_names: whether the records have the original's feature names.

    Returns:
      Dict of name to tensor [B, ...], with the schema's dtypes.
    """
    import tensorflow as tf

    spec = parsing_spec(schema, sizes, legacy_names)
    parsed = tf.io.parse_example(serialized, spec)
    return {
        name: tf.cast(parsed[name_on_disk(name, legacy_names)], feature.dtype)
        for name, feature in schema.items()
    }


def batch_signature(
    schema: Schema, sizes: Sizes, batch_size: int | None = None
) -> dict[str, "tf.TensorSpec"]:
    """Returns specs of a batch, for model inputs and serving signatures."""
    import tensorflow as tf

    return {
        name: tf.TensorSpec(
            (batch_size, *shape_of(feature, sizes)), feature.dtype, name
        )
        for name, feature in schema.items()
    }


def check(
    example: Mapping[str, np.ndarray], schema: Schema, sizes: Sizes
) -> None:
    """Checks names, shapes and dtypes of one example, or of several rows.

    Args:
      example: name to array of the schema's shape, or `[N, *shape]` for N rows.
      schema: the features it must have, no more and no fewer.
      sizes: size of each named dimension.

    Raises:
      ValueError: naming the feature, its value and the expected one.
    """
    if set(example) != set(schema):
        raise ValueError(
            f"Features {sorted(example)} should be {sorted(schema)}."
        )
    for name, feature in schema.items():
        array = np.asarray(example[name])
        shape = shape_of(feature, sizes)
        if array.shape[array.ndim - len(shape) :] != shape or (
            array.ndim - len(shape) not in (0, 1)
        ):
            raise ValueError(
                f"Feature {name!r} has shape {array.shape}; {feature.shape} "
                f"is {shape} here. Pad or truncate it before writing."
            )
        wanted = "iu" if feature.dtype == INT32 else "f"
        if array.dtype.kind not in wanted:
            raise ValueError(
                f"Feature {name!r} has type {array.dtype}; it should be "
                f"{feature.dtype.name}. Convert it before writing."
            )


def serialize(
    example: Mapping[str, np.ndarray], schema: Schema, sizes: Sizes
) -> bytes:
    """Returns one checked example as a serialized tf.train.Example.

    For tests and benchmarks: the readable form of
    `io.serialization.serialize_rows`, which writes records.

    Raises:
      ValueError: as in `check`.
    """
    import tensorflow as tf

    check(example, schema, sizes)
    proto = tf.train.Example()
    for name, feature in schema.items():
        values = np.asarray(example[name]).ravel().tolist()
        slot = proto.features.feature[name]
        if feature.dtype == INT32:
            slot.int64_list.value.extend(values)
        else:
            slot.float_list.value.extend(values)
    # Maps are unordered, but equal examples must have equal bytes.
    return proto.SerializeToString(deterministic=True)
