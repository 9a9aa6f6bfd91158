"""estimates.py: weights and memory of a step."""

import dataclasses
import types

import pytest

from bert_tf import config
from bert_tf.workflows import estimates


def step_of(size="base", task="pretraining", **changes):
    settings = {
        "batch_size": 16,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20 if task == "pretraining" else 0,
    } | changes
    return estimates.Step(
        config=config.BertConfig.from_name(size), task=task, **settings
    )


def test_numbers_of_weights_are_those_of_the_paper():
    # Devlin et al. 2018, section 3: 110 and 340 million.
    assert estimates.num_weights(step_of()) == 110_106_428
    assert round(estimates.num_weights(step_of("large")) / 1e6) == 336
    classes = step_of(task="classification", num_labels=3)
    assert estimates.num_weights(classes) == 109_484_547


def total(step):
    return sum(estimates.memory(step).values()) / 1e9


@pytest.mark.parametrize(
    "size,changes,measured",
    [
        # docs/results.md: peak memory of steps of BERT-base on a CPU.
        ("base", {"precision": "bfloat16"}, 3.9),
        ("base", {}, 4.4),
        # Six steps of run_pretraining.
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
def test_memory_is_near_the_measured_peak(size, changes, measured):
    step = step_of(size, **changes)
    assert total(step) == pytest.approx(measured, rel=0.15)


def test_settings_that_save_memory_lower_the_estimate():
    plain = step_of(batch_size=256)
    base = estimates.memory(plain)["activations"]
    for change, factor in (
        ({"accumulation_steps": 4}, 0.25),
        ({"precision": "bfloat16"}, 0.55),
        ({"remat": True}, 0.4),
        ({"batch_size": 128}, 0.5),
    ):
        changed = estimates.memory(dataclasses.replace(plain, **change))
        assert changed["activations"] <= factor * base * 1.01, change


def test_memory_depends_on_the_optimizer():
    step = step_of("base")
    name = "weights, gradients and optimizer"
    base = estimates.memory(step)[name]
    averaged = dataclasses.replace(step, has_averages=True)
    weights = estimates.num_weights(step)
    assert estimates.memory(averaged)[name] - base == 4 * weights
    # 12 layers of 12 H^2 weights without second moments.
    muon = dataclasses.replace(step, optimizer="muon")
    saved = base - estimates.memory(muon)[name]
    assert saved == 4 * 12 * 12 * 768**2


def test_adapters_need_no_gradients_of_other_weights():
    step = step_of("base", "classification", batch_size=8, max_seq_length=64)
    adapted = dataclasses.replace(step, has_adapters=True)
    # Measured, docs/guide/classification.md.
    assert total(step) == pytest.approx(3.19, rel=0.15)
    assert total(adapted) == pytest.approx(2.01, rel=0.25)


@pytest.mark.parametrize(
    ("printed", "name"), [("81559\n", "GPU"), ("[N/A]\n", "host")]
)
def test_a_gpu_may_share_the_memory_of_the_host(monkeypatch, printed, name):
    monkeypatch.setattr(
        estimates.tf.config, "list_physical_devices", lambda kind: [kind]
    )
    monkeypatch.setattr(estimates.shutil, "which", lambda name: name)
    result = types.SimpleNamespace(stdout=printed, returncode=0)
    monkeypatch.setattr(estimates.subprocess, "run", lambda *a, **k: result)
    assert estimates.read_memory().name.endswith(name)


def test_the_available_memory_is_plausible():
    name, free, total = estimates.read_memory()
    assert name.endswith(("of this host", "of the GPU"))
    assert total == 0 or 1e7 < free <= total < 1e14


def test_pages_of_files_in_a_container_are_free_memory(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  16000 kB\nMemAvailable:  12000 kB\n")
    host = ("memory of this host", 12000 << 10, 16000 << 10)
    assert estimates._host_memory(str(meminfo), str(tmp_path)) == host
    (tmp_path / "memory.max").write_text("max\n")
    assert estimates._host_memory(str(meminfo), str(tmp_path)) == host
    (tmp_path / "memory.max").write_text("8000000\n")
    (tmp_path / "memory.current").write_text("7900000\n")
    stat = "anon 900000\nfile 7000000\ninactive_file 4000000\n"
    (tmp_path / "memory.stat").write_text(stat + "active_file 3000000\n")
    memory = estimates._host_memory(str(meminfo), str(tmp_path))
    assert memory == ("memory of this host", 7_100_000, 8_000_000)
    nothing = estimates._host_memory(str(tmp_path / "none"), "none")
    assert nothing[1:] == (0, 0)
