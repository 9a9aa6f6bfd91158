"""Training settings: those that identify a run, and invalid values."""

import dataclasses

import pytest

from bert_tf.model import dropout
from bert_tf.training import optimizers
from bert_tf.training.config import OptimizerOptions

CONFIG = OptimizerOptions(output_dir="x")


def settings(**changes):
    return dataclasses.replace(CONFIG, **changes).decisive_settings()


def test_settings_of_logs_and_checkpoints_are_not_decisive():
    before = settings()
    assert settings(log_every_steps=7, save_checkpoints_steps=9) == before
    assert settings(precision="bfloat16") != before


@pytest.mark.parametrize(
    "changes",
    [
        {"dropout": "device"},
        {"use_one_hot_embeddings": True},  # Devices may round them.
        {"learning_rate_schedule": "cosine"},
        {"adam_beta_2": 0.98},
        {"ema_decay": 0.99},
        {"optimizer": "muon", "muon_learning_rate": 0.01},
    ],
)
def test_newer_options_are_in_run_json_unless_they_are_the_default(changes):
    name = list(changes)[-1]
    assert name not in settings(), "runs of earlier versions resume"
    assert settings(**changes).items() >= changes.items()


def test_a_default_and_its_explicit_value_are_the_same_run():
    for optimizer, correct_bias in (("adamw", False), ("lamb", True)):
        assert settings(optimizer=optimizer) == settings(
            optimizer=optimizer, correct_bias=correct_bias
        )


def test_choices_are_complete():
    choices = {
        field.name: field.metadata["choices"]
        for field in dataclasses.fields(OptimizerOptions)
    }
    assert choices["optimizer"] == tuple(optimizers.OPTIMIZERS)
    assert choices["dropout"] == tuple(dropout.GENERATORS)


MUON = {"optimizer": "muon", "muon_learning_rate": 0.01}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_batch_size": 0}, "train_batch_size=0 should be at least 1"),
        (MUON | {"muon_learning_rate": 0.0}, "_rate=0.0 should be above 0"),
        (MUON | {"optimizer": "adamw"}, "=0.01 needs --optimizer=muon and"),
        (MUON | {"learning_rate": 0.0}, "=0.01 needs .* above 0"),
    ],
)
def test_values_out_of_bounds_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **changes)
