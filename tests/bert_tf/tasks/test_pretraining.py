"""pretraining.py: manifests determine schema, pairs and task of records."""

import dataclasses

import numpy as np
import pytest
import record_folders

from bert_tf.tasks import pretraining
from tfrecords import schema
from tfrecords.io import records

SIZES = {"max_seq_length": 8, "max_predictions_per_seq": 2}


def made_with(folder, schema_name="pretraining", **made):
    """Writes one record and a manifest with these flags; returns Records."""
    example = {
        name: np.zeros(schema.shape_of(feature, SIZES), feature.dtype)
        for name, feature in schema.PRETRAINING.items()
    }
    record_folders.write(
        folder,
        [schema.serialize(example, schema.PRETRAINING, SIZES)],
        schema_name=schema_name,
        sizes=SIZES,
        flags=made,
        vocabulary={"size": 100, "sha256": "aa", "do_lower_case": True},
    )
    return records.Records.open(str(folder))


def test_the_manifest_determines_pairs_and_schema(tmp_path):
    old = made_with(tmp_path / "old")
    assert pretraining.pairs_of(old) == "next_sentence"
    assert pretraining.schema_of(old) == schema.PRETRAINING
    single = made_with(tmp_path / "single", "masked_lm", pairs="none")
    assert pretraining.pairs_of(single) == "none"
    assert pretraining.schema_of(single) == schema.MASKED_LM
    unmasked = made_with(tmp_path / "unmasked", "unmasked_segments")
    assert pretraining.schema_of(unmasked) == schema.MASKED_LM
    on_disk = pretraining.schema_of(unmasked, on_disk=True)
    assert on_disk == schema.ENCODER_INPUTS
    foreign = made_with(tmp_path / "foreign", "classification")
    assert pretraining.schema_of(foreign) == schema.PRETRAINING
    bare = records.Records(old.paths)
    assert pretraining.pairs_of(bare) == "next_sentence"
    assert pretraining.schema_of(bare) == schema.PRETRAINING


def test_records_of_different_pairs_raise(tmp_path):
    one = made_with(tmp_path / "one", pairs="sentence_order")
    two = made_with(tmp_path / "two", pairs="sentence_order")
    pretraining.check_pairs([one, two])
    other = made_with(tmp_path / "other")
    message = "two with pairs=sentence_order and .*other with pairs=next_s"
    with pytest.raises(ValueError, match=message):
        pretraining.check_pairs([one, two, other])


def test_evaluation_on_labels_of_other_pairs_raises(tmp_path, tiny_config):
    next_sentence = made_with(tmp_path / "next_sentence")
    order = made_with(tmp_path / "order", pairs="sentence_order")
    single = made_with(tmp_path / "single", pairs="none")

    def metadata_of(records):
        return pretraining.task_of(records, tiny_config).metadata()

    assert metadata_of(next_sentence) == {}
    for trained in (next_sentence, order):
        metadata = metadata_of(trained)
        pretraining.check_labels(metadata, "model", trained)
        pretraining.check_labels(metadata, "model", single)
    for trained, asked in (
        (next_sentence, order),
        (order, next_sentence),
        (single, order),
    ):
        metadata = metadata_of(trained)
        kinds = [pretraining.pairs_of(x) for x in (trained, asked)]
        message = "pairs={}, and .* the labels of pairs={}".format(*kinds)
        with pytest.raises(ValueError, match=message):
            pretraining.check_labels(metadata, "model", asked)


def test_a_left_to_right_model_needs_unmasked_single_segments(
    tmp_path, tiny_config
):
    causal = dataclasses.replace(tiny_config, is_causal=True)
    single = made_with(tmp_path / "single", "unmasked_segments", pairs="none")
    task = pretraining.task_of(single, causal)
    assert isinstance(task, pretraining.LeftToRightTask)
    assert task.schema == schema.ENCODER_INPUTS
    assert task.metadata() == {"pairs": "none"}
    task = pretraining.task_of(single, tiny_config)
    assert type(task) is pretraining.PretrainingTask
    assert task.schema == schema.MASKED_LM
    assert task.pairs == "none"
    for name in ("masked_lm", "unmasked_pairs"):
        other = made_with(tmp_path / name, name, pairs="none")
        with pytest.raises(ValueError, match=f"is {name}; a left-to-right"):
            pretraining.task_of(other, causal)
    with pytest.raises(ValueError, match="is unknown .no manifest.; a left"):
        pretraining.task_of(records.Records(single.paths), causal)
