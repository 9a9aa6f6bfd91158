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
