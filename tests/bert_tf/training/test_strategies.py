import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf.training import stopping, strategies


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_a_strategy_has_the_first_or_all_devices_of_this_host(name):
    strategy = strategies.make_strategy(name)
    expected = strategies.local_devices()
    if name == "one_device":
        expected = expected[:1]
    found = strategy.extended.worker_devices
    assert strategy.num_replicas_in_sync == len(expected)
    for device, end in zip(found, expected, strict=True):
        assert device.endswith(end)


_SPLIT = """
from bert_tf.training import stopping, strategies
strategy = strategies.make_strategy("mirrored", virtual_devices=3)
print(strategy.num_replicas_in_sync, *strategies.local_devices())
"""


@pytest.mark.slow
def test_a_cpu_is_split_into_virtual_devices():
    found = subprocess.run(
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
    assert found == ["3", *(f"/device:CPU:{n}" for n in range(3))]


# Mistakes.


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="'two'.*one_device, mirrored, mul"):
        strategies.make_strategy("two")


def test_splitting_the_cpu_too_late_is_refused():
    tf.constant(1)
    with pytest.raises(ValueError, match="into 2 devices any more"):
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
def test_workers_need_to_know_each_other(monkeypatch, text):
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


def test_a_tpu_that_is_not_there_is_named():
    """As far as the set-up of a TPU can be run without one."""
    with pytest.raises(ValueError, match="No TPU at --tpu=local: .*Give the"):
        strategies.make_strategy("tpu", tpu="local")


def test_one_process_is_the_chief_and_waits_for_nobody():
    strategy = strategies.make_strategy("one_device")
    assert strategies.is_chief(strategy)
    assert strategies.num_workers(strategy) == 1
    strategies.barrier(strategy)
    assert strategies.chief_first(strategy, lambda: 5) == 5


@pytest.mark.parametrize("name", ["one_device", "multi_worker", "tpu"])
def test_virtual_devices_are_for_mirrored(name):
    with pytest.raises(ValueError, match=f"mirrored; {name} has no use for"):
        strategies.make_strategy(name, virtual_devices=2)


def test_the_loss_of_another_worker_is_said_in_words(monkeypatch):
    strategy = strategies.make_strategy("one_device")
    message = "Collective ops is aborted by: /job:worker/replica:0/task:1 died"
    lost = tf.errors.InternalError(None, None, message)
    with pytest.raises(tf.errors.InternalError):
        with strategies.clear_errors(strategy):  # Nobody else is there.
            raise lost
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    with pytest.raises(stopping.Stopped, match="0/task:1.; start all") as info:
        with strategies.clear_errors(strategy):
            raise lost
    assert info.value.exit_code == stopping.EXIT_CODE
    with pytest.raises(tf.errors.InternalError, match="of our own"):
        with strategies.clear_errors(strategy):
            raise tf.errors.InternalError(None, None, "a mistake of our own")


def test_several_batches_of_a_call_are_stacked(
    tiny_config, make_batch, make_batches
):
    make = make_batches(make_batch(tiny_config, rows=12), 4)
    strategy = strategies.make_strategy("one_device")
    one = strategies.distribute_batches(strategy, make, 2)
    both = next(strategies.distribute_batches(strategy, make, 2, 2))
    for i in range(2):
        batch = next(one)
        for name, value in both.items():
            assert (value[i].numpy() == batch[name].numpy()).all(), name
