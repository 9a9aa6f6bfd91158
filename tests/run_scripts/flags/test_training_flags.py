"""Flags of a training run -> its settings."""

import pytest
from absl import flags

from bert_tf.training import loop, optimizers
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


def test_defaults_are_those_of_the_training_loop(values):
    parse(values)
    keywords = training_flags.training_keywords(values)
    defaults = loop.train.__kwdefaults__
    made = keywords.pop("make_optimizer")
    assert made.func is defaults["make_optimizer"]
    of_optimizer = made.func.__init__.__kwdefaults__
    assert made.keywords == {n: of_optimizer[n] for n in made.keywords}
    update = keywords.pop("make_update")
    assert update.func is defaults["make_update"].func
    of_update = update.func.__kwdefaults__ | defaults["make_update"].keywords
    assert update.keywords == {n: of_update[n] for n in update.keywords}
    for name, value in keywords.items():
        assert value == defaults.get(name, value), name
    assert keywords["learning_rate"] == 1e-4


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


def test_the_optimizer_is_the_one_that_the_flags_mean(values):
    parse(values, "--optimizer=lamb", "--layerwise_lr_decay=0.9")
    made = training_flags.make_optimizer(values)
    assert made.func is optimizers.Lamb
    # Whether to correct the bias is left to the optimizer.
    assert made.keywords == {
        "weight_decay_rate": 0.01,
        "layerwise_lr_decay": 0.9,
    }
    parse(values, "--nocorrect_bias", "--optimizer=lamb")
    assert training_flags.make_optimizer(values).keywords["correct_bias"] is (
        False
    )


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
