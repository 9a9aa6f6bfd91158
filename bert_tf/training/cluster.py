"""TF_CONFIG -> the cluster of a run's workers, once all have been started.

Each worker process of a run has this environment variable, which tells
TensorFlow the addresses of all workers and which one it is:

    {"cluster": {"worker": ["host0:2222", "host1:2222"]},
     "task": {"type": "worker", "index": 0}}
"""

import json
import re
import socket
import time
from typing import NamedTuple

from absl import logging

from bert_tf.training import stopping

_TF_CONFIG = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)
# TensorFlow's jobs that train. It ignores an evaluator, but waits for a ps.
_JOBS = ("chief", "worker")
_SAY_SECONDS = 10.0
_POLL_SECONDS = 0.5


class Cluster(NamedTuple):
    """The worker processes of a run, from TF_CONFIG.

    Attributes:
      addresses: host:port of each worker, the chief first.
      own: index of this process in `addresses`.
    """

    addresses: list[str]
    own: int


def read(text: str | None) -> Cluster:
    """Returns the cluster that TF_CONFIG describes.

    Args:
      text: value of the environment variable; None if it is not set.

    Raises:
      ValueError: if it is not the JSON of a cluster with this process in it.
    """
    try:
        return _parse(text)
    except ValueError as error:
        raise ValueError(
            "multi_worker needs the environment variable TF_CONFIG in each "
            f"process, such as TF_CONFIG='{_TF_CONFIG}' with the index of that "
            f"process; here {error}."
        ) from None


def _parse(text: str | None) -> Cluster:
    if not text:
        raise ValueError("it is not set" if text is None else "it is empty")
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error}): {text[:80]!r}") from None
    for name in ("cluster", "task"):
        if not isinstance(config, dict) or not isinstance(
            config.get(name), dict
        ):
            raise ValueError(f'it has no object "{name}": {text[:80]!r}')
    jobs, task = config["cluster"], config["task"]
    jobs.pop("evaluator", None)
    for job, addresses in jobs.items():
        if job not in _JOBS:
            raise ValueError(
                f'"cluster" has {job!r}; possible are {", ".join(_JOBS)}'
            )
        if not isinstance(addresses, list) or not addresses:
            raise ValueError(
                f'"{job}" of "cluster" is {addresses!r}, not a list of '
                "addresses"
            )
        for address in addresses:
            if not isinstance(address, str) or not is_address(address):
                raise ValueError(
                    f"{address!r} is not an address, host:port, with a port "
                    "from 1 to 65535"
                )
    if len(jobs.get("chief", ())) > 1:
        raise ValueError('"cluster" has more than one "chief"')
    listed = [a for job in _JOBS for a in jobs.get(job, ())]
    for address in listed:
        if listed.count(address) > 1:
            raise ValueError(f"{address} is listed twice")
    job, index = task.get("type"), task.get("index")
    if not isinstance(job, str) or job not in jobs:
        raise ValueError(
            f'"type" of "task" is {job!r}, which should be one of '
            f'"cluster": {", ".join(jobs) or "none"}'
        )
    # In Python, but not in JSON, true is 1. TensorFlow also accepts "0".
    if isinstance(index, str) and index.isdecimal() and len(index) < 9:
        index = int(index)
    count = len(jobs[job])
    is_index = isinstance(index, int) and not isinstance(index, bool)
    if not is_index or not 0 <= index < count:
        raise ValueError(
            f'"index" of "task" is {index!r}; "{job}" has {count}, so it '
            f"should be from 0 to {count - 1}"
        )
    return Cluster(listed, listed.index(jobs[job][index]))


def is_address(text: str) -> bool:
    """Returns whether a text is host:port."""
    host, _, port = text.rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
    return bool(host) and is_port and not re.search(r"[\s/\x00-\x1f]", host)


def wait_for_workers(cluster: Cluster, timeout: float = 300.0) -> None:
    """Waits until all other workers have been started.

    TensorFlow would wait for them silently, and ignore signals.

    Args:
      cluster: the workers.
      timeout: seconds after which to give up: a machine may start minutes
        after another.

    Raises:
      ValueError: if the port of this worker cannot be opened.
      stopping.Stopped: if a worker has not been started in time.
    """
    own = cluster.addresses[cluster.own]
    missing = [a for a in cluster.addresses if a != own]
    started = said = time.monotonic()
    # The others also wait: until TensorFlow's server starts, answer them here.
    with _open_port(own, len(cluster.addresses)):
        while True:
            missing = [a for a in missing if not answers(a)]
            now = time.monotonic()
            if not missing:
                return
            names = ", ".join(missing)
            if now - started >= timeout:
                raise stopping.Stopped(
                    f"because {names} has not been started in {timeout:g} s; "
                    "check the addresses in TF_CONFIG, and "
                    "start all workers with the same command"
                )
            if now - said >= _SAY_SECONDS:
                logging.info("worker %s waits for %s", own, names)
                said = now
            time.sleep(min(_POLL_SECONDS, timeout))


def _open_port(address: str, num_workers: int) -> socket.socket:
    """Returns a socket that answers all workers at the port of an address."""
    port = int(address.rpartition(":")[2])
    family = {}
    if address.startswith("["):
        family = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    try:
        # All interfaces, as TensorFlow does.
        return socket.create_server(("", port), backlog=num_workers, **family)
    except OSError as error:
        raise ValueError(port_error(address, error.strerror)) from error


def port_error(address: str, reason: str) -> str:
    """Returns the message for a port of this worker that cannot be opened."""
    return (
        f"Port {address.rpartition(':')[2]} of this worker, {address} in "
        f"TF_CONFIG, cannot be opened ({reason}). If another process uses it, "
        "perhaps a worker with the same index, end that one; otherwise give "
        "all workers a TF_CONFIG with another port."
    )


def answers(address: str) -> bool:
    """Returns whether a process listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        host = host.removeprefix("[").removesuffix("]")
        socket.create_connection((host, int(port)), _POLL_SECONDS).close()
    except (OSError, UnicodeError):  # Also names that do not resolve yet.
        return False
    return True
