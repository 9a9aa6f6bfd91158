"""word_features.py: batches have each sentence once, with its features."""

import numpy as np
import pytest

from experiments.feature_based import word_features

LENGTHS = [3, 1, 9, 4, 2]


@pytest.fixture
def sentences():
    """Word t of layer n has the features (t, n); its tag is t % 5."""
    words = np.arange(sum(LENGTHS), dtype=np.float16)
    features = np.stack(
        [np.stack([words, np.full_like(words, n)], -1) for n in range(3)], 1
    )
    return word_features.Sentences(
        features, [2, 0], LENGTHS, (words % 5).astype(np.int32)
    )


def check(batch, indices):
    """Checks that the features of each row are those of its sentence."""
    ends = np.cumsum(LENGTHS)
    for row, index in enumerate(indices):
        length = LENGTHS[index]
        words = np.arange(ends[index] - length, ends[index])
        values = batch["word_features"][row]
        assert (values[:length, 0, 0] == words).all()
        assert (values[:length, 0, 1] == 2).all()
        assert (values[:length, 1, 1] == 0).all()
        assert not values[length:].any()
        assert (batch["tag_ids"][row][:length] == words % 5).all()
        mask = batch["input_mask"][row]
        assert mask.sum() == length and mask[:length].all()
        assert (batch["tag_weights"][row] == mask).all()


def as_arrays(batch):
    return {name: tensor.numpy() for name, tensor in batch.items()}


@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas_share_an_evaluation_of_each_sentence(sentences, replicas):
    parts = [
        list(
            sentences.evaluation_batches(2, replicas=replicas, first_replica=x)
        )
        for x in range(replicas)
    ]
    seen = []
    for at_a_time in zip(*parts, strict=True):
        assert len({b["word_features"].shape for b in at_a_time}) == 1
        for batch in map(as_arrays, at_a_time):
            check(batch, batch["example_index"])
            real = batch["is_real_example"] > 0
            seen += batch["example_index"][real].tolist()
    assert seen == [2, 3, 0, 4, 1]  # The longest first.
    assert sentences.mask.sum(axis=1).tolist() == LENGTHS


def test_training_has_each_sentence_once_per_epoch(sentences):
    dataset = sentences.training_batches(0, batch_size=5, seed=1, num_batches=3)
    for name, spec in dataset.element_spec.items():
        assert spec.shape[0] == 5, name
    seen = []
    for batch in dataset.take(3):
        batch = as_arrays(batch)
        lengths = batch["input_mask"].sum(axis=1)
        check(batch, [LENGTHS.index(length) for length in lengths])
        seen += lengths.tolist()
    assert sorted(seen) == sorted(3 * LENGTHS)


def test_a_resumed_stream_has_the_same_batches(sentences):
    def batches(start, count):
        dataset = sentences.training_batches(
            start, batch_size=2, seed=7, num_batches=6
        )
        return [as_arrays(batch) for batch in dataset.take(count)]

    for whole, later in zip(batches(0, 6)[4:], batches(4, 2), strict=True):
        for name in whole:
            assert (whole[name] == later[name]).all(), name


def test_replicas_share_a_batch(sentences):
    def read(**replicas):
        dataset = sentences.training_batches(
            0, batch_size=4, seed=7, num_batches=2, **replicas
        )
        return [as_arrays(batch) for batch in dataset.take(2)]

    whole = read()[0]
    parts = read(replicas=2, local_replicas=2)
    for name in whole:
        joined = np.concatenate([part[name] for part in parts])
        assert (joined == whole[name]).all(), name
