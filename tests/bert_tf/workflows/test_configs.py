"""Settings of workflows: what a run's options say of its weights."""

import dataclasses

import pytest

from bert_tf.workflows import configs
from bert_tf.workflows.pretraining.config import PretrainingConfig


@pytest.mark.parametrize(
    "config",
    [
        configs.FineTuningConfig,
        configs.TrialsConfig,
        PretrainingConfig,
    ],
)
def test_an_option_that_is_declared_again_decides_as_before(config):
    fields = {field.name: field for field in dataclasses.fields(config)}
    for base in filter(dataclasses.is_dataclass, config.__mro__[1:]):
        for field in dataclasses.fields(base):
            decides = field.metadata.get("decides")
            again = fields[field.name]
            assert again.metadata.get("decides") == decides, field.name
            if decides == "unless_default":  # run.json has other values.
                assert again.default == field.default, field.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora_rank": 0}, "--lora_rank=0 should be at least 1"),
        ({"lora_rank": 4, "do_train": True}, "Add it, or omit --lora_rank"),
        ({"lora_targets": ("key",)}, "--lora_targets=key needs --lora_rank"),
        ({"lora_rank": 4, "lora_targets": ("x",)}, "lora_targets=x should be"),
        ({"lora_rank": 4, "lora_targets": ()}, "--lora_targets is empty"),
    ],
)
def test_adapters_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        configs.FineTuningConfig(output_dir="x", **options)


def test_runs_without_adapters_have_no_settings_of_them():
    config = configs.TrialsConfig(output_dir="x").with_defaults()
    assert not any("lora" in name for name in config.decisive_settings())
