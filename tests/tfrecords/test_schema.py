import numpy as np
import pytest
import tensorflow as tf

from tfrecords import schema

SIZES = {"max_seq_length": 4, "max_predictions_per_seq": 2}
EXAMPLE = {
    "input_word_ids": np.array([2, 7, 3, 0]),
    "input_mask": np.array([1, 1, 1, 0]),
    "input_type_ids": np.array([0, 0, 1, 0]),
    "masked_lm_positions": np.array([1, 0]),
    "masked_lm_ids": np.array([9, 0]),
    "masked_lm_weights": np.array([1.0, 0.0], np.float32),
    "next_sentence_labels": np.array(1),
}


def without(name):
    return {key: value for key, value in EXAMPLE.items() if key != name}


@pytest.mark.parametrize("legacy_names", [False, True])
def test_parsing_restores_a_serialized_example(legacy_names):
    data = schema.serialize(EXAMPLE, schema.PRETRAINING, SIZES)
    if legacy_names:
        for ours, theirs in schema.LEGACY_NAMES.items():
            proto = tf.train.Example.FromString(data)
            feature = proto.features.feature
            feature[theirs].CopyFrom(feature[ours])
            del feature[ours]
            data = proto.SerializeToString()
    batch = schema.parse(
        tf.constant([data] * 3), schema.PRETRAINING, SIZES, legacy_names
    )
    signature = schema.batch_signature(schema.PRETRAINING, SIZES, 3)
    assert list(batch) == list(signature) == list(schema.PRETRAINING)
    for name, expected in EXAMPLE.items():
        assert signature[name].is_compatible_with(batch[name]), name
        for row in batch[name].numpy():
            np.testing.assert_array_equal(row, expected, name)


def test_equal_examples_serialize_to_equal_bytes():
    backwards = dict(reversed(EXAMPLE.items()))
    assert schema.serialize(
        EXAMPLE, schema.PRETRAINING, SIZES
    ) == schema.serialize(backwards, schema.PRETRAINING, SIZES)


# Errors.


@pytest.mark.parametrize(
    "example, message",
    [
        (without("input_mask"), r"Features \[.*\] should be \[.*'input_mask'"),
        (EXAMPLE | {"extra": np.array(1)}, r"\['extra', .*should be"),
        (
            EXAMPLE | {"input_mask": np.ones(5, int)},
            r"'input_mask' has shape \(5,\); .*'max_seq_length'.* is \(4,\)",
        ),
        (
            EXAMPLE | {"input_mask": np.ones((2, 2, 4), int)},
            r"'input_mask' has shape \(2, 2, 4\)",
        ),
        (
            EXAMPLE | {"input_mask": np.ones(4)},
            "'input_mask' has type float64; it should be int32. Convert",
        ),
        (
            EXAMPLE | {"masked_lm_weights": np.array([1, 0])},
            "'masked_lm_weights' has type int64; it should be float32",
        ),
    ],
)
def test_an_example_that_does_not_match_its_schema_is_rejected(
    example, message
):
    with pytest.raises(ValueError, match=message):
        schema.serialize(example, schema.PRETRAINING, SIZES)


def test_a_missing_size_is_named():
    with pytest.raises(ValueError, match=r"lack \['max_predictions_per_seq'\]"):
        schema.parsing_spec(schema.PRETRAINING, {"max_seq_length": 4})
