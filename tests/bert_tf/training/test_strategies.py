import os
import socket
import subprocess
import sys
import types
import urllib.error

import numpy as np
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
        | {"PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    ).stdout.split()
    assert printed == ["3", *(f"/device:CPU:{n}" for n in range(3))]


class _Tpu(tf.distribute.TPUStrategy):
    """A TPU with the given devices."""

    extended = None

    def __init__(self, *devices):
        self.extended = types.SimpleNamespace(worker_devices=devices)


@pytest.mark.parametrize("own", [None, "python", "stream"])
def test_records_are_read_in_python_unless_the_flag_says_otherwise(own):
    here = _Tpu("/job:localhost/replica:0/task:0/device:TPU:0")
    for strategy in (here, strategies.make_strategy("one_device")):
        found = strategies.choose_input_mode(strategy, own)
        assert found == (own or "python")


def test_the_hosts_of_a_tpu_read_records_without_python():
    hosts = [f"/job:worker/replica:0/task:{n}/device:TPU:0" for n in (0, 1)]
    assert strategies.choose_input_mode(_Tpu(*hosts), None) == "stream"
    assert strategies.choose_input_mode(_Tpu(*hosts), "stream") == "stream"
    with pytest.raises(ValueError, match="--input_mode=python .*mode=stream"):
        strategies.choose_input_mode(_Tpu(*hosts), "python")


# Errors.


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tpu", {}, "needs --tpu"),
        ("mirrored", {"tpu": "local"}, "needs --distribution_strategy=tpu"),
        ("mirrored", {"virtual_devices": 2}, "into 2 devices: TensorFlow alr"),
        ("one_device", {"virtual_devices": 2}, "=mirrored, not one_device"),
        ("multi_worker", {"virtual_devices": 2}, "=mirrored, not multi_worker"),
        ("tpu", {"virtual_devices": 2}, "=mirrored, not tpu"),
    ],
)
def test_strategies_without_their_devices_are_refused(name, options, message):
    tf.constant(1)  # Too late to split the CPU.
    with pytest.raises(ValueError, match=message):
        strategies.make_strategy(name, **options)


def test_a_tensorflow_without_tpu_kernels_is_named_with_its_wheel():
    """The installed wheel has none; nothing is connected."""
    with pytest.raises(ValueError, match="has no TPU kernels") as info:
        strategies.make_strategy("tpu", tpu="local")
    version = tf.__version__
    assert "\n" not in str(info.value)
    assert f"pip install tensorflow-tpu=={version} libtpu==" in str(info.value)
    assert info.value.__cause__ is None


def test_tensorflows_error_for_missing_kernels_is_translated(monkeypatch):
    """As a TPU of another name would raise it, after it was connected."""
    monkeypatch.setattr(strategies, "_has_tpu_kernels", lambda: True)
    with pytest.raises(ValueError, match="has no TPU kernels") as info:
        strategies.make_strategy("tpu", tpu="local")
    assert "'ConfigureDistributedTPU'" in str(info.value.__cause__)


# What tensorflow-tpu 2.20.0 with libtpu 0.0.14 raises.
NO_TPU = (
    "Graph execution error:\n\nDetected at node disconnect_tpu_host/_1 "
    "defined at (most recent call last):\n<stack traces unavailable>\n"
    "RET_CHECK failure (tpu_node_interfaces.cc:432) *platform \n\t [[x]]"
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            tf.errors.InternalError(None, None, NO_TPU),
            "local: RET_CHECK failure (tpu_node_interfaces.cc:432) *",
        ),
        (RuntimeError(), "local: RuntimeError. Give"),
        (
            urllib.error.URLError("Name or service not known"),
            "does not answer (Name or service not known)",
        ),
        (
            urllib.error.HTTPError("http://x", 404, "Not Found", None, None),
            "HTTP Error 404: Not Found. Give",
        ),
    ],
)
def test_a_tpu_that_does_not_start_is_named_by_the_cause(
    monkeypatch, error, words
):
    def initialize(resolver):
        raise error

    monkeypatch.setattr(strategies, "_has_tpu_kernels", lambda: True)
    monkeypatch.setattr(
        tf.tpu.experimental, "initialize_tpu_system", initialize
    )
    with pytest.raises(ValueError, match="^No TPU at --tpu=local: ") as info:
        strategies.make_strategy("tpu", tpu="local")
    message = str(info.value)
    assert words in message and "\n" not in message
    assert message.endswith("or local on a TPU VM.")


