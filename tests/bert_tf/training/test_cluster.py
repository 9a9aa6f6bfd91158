import errno
import json
import os
import signal
import socket
import threading
import time

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.training import cluster as cluster_lib
from bert_tf.training import stopping, strategies


def tf_config(*workers, index=0, **others):
    task = {"type": "worker", "index": index}
    content = {"cluster": {"worker": list(workers)}, "task": task}
    return json.dumps(content | others)


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "it is not set"),
        ("", "it is empty"),
        ("no JSON", "it is not JSON .*no JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", 'has no object "cluster"'),
        ("null", 'has no object "cluster"'),
        ('{"task": {}}', 'has no object "cluster"'),
        ('{"cluster": {"worker": ["a:1"]}}', 'has no object "task"'),
        (tf_config(cluster=["a:1"]), 'has no object "cluster"'),
        (tf_config(cluster={"worker": "a:1"}), "'a:1', not a list"),
        (tf_config(cluster={"worker": []}), "not a list of addr"),
        (tf_config(cluster={"master": ["a:1"]}), "has 'master'; poss"),
        (tf_config("a:1", cluster={"ps": []}), "has 'ps'; poss"),
        (tf_config(cluster={}), "'worker', which should .* none"),
        (tf_config("a:1", task={"type": "ps", "index": 0}), "'ps', which"),
        (tf_config("a:1", task={"type": ["worker"]}), "which should be one"),
        (tf_config("a:1", task={"type": "worker"}), "is None; .* has 1"),
        (tf_config("a:1", index=1), "is 1; .worker. has 1.* from 0 to 0"),
        (tf_config("a:1", index=-1), "is -1; "),
        (tf_config("a:1", "b:1", index=True), "is True; "),
        (tf_config("a:1", index="x"), "is 'x'; "),
        (tf_config("a:1", "b:2", "a:1"), "a:1 is listed twice"),
        (
            tf_config(cluster={"worker": ["a:1"], "chief": ["a:1"]}),
            "a:1 is listed twice",
        ),
        (tf_config(cluster={"chief": ["b:1", "c:1"]}), "more than one .chief"),
        *(
            (tf_config(name), f"{name!r} is not an address")
            for name in ("a", ":1", "a:0", "a:65536", "a b:1", "grpc://a:1", 7)
        ),
    ],
    ids=lambda text: str(text)[:40],
)
def test_multi_worker_needs_a_valid_tf_config(monkeypatch, text, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    message = f"multi_worker needs .* TF_CONFIG.*{message}"
    with pytest.raises(ValueError, match=message):
        strategies.make_strategy("multi_worker")


@pytest.mark.parametrize(
    ("other", "index", "expected"),
    [
        ({"evaluator": ["c:1"]}, 1, (["a:1", "b:2"], 1)),
        ({"chief": ["[::1]:3"]}, "1", (["[::1]:3", "a:1", "b:2"], 2)),
    ],
)
def test_the_chief_is_the_first_and_an_evaluator_none(other, index, expected):
    cluster = {"worker": ["a:1", "b:2"]} | other
    text = tf_config(cluster=cluster, index=index)
    assert cluster_lib.read(text) == expected


_keys = st.sampled_from(["cluster", "task", "worker", "type", "index"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_keys | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.text()
    | _json.map(json.dumps)
    | st.builds(
        lambda workers, task: json.dumps(
            {"cluster": {"worker": workers}, "task": task}
        ),
        _json | st.lists(st.from_regex("[a:0-9]{0,5}"), max_size=3),
        _json | st.just({"type": "worker", "index": 0}),
    )
)
def test_any_tf_config_is_read_or_rejected(text):
    try:
        cluster = cluster_lib.read(text)
    except ValueError as error:
        assert "TF_CONFIG" in str(error)
    else:
        assert cluster.own < len(cluster.addresses)


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def test_workers_wait_until_all_have_been_started():
    addresses, ended = free_addresses(3), []

    def work(own):
        cluster_lib.wait_for_workers(cluster_lib.Cluster(addresses, own), 30.0)
        # TensorFlow's server opens the port then.
        with socket.create_server(("", int(addresses[own].split(":")[1]))):
            ended.append(own)
            while len(ended) < 3:
                time.sleep(0.01)

    threads = [
        threading.Thread(target=work, args=(n,), daemon=True) for n in range(3)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(30)
    assert sorted(ended) == [0, 1, 2]


def test_a_worker_names_those_that_it_waits_for(monkeypatch, caplog):
    caplog.set_level("INFO", logger="absl")
    addresses = free_addresses(2)
    monkeypatch.setattr(cluster_lib, "_SAY_SECONDS", 0.5)
    monkeypatch.setattr(cluster_lib, "_POLL_SECONDS", 0.05)
    cluster = cluster_lib.Cluster(addresses, 0)
    message = f"{addresses[1]} has not been started in 2.5 s; check the addr"
    with pytest.raises(stopping.Stopped, match=message) as info:
        cluster_lib.wait_for_workers(cluster, 2.5)
    assert info.value.exit_code == 75
    waiting = f"worker {addresses[0]} waits for {addresses[1]}"
    assert 2 <= caplog.messages.count(waiting) <= 5


def test_a_signal_ends_the_waiting():
    cluster = cluster_lib.Cluster(free_addresses(2), 0)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    with pytest.raises(stopping.Stopped, match="by SIGTERM"):
        with stopping.at_once_on_signal():  # As in every script.
            timer.start()
            cluster_lib.wait_for_workers(cluster, 30.0)


def test_a_port_in_use_is_named(monkeypatch):
    addresses = free_addresses(2)
    port = addresses[0].split(":")[1]
    monkeypatch.setenv("TF_CONFIG", tf_config(*addresses))
    message = f"Port {port} of this worker, .*TF_CONFIG.* in use.*another port"
    with socket.create_server(("", int(port))):
        with pytest.raises(ValueError, match=message):
            strategies.make_strategy("multi_worker")

    def fail():
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    # If the port is taken in the meantime.
    name = "MultiWorkerMirroredStrategy"
    monkeypatch.setattr(strategies.tf.distribute, name, fail)
    monkeypatch.setenv("TF_CONFIG", tf_config(addresses[0]))
    with pytest.raises(ValueError, match=f"Port {port} .*Could not start"):
        strategies.make_strategy("multi_worker")


def test_a_port_that_needs_a_privilege_is_not_said_to_be_in_use(monkeypatch):
    def fail(address, **keywords):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(cluster_lib.socket, "create_server", fail)
    message = r"Port 80 .*\(Permission denied\). If another process uses it"
    with pytest.raises(ValueError, match=message):
        cluster_lib.wait_for_workers(
            cluster_lib.Cluster(["a:80", "b:80"], 0), 1
        )


def test_as_many_workers_as_there_are_get_an_answer():
    (address,) = free_addresses(1)
    with cluster_lib._open_port(address, 300):
        assert all(cluster_lib.answers(address) for _ in range(300))
