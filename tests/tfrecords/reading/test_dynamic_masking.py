"""dynamic_masking.py: rates of static masks, new masks in each epoch."""

import dataclasses
import itertools
import shutil

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.inspection import samples
from tfrecords.io import atomic_files, records, serialization
from tfrecords.pretraining import masking, packing
from tfrecords.pretraining import settings as settings_lib
from tfrecords.reading import batch_features, batches, dynamic_masking
from tfrecords.text import vocab

SETTINGS = settings_lib.Settings(
    max_seq_length=32,
    max_predictions_per_seq=6,
    masked_lm_prob=0.2,
    mask_mix=("mask:0.6", "random:0.1", "same:0.3"),
    masking_time="dynamic",
    random_seed=3,
)
N = 30


def make_rows(vocabulary, count=N, seed=0):
    """Returns the features of unmasked pairs; the label is the number."""
    rng = np.random.default_rng(seed)
    num_tokens = rng.integers(8, 33, count)
    is_token = np.arange(32) < num_tokens[:, None]
    ids = rng.integers(5, vocabulary.size, (count, 32)) * is_token
    ids[:, 0] = vocabulary.cls_id
    ids[:, 4] = vocabulary.sep_id
    ids[np.arange(count), num_tokens - 1] = vocabulary.sep_id
    return {
        "input_word_ids": ids,
        "input_mask": is_token.astype(int),
        "input_type_ids": (is_token & (np.arange(32) > 4)).astype(int),
        "next_sentence_labels": np.arange(count),
    }


@pytest.fixture(scope="module")
def vocabulary(tiny_vocab_file):
    return masking.Vocabulary.of(vocab.read(tiny_vocab_file))


def write(folder, rows, settings, vocab_file):
    """Writes records of unmasked pairs and opens them."""
    serialized = serialization.serialize_rows(
        rows, schema.SCHEMAS[settings.schema_name], settings.sizes
    )
    name = records.shard_name("train", 0, 1)
    shard = records.write_shard(str(folder / name), serialized)
    shutil.copy(vocab_file, folder / masking.VOCABULARY_NAME)
    records.Manifest(
        schema_name=settings.schema_name,
        sizes=settings.sizes,
        flags=dataclasses.asdict(settings) | {"num_shards": 1},
        vocabulary={
            "sha256": atomic_files.digest(vocab_file),
            "size": len(vocab.read(vocab_file)),
            "do_lower_case": True,
        },
        statistics={},
        shards=[shard],
    ).write(str(folder))
    return records.Records.open(str(folder))


@pytest.fixture(scope="module")
def found(tmp_path_factory, tiny_vocab_file, vocabulary):
    """Records of unmasked pairs."""
    folder = tmp_path_factory.mktemp("unmasked")
    return write(folder, make_rows(vocabulary), SETTINGS, tiny_vocab_file)


def test_only_unmasked_records_need_masks(found):
    assert batch_features.needs_masks(found, schema.PRETRAINING)
    assert not batch_features.needs_masks(found, schema.UNMASKED_PAIRS)
    bare = records.Records(found.paths)
    assert not batch_features.needs_masks(bare, schema.PRETRAINING)


def test_rules_are_those_of_the_manifest(found):
    masker = dynamic_masking.masker(found, SETTINGS.sizes, seed=1)
    assert masker.rules == SETTINGS.rules


@pytest.mark.parametrize("unit", masking.UNITS)
def test_rates_equal_those_of_static_masks(found, vocabulary, unit):
    masker = dynamic_masking.masker(found, SETTINGS.sizes, seed=1)
    rules = masking.Rules(**(vars(SETTINGS.rules) | {"unit": unit}))
    rows = make_rows(vocabulary, count=4000)
    ids, mask = rows["input_word_ids"], rows["input_mask"]
    dynamic = dynamic_masking.mask(
        masker._replace(rules=rules), rows, np.arange(4000)
    )
    seeds = np.random.default_rng(2).integers(1 << 64, size=4000, dtype="u8")
    static = masking.mask(ids, mask.sum(axis=1), seeds, vocabulary, rules)
    masked = dynamic["masked_lm_weights"].sum(axis=1)
    if unit == "tokens":
        np.testing.assert_array_equal(masked, static.weights.sum(axis=1))
    assert abs(masked.mean() / static.weights.sum(axis=1).mean() - 1) < 0.02

    def shares(shown, positions, originals, weights):
        is_used = weights > 0
        shown = np.take_along_axis(shown, positions, axis=1)[is_used]
        kinds = [shown == vocabulary.mask_id, shown == originals[is_used]]
        counts = np.bincount(positions[is_used], minlength=32)
        by_position = counts / is_used.sum()
        return np.array([kind.mean() for kind in kinds]), by_position

    kinds, by_position = shares(
        dynamic["input_word_ids"],
        dynamic["masked_lm_positions"],
        dynamic["masked_lm_ids"],
        dynamic["masked_lm_weights"],
    )
    static_kinds, static_by_position = shares(
        static.input_word_ids, static.positions, static.ids, static.weights
    )
    # About 15,000 masked tokens in each; all tokens of a span have one kind.
    assert abs(kinds - static_kinds).max() < 0.03
    assert abs(by_position - static_by_position).max() < 0.006


