"""Flags of a training run -> its config, its settings, its flag file."""

import pytest
from absl import flags

from bert_tf import config, optimization, training
from run_scripts import common_flags, training_flags


@pytest.fixture
def values():
    values = flags.FlagValues()
    training_flags.define_model(values)
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
    for name, value in keywords.items():
        assert value == defaults.get(name, value), name
    assert keywords["learning_rate"] == 1e-4
    assert keywords["train_batch_size"] == 32


def test_what_only_shows_or_saves_makes_no_other_run(values):
    parse(values)
    before = training_flags.run_settings(values)
    parse(values, "--log_every_steps=7", "--save_checkpoints_steps=9")
    assert training_flags.run_settings(values) == before
    parse(values, "--precision=bfloat16")
    assert training_flags.run_settings(values) != before


def test_the_flag_file_of_a_run_repeats_it(values, tmp_path):
    parse(values, "--learning_rate=3e-5", "--correct_bias")
    training_flags.write_run_flags(values, str(tmp_path / "run"))
    text = (tmp_path / "run" / "run.flags").read_text()
    assert text.startswith("# python 3.") and "tensorflow 2." in text
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


def test_a_config_comes_from_a_file_a_name_or_the_model(
    values, tiny_config, tmp_path
):
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    parse(values, f"--bert_config_file={path}")
    assert training_flags.find_config(values, 100, None) == tiny_config
    parse(values)
    found = training_flags.find_config(values, None, str(tmp_path))
    assert found == tiny_config
    parse(values, "--bert_config_name=tiny")
    found = training_flags.find_config(values, 77, str(tmp_path))
    assert found == config.BertConfig.from_name("tiny", vocab_size=77)
    found = training_flags.find_config(values, None, None)
    assert found.vocab_size == config.UNCASED_VOCAB_SIZE


# Mistakes.


def test_no_config_is_refused(values):
    parse(values)
    with pytest.raises(ValueError, match="No model sizes: give --bert_config"):
        training_flags.find_config(values, None, None)


def test_two_configs_are_refused(values):
    parse(values, "--bert_config_file=a.json", "--bert_config_name=tiny")
    with pytest.raises(ValueError, match="=a.json and .*=tiny: give only one"):
        training_flags.find_config(values, None, None)


def test_a_vocabulary_larger_than_the_model_is_refused(
    values, tiny_config, tmp_path
):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    parse(values)
    message = "has 300 entries, the model only vocab_size=203. Use the vocab"
    with pytest.raises(ValueError, match=message):
        training_flags.find_config(values, 300, str(tmp_path))
