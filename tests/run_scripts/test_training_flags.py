"""Flags of a training run -> its settings, its flag file."""

import pytest
from absl import flags

from bert_tf import optimization, training
from run_scripts import common_flags, training_flags


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
    defaults = training.train.__kwdefaults__
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


def test_the_flag_file_of_a_run_repeats_it(values, tmp_path):
    parse(values, "--learning_rate=3e-5", "--correct_bias")
    training_flags.write_run_flags(values, "run_x", str(tmp_path / "run"))
    text = (tmp_path / "run" / "run.flags").read_text()
    assert text.startswith("# run_scripts.run_x\n# python 3.")
    assert "tensorflow 2." in text
    before = training_flags.run_settings(values)
    parse(values, f"--flagfile={tmp_path / 'run' / 'run.flags'}")
    assert training_flags.run_settings(values) == before
    assert values.correct_bias


def test_the_optimizer_is_the_one_that_the_flags_mean(values):
    parse(values, "--optimizer=lamb", "--layerwise_lr_decay=0.9")
    made = training_flags.make_optimizer(values)
    assert made.func is optimization.Lamb
    # Whether to correct the bias is left to the optimizer.
    assert made.keywords == {
        "weight_decay_rate": 0.01,
        "layerwise_lr_decay": 0.9,
    }
    parse(values, "--nocorrect_bias", "--optimizer=lamb")
    assert training_flags.make_optimizer(values).keywords["correct_bias"] is (
        False
    )


@pytest.mark.parametrize("typed", [False, True])
def test_the_flag_file_leaves_an_untyped_case_to_the_model(
    values, tmp_path, typed
):
    common_flags.define_vocabulary(values)
    parse(values, *["--do_lower_case"] * typed)
    training_flags.write_run_flags(values, "run_x", str(tmp_path))
    text = (tmp_path / "run.flags").read_text()
    assert ("do_lower_case" in text) == typed


def test_only_training_needs_a_batch_that_replicas_can_share(values):
    parse(values, "--train_batch_size=3", "--gradient_accumulation_steps=2")
    training_flags.make_strategy(values, do_train=False)
    with pytest.raises(ValueError, match="train_batch_size=3 is not a mult"):
        training_flags.make_strategy(values, do_train=True)