def training(found, **changes):
    arguments = {"batch_size": 10, "seed": 7, "vocab_size": 1000} | changes
    return batches.training_batches(
        found, schema.PRETRAINING, SETTINGS.sizes, **arguments
    )


def read(dataset, count):
    """Returns the features of the first `count` batches, joined."""
    taken = list(itertools.islice(dataset.as_numpy_iterator(), count))
    return {
        name: np.concatenate([batch[name] for batch in taken])
        for name in taken[0]
    }


def assert_equal(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], name)


def has_other_masks(one, other):
    """Returns which rows have other masks, of examples with numbers."""
    one, other = (
        batch["masked_lm_positions"][np.argsort(batch["next_sentence_labels"])]
        for batch in (one, other)
    )
    return (one != other).any(axis=1)


def test_batches_hold_the_records_with_masks(found, vocabulary):
    batch = read(training(found), 3)
    rows = make_rows(vocabulary)
    numbers = batch["next_sentence_labels"]
    assert sorted(numbers) == list(range(N))
    unmasked = batch | {"input_word_ids": samples.unmask(batch)}
    for name in schema.ENCODER_INPUTS:
        np.testing.assert_array_equal(unmasked[name], rows[name][numbers])
    is_other = batch["input_word_ids"] != unmasked["input_word_ids"]
    assert is_other.any(axis=1).mean() > 0.8


def test_each_epoch_has_different_masks(found):
    dataset = training(found)
    batch = read(dataset, 12)
    order = np.argsort(batch["next_sentence_labels"], kind="stable")
    positions = batch["masked_lm_positions"][order].reshape(N, 4, -1)
    others = [
        len({tuple(masks) for masks in record}) for record in positions.tolist()
    ]
    assert np.mean(others) > 3.8


def test_another_seed_gives_different_masks(found):
    one, other = (read(training(found, seed=seed), 3) for seed in (1, 2))
    assert has_other_masks(one, other).mean() > 0.9


@pytest.mark.parametrize("start", [1, 4, 9])
def test_a_resumed_stream_equals_an_uninterrupted_one(found, start):
    whole = read(training(found), start + 4)
    resumed = read(training(found, start_batch=start), 4)
    assert_equal({n: a[10 * start :] for n, a in whole.items()}, resumed)


def test_replicas_read_the_same_masks_as_one_replica(found):
    whole = read(training(found), 5)
    together = read(training(found, replicas=2, local_replicas=2), 10)
    assert_equal(whole, together)
    workers = [
        read(training(found, replicas=2, first_replica=first), 5)
        for first in (0, 1)
    ]
    parts = {
        name: np.stack([w[name].reshape(5, 5, -1) for w in workers], axis=1)
        for name in whole
    }
    assert_equal(
        whole, {n: a.reshape(whole[n].shape) for n, a in parts.items()}
    )


def test_buckets_do_not_change_masks(found):
    plain = read(training(found, num_batches=6), 6)
    cut = training(found, num_batches=6, bucket_lengths=[16, 24])
    rows = {}
    for batch in itertools.islice(cut.as_numpy_iterator(), 6):
        assert batch["input_word_ids"].shape[1] in (16, 24, 32)
        for row in range(10):
            key = batch["next_sentence_labels"][row]
            ids = np.pad(batch["input_word_ids"][row], (0, 32))[:32]
            rows.setdefault(key, []).append(ids.tolist())
    for key, ids in zip(
        plain["next_sentence_labels"], plain["input_word_ids"], strict=True
    ):
        assert ids.tolist() in rows[key]


