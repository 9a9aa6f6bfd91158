"""pretraining.py: manifests determine schema, pairs and task of records."""

import dataclasses

import numpy as np
import pytest
import record_folders
import tensorflow as tf

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


def candidate_batch():
    """Texts of entries 5 to 9 with labels of 0, 8 and 11, of V = 20."""
    return {
        "input_word_ids": np.array([[5, 6, 7, 8], [6, 9, 8, 5]], np.int32),
        "masked_lm_ids": np.array([[8, 11], [8, 0]], np.int32),
    }


def choose(num_candidates, step=1):
    ids, log_weights = pretraining.choose_candidates(
        candidate_batch(), 20, num_candidates, np.array([7, step], np.int64)
    )
    return ids.numpy(), log_weights.numpy()


@pytest.mark.parametrize(
    ("num_candidates", "known"),
    [
        (12, [0, 5, 6, 7, 8, 9, 11]),
        (20, [0, 5, 6, 7, 8, 9, 11]),
        # Too few for the texts' words, which are then drawn like others.
        (7, [0, 8, 11]),
    ],
)
def test_candidates_are_words_of_the_batch_and_a_sample(num_candidates, known):
    ids, log_weights = choose(num_candidates)
    assert len(set(ids)) == num_candidates
    assert set(known) <= set(ids) <= set(range(20))
    others = np.log((20 - len(known)) / (num_candidates - len(known)))
    expected = np.where(np.isin(ids, known), 0.0, others)
    np.testing.assert_allclose(log_weights, expected, rtol=1e-6)
    assert set(choose(7)[0]) == set(choose(7)[0]) != set(choose(7, step=2)[0])


def test_candidates_are_the_same_with_xla():
    compiled = tf.function(pretraining.choose_candidates, jit_compile=True)
    batch = {name: tf.constant(x) for name, x in candidate_batch().items()}
    found = compiled(batch, 20, 12, tf.constant([7, 1], tf.int64))
    for one, other in zip(found, choose(12), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_sum_over_candidates_is_on_average_that_of_all_entries():
    logits = np.random.default_rng(1).normal(size=20)
    sums = []
    for step in range(400):
        ids, log_weights = choose(10, step)
        sums.append(np.exp(logits[ids] + log_weights).sum())
    exact = np.exp(logits).sum()
    error = np.std(sums) / np.sqrt(len(sums))
    assert 0 < error < 0.02 * exact
    assert np.mean(sums) == pytest.approx(exact, abs=4 * error)


@pytest.mark.parametrize("num_candidates", [40, 100])
def test_the_loss_of_candidates_is_that_of_their_logits(
    num_candidates, tiny_config
):
    """By NumPy; with all entries it is the loss of the complete vocabulary."""
    config = dataclasses.replace(tiny_config, vocab_size=100)
    task = pretraining.PretrainingTask("none")
    model = task.build_model(config)
    rng = np.random.default_rng(3)
    batch = {
        "input_word_ids": rng.integers(100, size=(3, 8)).astype(np.int32),
        "input_mask": np.ones((3, 8), np.int32),
        "input_type_ids": np.zeros((3, 8), np.int32),
        "masked_lm_positions": np.tile(np.int32([1, 4]), (3, 1)),
        "masked_lm_ids": rng.integers(100, size=(3, 2)).astype(np.int32),
        "masked_lm_weights": np.float32([[1, 1], [1, 0], [1, 1]]),
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    key = tf.constant([12345, 6, 0], tf.int64)

    def loss_and_gradients():
        with tf.GradientTape() as tape:
            outputs = task.outputs(model, batch, key)
            mean = task.losses(outputs, batch)["masked_lm_loss"]
        weights = [model.masked_lm.bias, *model.encoder.trainable_weights[:1]]
        weights = [weight.value for weight in weights]
        return mean.total.numpy(), tape.gradient(mean.total, weights)

    full, full_gradients = loss_and_gradients()
    logits = task.outputs(model, batch, key)["masked_lm_logits"].numpy()
    task.num_candidates = num_candidates
    found, gradients = loss_and_gradients()
    assert list(task.accuracies(task.outputs(model, batch, key), batch)) == [
        "candidate_accuracy"
    ]
    ids, log_weights = pretraining.choose_candidates(
        batch, 100, num_candidates, key[:2]
    )
    sums = np.exp(logits[..., ids.numpy()] + log_weights.numpy()).sum(-1)
    labels = batch["masked_lm_ids"].numpy()[..., None]
    chosen = np.take_along_axis(logits, labels, -1)[..., 0]
    each = (np.log(sums) - chosen) * batch["masked_lm_weights"].numpy()
    assert found == pytest.approx(each.sum(), rel=1e-5)
    if num_candidates == config.vocab_size:
        assert found == pytest.approx(full, rel=1e-5)
        for ours, expected in zip(gradients, full_gradients, strict=True):
            ours = tf.convert_to_tensor(ours)
            np.testing.assert_allclose(ours, expected, atol=1e-5)
