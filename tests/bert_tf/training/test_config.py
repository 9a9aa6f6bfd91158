"""Settings of a training: what makes it another run, and wrong values."""

import dataclasses

import pytest

from bert_tf.training import optimizers, strategies
from bert_tf.training.config import TrainingConfig

CONFIG = TrainingConfig(output_dir="x")


def settings(**changes):
    return dataclasses.replace(CONFIG, **changes).decisive_settings()


def test_what_only_shows_or_saves_makes_no_other_run():
    before = settings()
    assert settings(log_every_steps=7, save_checkpoints_steps=9) == before
    assert settings(precision="bfloat16") != before


def test_the_default_and_what_it_means_are_the_same_run():
    for optimizer, correct_bias in (("adamw", False), ("lamb", True)):
        assert settings(optimizer=optimizer) == settings(
            optimizer=optimizer, correct_bias=correct_bias
        )
        cls = optimizers.OPTIMIZERS[optimizer]
        assert cls.__init__.__kwdefaults__["correct_bias"] is correct_bias


def test_choices_are_those_that_there_are():
    choices = {
        field.name: field.metadata["choices"]
        for field in dataclasses.fields(TrainingConfig)
    }
    assert choices["optimizer"] == tuple(optimizers.OPTIMIZERS)
    assert choices["distribution_strategy"] == tuple(strategies.NAMES)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"clip_norm": 0}, "--clip_norm=0 should be above 0"),
        ({"clip_norm": float("nan")}, "--clip_norm=nan should be above 0"),
        ({"train_batch_size": 0}, "--train_batch_size=0 should be at least 1"),
        ({"precision": "int8"}, "--precision=int8: choose one of float32, b"),
    ],
)
def test_wrong_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **changes)
