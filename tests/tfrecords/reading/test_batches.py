"""batches.py: static shapes, and an order that can be resumed anywhere."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches

SIZES = {"max_seq_length": 8, "max_predictions_per_seq": 2}


@pytest.fixture
def ten(tmp_path, samples):
    """Ten numbered records."""
    samples.write_folder(str(tmp_path))
    return records.Records.open(str(tmp_path))


@pytest.fixture
def thirty(tmp_path, samples):
    """Thirty records of 1 to 8 tokens, whose ids are the record's number."""
    return write_rows(str(tmp_path / "rows"), samples)


def length_of(number):
    return 1 + number * 7 % 8


def write_rows(path, samples):
    rows = []
    for number in range(30):
        mask = (np.arange(8) < length_of(number)).astype(int)
        row = samples.example(number)
        row |= {"input_word_ids": number * mask, "input_mask": mask}
        rows.append(schema.serialize(row, schema.PRETRAINING, SIZES))
    records.write_shard(path, rows)
    return records.Records.open(path)


def training(found, **changes):
    arguments = {"batch_size": 4, "seed": 7} | changes
    return batches.training_batches(
        found, schema.PRETRAINING, SIZES, **arguments
    )


def numbers_of(dataset, count):
    """Returns the numbers of the examples in the first `count` batches, [N]."""
    taken = itertools.islice(dataset.as_numpy_iterator(), count)
    return np.concatenate([batch["input_word_ids"][:, 0] for batch in taken])


def test_values_equal_those_of_the_record(ten, samples):
    batch = next(training(ten).as_numpy_iterator())
    assert batch["is_real_example"].tolist() == [1] * 4
    for row, number in enumerate(batch["input_word_ids"][:, 0]):
        for name, array in samples.example(number).items():
            np.testing.assert_array_equal(batch[name][row], array, name)


def test_another_seed_gives_another_order(ten):
    one, other = (numbers_of(training(ten, seed=s), 3) for s in (7, 8))
    assert one.tolist() != other.tolist()
    again = numbers_of(training(ten, seed=7), 3)
    assert one.tolist() == again.tolist()


@pytest.mark.parametrize("start", [1, 2, 3, 7])
def test_starting_later_equals_skipping(ten, start):
    skipped = numbers_of(training(ten), start + 5)[4 * start :]
    started = numbers_of(training(ten, start_batch=start), 5)
    assert started.tolist() == skipped.tolist()


@pytest.mark.parametrize("workers", [(4,), (2, 2), (1, 3), (1, 1, 1, 1)])
def test_parts_of_replicas_join_to_the_batch(ten, workers):
    whole = numbers_of(training(ten, batch_size=8, start_batch=3), 5)
    parts, first = [], 0
    for local in workers:
        dataset = training(
            ten,
            batch_size=8,
            start_batch=3,
            replicas=4,
            first_replica=first,
            local_replicas=local,
        )
        assert dataset.element_spec["input_mask"].shape == (2, 8)
        parts.append(numbers_of(dataset, 5 * local).reshape(5, 2 * local))
        first += local
    assert np.concatenate(parts, axis=1).ravel().tolist() == whole.tolist()


def test_replicas_that_cannot_share_are_named(ten):
    with pytest.raises(ValueError, match="batch_size=4 .* of the 3 replicas"):
        training(ten, replicas=3)
    with pytest.raises(ValueError, match="Replicas 1 to 2 .* from 0 to 1"):
        training(ten, replicas=2, first_replica=1, local_replicas=2)


def test_evaluation_is_in_order_and_padded(ten):
    dataset = batches.evaluation_batches(
        ten, schema.PRETRAINING, SIZES, batch_size=4
    )
    assert dataset.cardinality().numpy() == 3
    assert dataset.element_spec["input_word_ids"].shape == (4, 8)
    found = list(dataset.as_numpy_iterator())
    real = np.concatenate([batch["is_real_example"] for batch in found])
    assert real.tolist() == [1] * 10 + [0] * 2
    numbers = np.concatenate([batch["input_word_ids"][:, 0] for batch in found])
    assert numbers[:10].tolist() == list(range(10))
    for name in schema.PRETRAINING:
        assert not found[-1][name][2:].any(), name


def test_evaluation_of_full_batches_has_no_padding(ten):
    dataset = batches.evaluation_batches(
        ten, schema.PRETRAINING, SIZES, batch_size=5
    )
    found = list(dataset.as_numpy_iterator())
    assert [batch["is_real_example"].sum() for batch in found] == [5, 5]


def test_ids_out_of_range_are_named_with_their_record(ten):
    next(iter(training(ten, vocab_size=10)))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"Id 9 in input_word_ids of .*00002.*record 1, byte \d+ is "
        "not below vocab_size 9",
    ):
        numbers_of(training(ten, vocab_size=9), 3)