def test_an_address_where_nothing_answers_is_named_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = f"127.0.0.1:{server.getsockname()[1]}"
        for name in (f"grpc://{closed}", f"grpc://{answering},grpc://{closed}"):
            with pytest.raises(ValueError, match=f"answers at {closed}. Check"):
                strategies.make_strategy("tpu", tpu=name)
    with pytest.raises(ValueError, match="'10.0.0.2' is not an address"):
        strategies.make_strategy("tpu", tpu="grpc://10.0.0.2")


def test_a_single_process_is_the_chief_and_does_not_wait():
    strategy = strategies.make_strategy("one_device")
    assert strategies.is_chief(strategy)
    assert strategies.num_workers(strategy) == 1
    strategies.barrier(strategy)
    assert strategies.chief_first(strategy, lambda: 5) == 5
    assert strategies.worker_index(strategy) == 0
    assert strategies.of_chief(strategy, lambda: True)
    assert not strategies.of_chief(strategy, lambda: False)
    ones = np.ones(3)
    ((found,),) = strategies.gather_arrays(strategy, [ones])
    assert found is ones


def test_arrays_of_workers_keep_their_bits(monkeypatch):
    strategy = strategies.make_strategy("one_device")
    own = [
        np.array([[-0.0, np.nan], [np.inf, 1e-42]], np.float32),
        np.array([-1, 2**31 - 1], np.int32),
        np.float32(0.1).reshape([]),
    ]
    monkeypatch.setattr(strategies, "num_workers", lambda _: 2)
    monkeypatch.setattr(strategies, "all_gather", lambda _, n: [n, n])
    monkeypatch.setattr(
        strategies, "_all_gather", lambda _, bits: np.stack([bits, bits ^ 1])
    )
    found, others = strategies.gather_arrays(strategy, own)
    for array, expected, other in zip(found, own, others, strict=True):
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        assert array.tobytes() == expected.tobytes()
        assert other.tobytes() != expected.tobytes()
    monkeypatch.setattr(strategies, "all_gather", lambda _, n: [n, n + 1])
    with pytest.raises(ValueError, match="different shapes. Give .* the same"):
        strategies.gather_arrays(strategy, own)


@pytest.mark.parametrize(
    "job, index, expected",
    [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)],
)
def test_workers_are_counted_from_the_chief(monkeypatch, job, index, expected):
    jobs = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs), task_type=job, task_id=index
    )
    strategy = types.SimpleNamespace(cluster_resolver=resolver)
    monkeypatch.setattr(strategies, "num_workers", lambda _: 3)
    assert strategies.worker_index(strategy) == expected
    assert strategies.is_chief(strategy) == (job == "chief")


def test_lost_worker_errors_are_translated(monkeypatch):
    strategy = strategies.make_strategy("one_device")
    message = "Collective ops is aborted by: /job:worker/replica:0/task:1 died"
    lost = tf.errors.InternalError(None, None, message)
    with pytest.raises(tf.errors.InternalError):
        # There is no other worker.
        with strategies.translate_worker_errors(strategy):
            raise lost
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    with pytest.raises(stopping.Stopped, match="0/task:1.; restart") as info:
        with strategies.translate_worker_errors(strategy):
            raise lost
    assert info.value.exit_code == stopping.EXIT_CODE
    with pytest.raises(tf.errors.InternalError, match="unrelated"):
        with strategies.translate_worker_errors(strategy):
            raise tf.errors.InternalError(None, None, "an unrelated error")


def test_only_workers_of_several_linger(monkeypatch):
    strategy = strategies.make_strategy("one_device")
    slept = []
    monkeypatch.setattr(strategies.time, "sleep", slept.append)
    with strategies.translate_worker_errors(strategy):
        pass
    assert not slept
    monkeypatch.setattr(strategies, "num_workers", lambda strategy: 2)
    with pytest.raises(ValueError):
        with strategies.translate_worker_errors(strategy):
            raise ValueError
    assert slept == [strategies._LINGER_SECONDS]
