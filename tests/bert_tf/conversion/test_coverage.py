"""coverage.py: which weights of a model a checkpoint gives."""

import dataclasses

import numpy as np

from bert_tf.conversion import checkpoint, coverage


def random_checkpoint(config, task, **changes):
    labels = ("a", "b", "c") if task == "classification" else ()
    shapes = checkpoint.shapes(config, task, len(labels))
    return checkpoint.Checkpoint(
        source="test",
        config=config,
        task=task,
        labels=labels,
        tensors={n: np.zeros(shape, np.float32) for n, shape in shapes.items()},
        **changes,
    )


def test_a_checkpoint_of_the_same_model_gives_all(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining", unused=("step",))
    found = coverage.of(given, tiny_config, "pretraining")
    assert found.found == list(given.shapes())
    assert found.missing == found.other_shapes == []
    assert found.unused == ["step"]


def test_what_it_lacks_is_missing(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining")
    for name in list(given.tensors):
        if not name.startswith("encoder/layer_0"):
            del given.tensors[name]
    found = coverage.of(given, tiny_config, "pretraining")
    assert len(found.found) == 16
    assert "encoder/embeddings/word_embeddings" in found.missing
    assert len(found.found) + len(found.missing) == len(given.shapes())


def test_weights_of_another_size_are_told_apart(tiny_config):
    given = random_checkpoint(tiny_config, "pretraining")
    other = dataclasses.replace(tiny_config, max_position_embeddings=512)
    found = coverage.of(given, other, "pretraining")
    assert found.other_shapes == [
        "encoder/embeddings/position_embeddings: (64, 16) there, (512, 16) in "
        "the model"
    ]
    assert found.missing == []


def test_fine_tuning_takes_the_encoder_alone(tiny_config):
    for task in ("pretraining", "classification"):
        given = random_checkpoint(tiny_config, task)
        found = coverage.of(given, tiny_config, "classification")
        assert all(name.startswith("encoder/") for name in found.found)
        assert found.missing == [
            "classification/dense/kernel",
            "classification/dense/bias",
        ]
    assert found.unused == []


def test_pre_training_goes_on_with_the_encoder_of_a_classifier(tiny_config):
    given = random_checkpoint(tiny_config, "classification")
    found = coverage.of(given, tiny_config, "pretraining")
    assert {name.split("/")[0] for name in found.missing} == {
        "masked_lm",
        "next_sentence",
    }
    assert found.unused == [
        "classification/dense/kernel",
        "classification/dense/bias",
    ]