def test_masked_ids_are_checked_too(tmp_path, samples):
    wrong = samples.example(1) | {"masked_lm_ids": np.array([1, 55])}
    path = str(tmp_path / "a")
    data = schema.serialize(wrong, schema.PRETRAINING, SIZES)
    records.write_shard(path, [data])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Id 55 in masked_lm_ids"
    ):
        found = records.Records.open(path)
        next(iter(training(found, vocab_size=50)))


def test_a_corrupt_record_is_named(ten, samples):
    samples.damage(ten.paths[1], 100)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Corrupt record at .*record 0"
    ):
        numbers_of(training(ten), 3)


def test_empty_records_and_batch_size_zero_are_rejected(tmp_path, ten, samples):
    samples.write_folder(str(tmp_path / "empty"), counts=(0,))
    with pytest.raises(ValueError, match="no examples in .*empty file"):
        training(records.Records.open(str(tmp_path / "empty")))
    with pytest.raises(ValueError, match="batch_size=0 should be 1 or more"):
        training(ten, batch_size=0)


def test_buckets_cut_rows_and_keep_their_other_features(thirty, samples):
    dataset = training(
        thirty, bucket_lengths=(2, 4), vocab_size=30, batch_size=2
    )
    spec = dataset.element_spec
    assert spec["input_word_ids"].shape.as_list() == [2, None]
    assert spec["masked_lm_ids"].shape == (2, 2)
    lengths = set()
    for batch in itertools.islice(dataset.as_numpy_iterator(), 128):
        length = batch["input_mask"].shape[1]
        lengths.add(length)
        numbers = batch["input_word_ids"][:, 0]
        longest = max(map(length_of, numbers))
        assert length == min(n for n in (2, 4, 8) if n >= longest)
        for row, number in enumerate(numbers):
            expected = samples.example(number)
            tokens = batch["input_word_ids"][row, : length_of(number)]
            assert set(tokens) == {number}
            assert batch["input_mask"][row].sum() == length_of(number)
            assert batch["input_type_ids"].shape == (2, length)
            for name in ("masked_lm_ids", "next_sentence_labels"):
                np.testing.assert_array_equal(batch[name][row], expected[name])
    assert lengths == {2, 4, 8}


def test_replicas_share_a_batch_of_one_length(thirty):
    settings = {"bucket_lengths": (2, 4), "batch_size": 4}
    whole = training(thirty, **settings).as_numpy_iterator()
    parts = [
        training(
            thirty,
            replicas=4,
            first_replica=first,
            local_replicas=2,
            **settings,
        ).as_numpy_iterator()
        for first in (0, 2)
    ]
    for batch in itertools.islice(whole, 70):
        found = [next(part) for part in parts for _ in range(2)]
        for name, array in batch.items():
            together = np.concatenate([part[name] for part in found])
            np.testing.assert_array_equal(together, array, name)


def test_a_batch_is_described_by_its_records(thirty):
    settings = {"bucket_lengths": (2, 4), "num_batches": 105}
    numbers = numbers_of(training(thirty, start_batch=7, **settings), 1)
    length = max(map(length_of, numbers))
    length = min(n for n in (2, 4, 8) if n >= length)
    found = batches.describe_batch(
        thirty, SIZES, 7, batch_size=4, seed=7, **settings
    )
    assert found.startswith(f"Batch 7, length {length}, epoch")
    for number in numbers[:3]:
        assert thirty.describe(number) in found
    assert found.endswith("; ...") and found.count("record ") == 3


def test_a_batch_of_two_epochs_is_described(ten):
    found = batches.describe_batch(ten, SIZES, 2, batch_size=4, seed=7)
    assert found.startswith("Batch 2, length 8, epochs 1 to 2 (from 1), 4 ")


def test_evaluation_in_buckets_has_every_record_once(thirty):
    dataset = batches.evaluation_batches(
        thirty, schema.PRETRAINING, SIZES, batch_size=7, bucket_lengths=(2, 4)
    )
    found = list(dataset.as_numpy_iterator())
    lengths = [batch["input_mask"].shape[1] for batch in found]
    assert lengths == [8, 8, 8, 4, 2]
    for batch in found:
        for row, number in enumerate(batch["example_index"]):
            is_real = batch["is_real_example"][row]
            assert is_real or not any(batch[n][row].any() for n in batch)
            assert batch["input_word_ids"][row, 0] == number
            assert batch["input_mask"][row].sum() == is_real * length_of(number)
    is_real = np.concatenate([batch["is_real_example"] for batch in found])
    assert is_real.tolist() == [1] * 30 + [0] * 5
    indices = np.concatenate([batch["example_index"] for batch in found])
    assert sorted(indices[:30]) == list(range(30))
