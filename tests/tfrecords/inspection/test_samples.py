"""samples.py: records of a sample, their features, and unmasked tokens."""

import numpy as np
import planted_records as planted
import pytest
import tensorflow as tf

from tfrecords import schema
from tfrecords.inspection import samples as samples_lib
from tfrecords.io import records
from tfrecords.pretraining import packing


@pytest.fixture(scope="module")
def batch():
    return planted.make_batch(40)


def test_a_sample_is_spread_in_consecutive_runs():
    found = samples_lib.spread(1_000_000, 8192)
    assert len(found) == 8192
    assert (np.diff(found) > 0).all()
    assert found[0] == 0 and found[-1] == 999_999
    # 128 runs of 64, so 127 jumps.
    assert (np.diff(found) > 1).sum() == 127


@pytest.mark.parametrize("wanted", [None, 10, 11])
def test_a_small_set_is_sampled_completely(wanted):
    assert samples_lib.spread(10, wanted).tolist() == list(range(10))


def test_a_sample_may_be_smaller_than_a_run():
    assert samples_lib.spread(100, 3).tolist() == [0, 1, 2]


def test_unmask_restores_masked_tokens(batch):
    ids = samples_lib.unmask(batch)
    is_masked = np.zeros(ids.shape, bool)
    for row in range(len(ids)):
        used = batch["masked_lm_weights"][row] > 0
        positions = batch["masked_lm_positions"][row][used]
        assert (ids[row, positions] == batch["masked_lm_ids"][row][used]).all()
        is_masked[row, positions] = True
    assert (ids[~is_masked] == batch["input_word_ids"][~is_masked]).all()
    assert not (ids == planted.MASK).any()
    assert (batch["input_word_ids"] == planted.MASK).any()


def test_unmask_does_not_change_ids_without_masks(batch):
    plain = {name: batch[name] for name in schema.ENCODER_INPUTS}
    assert (samples_lib.unmask(plain) == plain["input_word_ids"]).all()


@pytest.mark.parametrize("has_labels", [True, False])
def test_packed_rows_are_split_into_examples(batch, has_labels):
    half = {name: array[:12] for name, array in batch.items()}
    if not has_labels:
        del half["next_sentence_labels"]
    sizes = {
        "max_seq_length": 96,
        "max_predictions_per_row": 15,
        "max_examples_per_row": 3,
    }
    rows = packing.join(half, np.array([3, 1, 2, 3, 3]), sizes)
    found, numbers = samples_lib.unpack(rows)
    assert numbers.tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4, 4]
    assert set(found) == set(half)
    for name, array in half.items():
        array = array[:, None] if array.ndim == 1 else array
        got = found[name].reshape(len(array), -1)
        width = array.shape[1]
        np.testing.assert_array_equal(got[:, :width], array, err_msg=name)
        assert not got[:, width:].any()


def test_unpacked_examples_are_returned_unchanged(batch):
    found, rows = samples_lib.unpack(batch)
    assert found is batch
    assert rows.tolist() == list(range(40))


def test_choices_are_split_into_examples():
    ids = np.arange(24).reshape(2, 3, 4)
    batch = dict.fromkeys(schema.CHOICE_INPUTS, ids) | {
        "label_ids": np.array([2, 0])
    }
    found, rows = samples_lib.unpack(batch)
    assert rows.tolist() == [0, 0, 0, 1, 1, 1]
    assert found["choices"].tolist() == [0, 1, 2, 0, 1, 2]
    assert found["label_ids"].tolist() == [2, 2, 2, 0, 0, 0]
    for name in schema.CHOICE_INPUTS:
        np.testing.assert_array_equal(found[name], ids.reshape(6, 4))


def test_our_records_are_read(batch, tmp_path):
    folder, _ = planted.write(tmp_path / "train", batch)
    found = records.Records.open(folder)
    assert samples_lib.schema_name(found) == "pretraining"
    sizes = samples_lib.sizes_of(found, "pretraining")
    assert sizes == planted.SIZES
    # Shards take the examples in turn.
    read = samples_lib.read(found, "pretraining", sizes, [0, 1, 20])
    for name, array in batch.items():
        np.testing.assert_array_equal(read[name], array[[0, 2, 1]])
    features = samples_lib.features_of(found, 20)
    assert features["input_word_ids"].tolist() == (
        batch["input_word_ids"][1].tolist()
    )


def test_the_originals_records_are_detected_by_features(tmp_path, samples):
    samples.write_legacy(str(tmp_path / "a.tfrecord"))
    found = records.Records.open(f"{tmp_path}/a.tfrecord")
    assert samples_lib.schema_name(found) == "pretraining"
    assert samples_lib.sizes_of(found, "pretraining") == samples.sizes
    assert "input_word_ids" in samples_lib.features_of(found, 1)
    read = samples_lib.read(found, "pretraining", samples.sizes, [1])
    assert read["input_word_ids"].tolist() == [[1] * 8]


def test_unreadable_records_are_named(tmp_path, batch, samples):
    path = str(tmp_path / "other.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        proto = tf.train.Example()
        proto.features.feature["pixels"].int64_list.value.append(1)
        writer.write(proto.SerializeToString())
    other = records.Records.open(path)
    with pytest.raises(ValueError, match="has features .'pixels'.*BERT"):
        samples_lib.schema_name(other)
    samples.write_folder(str(tmp_path / "new"), schema_name="of tomorrow")
    with pytest.raises(ValueError, match="schema 'of tomorrow'; known are"):
        samples_lib.schema_name(records.Records.open(str(tmp_path / "new")))
    folder, _ = planted.write(tmp_path / "train", batch)
    with pytest.raises(ValueError, match="not have the sizes .*Make them"):
        samples_lib.read(
            records.Records.open(folder),
            "pretraining",
            planted.SIZES | {"max_seq_length": 64},
            [3, 4],
        )
    samples.write_folder(str(tmp_path / "none"), counts=(0,))
    with pytest.raises(ValueError, match="hold no example"):
        samples_lib.schema_name(records.Records.open(str(tmp_path / "none")))
