"""arithmetic.py, accelerators.py: bytes and a time calculated by hand."""

import pytest

from bert_tf import config
from bert_tf.contrib.apps.doctor import accelerators, arithmetic
from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import estimates

STEPS = 1_000_000
# BERT-base, 256 rows of 128 tokens with 20 predictions: multiply-adds of a
# token in a layer, of the pooled vectors, and of the masked tokens.
LAYER = 4 * 768**2 + 2 * 768 * 3072 + 2 * 128 * 768
FLOPS = 6 * (
    12 * 256 * 128 * LAYER
    + 256 * 768 * (768 + 2)
    + 256 * 20 * 768 * (768 + 30522)
)
# Float32 weight, gradient and two moments, and a copy in bfloat16.
WEIGHTS = 110_106_428 * (16 + 2)
# Of a row: 34 + 5 A S / H = 44 bytes for each of S x H values in 12 layers, and
# 12 bytes of each logit.
ROW = 12 * 128 * 768 * 44 + 12 * 20 * 30522


def calculate(
    name, batch_size=256, precision="bfloat16", num_steps=STEPS, **changes
):
    settings = TrainingConfig(
        output_dir="unused",
        train_batch_size=batch_size,
        precision=precision,
        **changes,
    )
    step = estimates.Step(
        config=config.BertConfig.from_name("base"),
        task="pretraining",
        batch_size=batch_size,
        max_seq_length=128,
        max_predictions_per_seq=20,
        precision=precision,
        accumulation_steps=settings.gradient_accumulation_steps,
        remat=settings.remat,
    )
    return arithmetic.calculate(name, settings, step, 25_600, num_steps)


def the_problem(*args, **kwargs):
    ((severity, check, text),), _ = calculate(*args, **kwargs)
    return severity, check, text


def test_bytes_and_the_time_on_four_chips():
    diagnostics, lines = calculate("v4-8")
    assert not diagnostics
    assert WEIGHTS == 1_981_915_704 and round(64 * ROW / 1e9, 1) == 3.8
    # A million steps of 1.79e13 / (4 x 275e12 x 0.4) = 0.04068 s: 11.3 hours.
    assert f"{FLOPS:.4g}" == "1.79e+13"
    assert lines == [
        "v4-8: 4 chips, each with 34.4 GB; replicas: 4, each with 64 of 256 "
        "rows of 128 tokens",
        "arithmetic: 5.8 GB of the 34.4 GB of a replica (weights, gradients "
        "and optimizer 2.0 GB, activations 3.8 GB)",
        "arithmetic: --num_train_steps=1000000 is 10000.00 epochs; 1.79e+19 "
        "FLOP / (4 x 275 TFLOP/s in bfloat16 x 40 %) = 11.3 hours; 40 % of the "
        "published rate is assumed, nothing is measured",
    ]


def test_without_steps_the_time_is_that_of_an_epoch():
    _, lines = calculate("v4-8", num_steps=None)
    assert "an epoch is 100 steps; 1.79e+15 FLOP / (" in lines[2]
    assert ") = 4.1 s; 40 %" in lines[2]


def test_a_core_of_v3_is_a_replica_with_half_of_the_memory():
    _, lines = calculate("v3-8")
    assert lines[0].startswith("v3-8: 4 chips, each with 34.4 GB; ")
    assert "replicas: 8, each with 32 of 256 rows" in lines[0]
    # 1.98 + 32 rows of 0.0592 GB; 16 GiB.
    assert lines[1].startswith("arithmetic: 3.9 GB of the 17.2 GB")
    # 1.79e19 / (4 x 123e12 x 0.4), not 8 times.
    assert "(4 x 123 TFLOP/s in bfloat16 x 40 %) = 25.3 hours" in lines[2]


def test_float32_on_a_gpu_has_its_own_rate():
    _, lines = calculate("h100", precision="float32")
    assert lines[0].startswith("h100: 1 chip with 80.0 GB; replicas: 1")
    # 1.79e19 / (494e12 x 0.4).
    assert "(1 x 494 TFLOP/s in float32 x 40 %) = 25.2 hours" in lines[2]


def test_a_batch_that_does_not_divide_by_the_replicas_is_an_error():
    severity, check, text = the_problem("v5e-8", batch_size=36)
    assert (severity, check) == ("error", "accelerator")
    assert "--train_batch_size=36 is not a multiple of 8: 8 replicas" in text
    _, _, text = the_problem("v5e-8", 40, gradient_accumulation_steps=2)
    assert "is not a multiple of 16" in text
    assert "--gradient_accumulation_steps=2. Choose a multiple." in text


def test_a_step_that_does_not_fit_is_an_error_with_what_to_do():
    severity, check, text = the_problem("v5e-1")
    assert (severity, check) == ("error", "memory")
    # 1.98 + 256 rows of 0.0592 GB.
    assert "needs 17.1 GB of the 16.0 GB that it has on v5e-1" in text
    for flag in ("gradient_accumulation_steps", "remat", "train_batch_size"):
        assert f"--{flag}" in text
    # 14.3 GB: within the accuracy of the estimate.
    assert the_problem("v5e-1", 208)[0] == "warning"
    for changes in ({"gradient_accumulation_steps": 2}, {"remat": True}):
        assert calculate("v5e-1", **changes)[0] == [], changes


def test_a_precision_without_a_published_rate_is_an_error():
    for name, precision, better in (
        ("t4", "bfloat16", "float16"),
        ("v100", "bfloat16", "float16"),
        ("v6e-8", "float16", "bfloat16"),
    ):
        severity, check, text = the_problem(name, precision=precision)
        assert (severity, check) == ("error", "accelerator")
        assert f"{precision} products is published for {name}. " in text
        assert text.endswith(f"--precision={better}.")


@pytest.mark.parametrize("name", accelerators.NAMES)
def test_numbers_in_names_are_those_of_cores_or_chips(name):
    chip, chips = accelerators.ACCELERATORS[name]
    generation, _, number = name.rpartition("-")
    cores = 2 if generation in ("v2", "v3", "v4", "v5p") else 1
    expected = int(number) // cores if number.isdecimal() else 1
    assert chips == expected
    # bfloat16 at float32's rate or up to 8.0 times it; 16 to 141 GB.
    assert 1 <= max(chip.rates.values()) / chip.rates["float32"] < 8.1
    assert 16e9 <= chip.memory <= 141e9