def test_evaluation_always_has_the_same_masks(found):
    def evaluation(batch_size, **changes):
        batch = batches.evaluation_batches(
            found,
            schema.PRETRAINING,
            SETTINGS.sizes,
            batch_size=batch_size,
            **changes,
        )
        return read(batch, 10)

    once = evaluation(8)
    assert once["is_real_example"].sum() == N
    once = {name: array[:N] for name, array in once.items()}
    for again in (evaluation(8), evaluation(15)):
        assert_equal(once, {name: array[:N] for name, array in again.items()})
    np.testing.assert_array_equal(once["next_sentence_labels"], np.arange(N))
    trained = read(training(found, seed=SETTINGS.random_seed), 3)
    assert has_other_masks(trained, once).mean() > 0.9


def test_packed_examples_are_masked_separately(
    tmp_path, tiny_vocab_file, vocabulary
):
    settings = dataclasses.replace(
        SETTINGS, max_seq_length=64, max_examples_per_row=4
    )
    examples = make_rows(vocabulary)
    for name in schema.ENCODER_INPUTS:
        examples[name] = np.pad(examples[name], ((0, 0), (0, 32)))
    assigned = packing.assign(examples["input_mask"].sum(axis=1), 64, 4)
    examples = {name: array[assigned.order] for name, array in examples.items()}
    rows = packing.join(examples, assigned.counts, settings.sizes)
    packed = write(tmp_path, rows, settings, tiny_vocab_file)
    count = len(assigned.counts)
    assert count < 0.7 * N

    def training_rows(start):
        return batches.training_batches(
            packed,
            schema.PACKED_PRETRAINING,
            settings.sizes,
            batch_size=count,
            seed=7,
            start_batch=start,
        )

    once = read(training_rows(0), 2)
    assert_equal(
        {name: array[count:] for name, array in once.items()},
        read(training_rows(1), 1),
    )
    epochs = []
    for begin in (0, count):
        epoch, _ = samples.unpack(
            {name: array[begin : begin + count] for name, array in once.items()}
        )
        order = np.argsort(epoch["next_sentence_labels"])
        epochs.append({name: array[order] for name, array in epoch.items()})
        by_number = np.argsort(examples["next_sentence_labels"])
        np.testing.assert_array_equal(
            samples.unmask(epochs[-1]), examples["input_word_ids"][by_number]
        )
        num_tokens = examples["input_mask"][by_number].sum(axis=1)
        np.testing.assert_array_equal(
            epochs[-1]["masked_lm_weights"].sum(axis=1),
            np.rint(num_tokens * 0.2).clip(1, 6),
        )
    assert has_other_masks(*epochs).mean() > 0.9


def test_equal_examples_of_neighboring_rows_have_different_masks(
    found, vocabulary
):
    settings = dataclasses.replace(
        SETTINGS, max_seq_length=64, max_examples_per_row=2
    )
    masker = dynamic_masking.masker(found, SETTINGS.sizes, seed=1)
    masker = masker._replace(rules=settings.rules, sizes=settings.sizes)
    examples = {
        name: np.repeat(array, 8, axis=0)
        for name, array in make_rows(vocabulary, count=1).items()
    }
    rows = packing.join(examples, np.full(4, 2), settings.sizes)
    masked, _ = packing.separate(
        dynamic_masking.mask(masker, rows, np.arange(4))
    )
    assert len(set(map(tuple, masked["masked_lm_positions"].tolist()))) == 8


def test_sizes_that_differ_from_the_manifest_are_named(found):
    sizes = SETTINGS.sizes | {"max_predictions_per_seq": 9}
    with pytest.raises(ValueError, match="max_predictions_per_seq=9, but .* 6"):
        dynamic_masking.masker(found, sizes, seed=1)


def test_a_missing_or_different_vocabulary_is_named(found, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(found.paths[0].rpartition("/")[0], folder)
    copy = records.Records.open(str(folder))
    for is_there in (True, False):
        path = folder / masking.VOCABULARY_NAME
        path.write_text("[PAD]\n") if is_there else path.unlink()
        with pytest.raises(ValueError, match=r"vocab\.txt should be the voc"):
            dynamic_masking.masker(copy, SETTINGS.sizes, seed=1)
