"""Flags of a training run -> its settings."""

import pytest
from absl import flags

from bert_tf.training.config import TrainingConfig
from run_scripts.flags import common_flags, training_flags


@pytest.fixture
def values():
    values = flags.FlagValues()
    training_flags.define_training(
        values, learning_rate=1e-4, train_batch_size=32
    )
    return values


def parse(values, *words):
    common_flags.parse(values, ["script", *words], "Doc.")


def test_defaults_are_those_of_the_config(values):
    parse(values, "--output_dir=runs/a")
    assert training_flags.find_config(values) == TrainingConfig(
        output_dir="runs/a", learning_rate=1e-4
    )


def test_what_only_shows_or_saves_makes_no_other_run(values):
    parse(values)
    before = training_flags.run_settings(values)
    parse(values, "--log_every_steps=7", "--save_checkpoints_steps=9")
    assert training_flags.run_settings(values) == before
    parse(values, "--precision=bfloat16")
    assert training_flags.run_settings(values) != before


def test_the_default_and_what_it_means_are_the_same_run(values):
    for optimizer, flag in (
        ("adamw", "nocorrect_bias"),
        ("lamb", "correct_bias"),
    ):
        parse(values, f"--optimizer={optimizer}")
        before = training_flags.run_settings(values)
        parse(values, f"--optimizer={optimizer}", f"--{flag}")
        assert training_flags.run_settings(values) == before


def test_the_config_is_the_one_that_the_flags_mean(values):
    parse(values, "--optimizer=lamb", "--layerwise_lr_decay=0.9")
    config = training_flags.find_config(values)
    assert config.optimizer == "lamb" and config.layerwise_lr_decay == 0.9
    # Whether to correct the bias is left to the optimizer.
    assert config.correct_bias is None
    parse(values, "--nocorrect_bias", "--optimizer=lamb")
    assert training_flags.find_config(values).correct_bias is False


def test_only_training_needs_a_batch_that_replicas_can_share(values):
    parse(values, "--train_batch_size=3", "--gradient_accumulation_steps=2")
    training_flags.make_strategy(values, do_train=False)
    with pytest.raises(ValueError, match="train_batch_size=3 is not a mult"):
        training_flags.make_strategy(values, do_train=True)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["--clip_norm=0"], "clip_norm=0.0: should be above 0"),
        (["--steps_per_loop=3"], "=1000 is not a multiple of steps_per_loop=3"),
    ],
)
def test_flags_are_checked_before_there_is_a_folder(values, wrong, message):
    with pytest.raises((ValueError, flags.Error), match=message):
        parse(values, *wrong)
        training_flags.make_strategy(values, do_train=True)
