"""estimates.py: weights, memory, products and time of a step, by arithmetic."""

import dataclasses

import pytest

from benchmarks import work
from bert_tf import config
from bert_tf.workflows.doctor import estimates


def step_of(size="base", task="pretraining", **changes):
    settings = {
        "batch_size": 16,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20 if task == "pretraining" else 0,
    } | changes
    return estimates.Step(
        config=config.BertConfig.from_name(size), task=task, **settings
    )


def test_weights_are_those_of_the_paper():
    # Devlin et al. 2019, section 3: 110 and 340 million.
    assert estimates.num_weights(step_of()) == 110_106_428
    assert round(estimates.num_weights(step_of("large")) / 1e6) == 336
    classes = step_of(task="classification", num_labels=3)
    assert estimates.num_weights(classes) == 109_484_547


@pytest.mark.parametrize("size,length", [("base", 128), ("tiny", 512)])
@pytest.mark.parametrize("task", ["pretraining", "classification"])
def test_products_are_those_of_the_benchmarks(size, length, task):
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
    assert estimates.products(step) == pytest.approx(work.matmul_flops(setting))


def total(step):
    return sum(estimates.memory(step).values()) / 1e9


@pytest.mark.parametrize(
    "size,changes,measured",
    [
        # docs/results.md: peak memory of steps of BERT-base on a CPU.
        ("base", {"precision": "bfloat16"}, 3.9),
        ("base", {}, 4.4),
        # Of six steps by run_pretraining.
        ("small", {"batch_size": 32}, 2.34),
        ("tiny", {"batch_size": 32}, 1.18),
        (
            "base",
            {
                "max_seq_length": 512,
                "max_predictions_per_seq": 77,
                "accumulation_steps": 4,
                "remat": True,
            },
            4.2,
        ),
    ],
)
def test_memory_is_near_what_was_measured(size, changes, measured):
    step = step_of(size, **changes)
    assert total(step) == pytest.approx(measured, rel=0.15)


def test_what_saves_memory_lowers_the_estimate():
    plain = step_of(batch_size=256)
    activations = "activations"
    base = estimates.memory(plain)[activations]
    for change, factor in (
        ({"accumulation_steps": 4}, 0.25),
        ({"precision": "bfloat16"}, 0.55),
        ({"remat": True}, 0.4),
        ({"batch_size": 128}, 0.5),
    ):
        less = estimates.memory(dataclasses.replace(plain, **change))
        assert less[activations] <= factor * base * 1.01, change
    assert list(estimates.memory(plain)) == [
        "weights, gradients and two moments",
        activations,
        "TensorFlow",
    ]


def test_remat_computes_a_third_more():
    plain = step_of("large")
    again = estimates.products(dataclasses.replace(plain, remat=True))
    assert 1.25 < again / estimates.products(plain) < 1.34


def test_a_rate_is_measured():
    assert 1e8 < estimates.measure_rate("float32", seconds=0.0) < 1e16


@pytest.mark.parametrize(
    "size,changes,rate,measured",
    [
        # docs/results.md: 73 and 86 % of the products' rate.
        ("base", {"precision": "bfloat16"}, 0.40e12, 3.86),
        ("base", {}, 0.21e12, 6.10),
    ],
)
def test_seconds_are_near_what_was_measured(size, changes, rate, measured):
    seconds = estimates.step_seconds(step_of(size, **changes), rate)
    assert seconds == pytest.approx(measured, rel=0.15)


def test_narrow_models_reach_less_of_the_rate():
    shares = []
    for size in ("tiny", "mini", "small", "base"):
        step = step_of(size, batch_size=64)
        floor = estimates.products(step) / 1e12
        shares.append(floor / estimates.step_seconds(step, 1e12))
    assert shares == sorted(shares)


def test_free_memory_of_this_machine():
    where, free = estimates.available_bytes()
    assert where.endswith(("of this host", "of the GPU"))
    assert free == 0 or 1e7 < free < 1e14
