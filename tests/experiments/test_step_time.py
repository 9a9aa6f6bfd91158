"""step_time.py: FLOPs and seconds of a step."""

import dataclasses

import pytest

from benchmarks import work
from bert_tf import config
from bert_tf.workflows import estimates
from experiments import step_time


def step_of(size="base", task="pretraining", **changes):
    settings = {
        "batch_size": 16,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20 if task == "pretraining" else 0,
    } | changes
    return estimates.Step(
        config=config.BertConfig.from_name(size), task=task, **settings
    )


@pytest.mark.parametrize("size,length", [("base", 128), ("tiny", 512)])
@pytest.mark.parametrize("task", ["pretraining", "classification"])
def test_flops_are_those_of_the_benchmarks(size, length, task):
    setting = work.Setting(
        config=config.BertConfig.from_name(size).to_dict(),
        task="fine_tuning" if task == "classification" else task,
        is_training=True,
        batch_size=16,
        seq_length=length,
        precision="float32",
    )
    step = step_of(size, task, max_seq_length=length)
    if task == "pretraining":
        step = dataclasses.replace(
            step, max_predictions_per_seq=setting.num_predictions
        )
    assert step_time.products(step) == pytest.approx(work.matmul_flops(setting))


def test_remat_needs_a_third_more_flops():
    plain = step_of("large")
    remat = step_time.products(dataclasses.replace(plain, remat=True))
    assert 1.25 < remat / step_time.products(plain) < 1.34


@pytest.mark.parametrize(
    "changes,rate,measured",
    [
        # docs/results.md: 73 and 86 % of the rate of matrix products.
        ({"precision": "bfloat16"}, 0.40e12, 3.86),
        ({}, 0.21e12, 6.10),
    ],
)
def test_step_seconds_are_near_the_measured_ones(changes, rate, measured):
    seconds = step_time.step_seconds(step_of(**changes), rate)
    assert seconds == pytest.approx(measured, rel=0.15)
