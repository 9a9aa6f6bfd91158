import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf.training import stopping, strategies


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_a_strategy_uses_the_first_or_all_devices_of_this_host(name):
    strategy = strategies.make_strategy(name)
    expected = strategies.local_devices()
    if name == "one_device":
        expected = expected[:1]
    devices = strategy.extended.worker_devices
    assert strategy.num_replicas_in_sync == len(expected)
    for device, name in zip(devices, expected, strict=True):
        assert device.endswith(name)


_SPLIT = """
from bert_tf.training import stopping, strategies
strategy = strategies.make_strategy("mirrored", virtual_devices=3)
print(strategy.num_replicas_in_sync, *strategies.local_devices())
"""


@pytest.mark.slow
def test_a_cpu_is_split_into_virtual_devices():
    printed = subprocess.run(
        [sys.executable, "-c", _SPLIT],
        check=True,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "CUDA_VISIBLE_DEVICES": "",
        },
        capture_output=True,
        text=True,
    ).stdout.split()
    assert printed == ["3", *(f"/device:CPU:{n}" for n in range(3))]


# Errors.


def test_an_unknown_strategy_is_rejected():
    with pytest.raises(ValueError, match="'two'.*one_device, mirrored, mul"):
        strategies.make_strategy("two")


def test_splitting_the_cpu_too_late_is_rejected():
    tf.constant(1)
    with pytest.raises(ValueError, match="into 2 devices: TensorFlow already"):
        strategies.make_strategy("mirrored", virtual_devices=2)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "no JSON",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", '
        '"index": 1}}',
    ],
)
def test_multi_worker_needs_a_valid_tf_config(monkeypatch, text):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="multi_worker needs .* TF_CONFIG"):
        strategies.make_strategy("multi_worker")


def test_a_tpu_needs_a_name():
    with pytest.raises(ValueError, match="needs --tpu"):
        strategies.make_strategy("tpu")
    with pytest.raises(ValueError, match="needs --distribution_strategy=tpu"):
        strategies.make_strategy("mirrored", tpu="local")


def test_a_missing_tpu_raises():
    """Runs as much of the TPU set-up as is possible without one."""
    with pytest.raises(ValueError, match="No TPU at --tpu=local: .*Give the"):
        strategies.make_strategy("tpu", tpu="local")


def test_a_single_process_is_the_chief_and_does_not_wait():
    strategy = strategies.make_strategy("one_device")
    assert strategies.is_chief(strategy)
    assert strategies.num_workers(strategy) == 1
    strategies.barrier(strategy)
    assert strategies.chief_first(strategy, lambda: 5) == 5


@pytest.mark.parametrize("name", ["one_device", "multi_worker", "tpu"])
def test_virtual_devices_need_mirrored(name):
    with pytest.raises(ValueError, match=f"=mirrored, not {name}"):
        strategies.make_strategy(name, virtual_devices=2)


def test_lost_worker_errors_are_translated(monkeypatch):
    strategy = strategies.make_strategy("one_device")
    message = "Collective ops is aborted by: /job:worker/replica:0/task:1 died"
    lost = tf.errors.InternalError(None, None, message)
    with pytest.raises(tf.errors.InternalError):
        with strategies.clear_errors(strategy):  # There is no other worker.
            raise lost
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    with pytest.raises(stopping.Stopped, match="0/task:1.; restart") as info:
        with strategies.clear_errors(strategy):
            raise lost
    assert info.value.exit_code == stopping.EXIT_CODE
    with pytest.raises(tf.errors.InternalError, match="unrelated"):
        with strategies.clear_errors(strategy):
            raise tf.errors.InternalError(None, None, "an unrelated error")


def test_batches_of_a_call_are_stacked(tiny_config, make_batch, make_batches):
    make = make_batches(make_batch(tiny_config, rows=12), 4)
    strategy = strategies.make_strategy("one_device")
    one = strategies.distribute_batches(strategy, make, 2)
    both = next(strategies.distribute_batches(strategy, make, 2, 2))
    for i in range(2):
        batch = next(one)
        for name, value in both.items():
            assert (value[i].numpy() == batch[name].numpy()).all(), name
