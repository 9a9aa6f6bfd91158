"""Names -> tf.distribute strategies, their batches, chief and barriers.

TensorFlow tells the worker processes of one training apart by the variable
TF_CONFIG, which each of them has in its environment:

    {"cluster": {"worker": ["host0:2222", "host1:2222"]},
     "task": {"type": "worker", "index": 0}}
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

from bert_tf.training import stopping

NAMES = ("one_device", "mirrored", "multi_worker", "tpu")


def split_cpu(num_devices: int) -> None:
    """Splits the host's CPU into logical devices, to try replicas on it.

    Must run before TensorFlow has placed its first tensor.

    Raises:
      ValueError: if it is too late for that.
    """
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * num_devices
        )
    except RuntimeError as error:
        raise ValueError(
            f"Cannot split the CPU into {num_devices} devices any more, since "
            "TensorFlow has started to use it. Do so in a fresh process."
        ) from error


def local_devices() -> list[str]:
    """Returns this host's GPUs, or its CPU devices where it has none."""
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def make_strategy(
    name: str, virtual_devices: int = 0, tpu: str | None = None
) -> tf.distribute.Strategy:
    """Returns a strategy.

    Args:
      name: "one_device"; "mirrored" over all local devices; "multi_worker"
        over those of all processes that TF_CONFIG names; or "tpu".
      virtual_devices: if not 0, CPU devices to split the host into first.
      tpu: name or grpc:// address of a TPU, or "local" for that of this
        machine.

    Raises:
      ValueError: if no strategy has that name, or what it needs is missing.
    """
    if name not in NAMES:
        raise ValueError(
            f"distribution_strategy={name!r} should be {', '.join(NAMES)}."
        )
    if tpu and name != "tpu":
        raise ValueError(
            f"--tpu={tpu} needs --distribution_strategy=tpu, not {name}."
        )
    if virtual_devices and name != "mirrored":
        # Workers take one CPU device each, however many there are.
        raise ValueError(
            f"--virtual_devices={virtual_devices} splits the CPU for "
            f"--distribution_strategy=mirrored; {name} has no use for it."
        )
    if name == "tpu":
        return tf.distribute.TPUStrategy(_connect_tpu(tpu))
    if name == "multi_worker":
        _check_tf_config()
    if virtual_devices:
        split_cpu(virtual_devices)
    if name == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(local_devices()[0])
    return tf.distribute.MirroredStrategy(local_devices())


def _check_tf_config() -> None:
    text = os.environ.get("TF_CONFIG")
    example = (
        '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        cluster = json.loads(text or "")
        workers = cluster["cluster"].get("worker", [])
        workers = cluster["cluster"].get("chief", []) + workers
        task = cluster["task"]
        if not cluster["cluster"][task["type"]][int(task["index"])]:
            raise IndexError
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise ValueError(
            "multi_worker needs the variable TF_CONFIG in the environment of "
            f"each process, such as TF_CONFIG='{example}' with the index of "
            f"that process; found {text!r}."
        ) from None
    logging.info(
        "worker %s %s of %d", task["type"], task["index"], len(workers)
    )


def _connect_tpu(name: str | None):
    """Returns the resolver of a TPU that is ready.

    Raises:
      ValueError: if there is none by that name.
    """
    if not name:
        raise ValueError(
            "--distribution_strategy=tpu needs --tpu: the name of a TPU, its "
            "grpc:// address, or local on a TPU VM."
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # Of all kinds: the resolver asks the network, the cloud and the driver.
    except Exception as error:
        raise ValueError(
            f"No TPU at --tpu={name}: {str(error).splitlines()[0]}. Give the "
            "name of a TPU, its grpc:// address, or local on a TPU VM."
        ) from error
    return resolver


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes checkpoints and logs."""
    resolver = strategy.cluster_resolver
    if num_workers(strategy) == 1:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_type == "worker" and resolver.task_id == 0


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of processes that train together."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    jobs = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(jobs.get(job, ())) for job in ("chief", "worker"))


def distribute_batches(
    strategy: tf.distribute.Strategy,
    make_batches: Callable[..., tf.data.Dataset],
    start_batch: int,
    steps_per_loop: int = 1,
) -> Iterator:
    """Returns an iterator over global batches.

    Args:
      strategy: whose replicas share each batch.
      make_batches: (start batch, replicas=, first_replica=, local_replicas=)
        -> dataset of the local replicas' parts of each batch.
      start_batch: the first one.
      steps_per_loop: if above 1, so many batches at once, along a first
        dimension.
    """
    replicas = strategy.num_replicas_in_sync
    options = tf.data.Options()
    # See `reading.batches`: the end of an iterator may wait for a minute.
    options.autotune.enabled = False

    def local_batches(context):
        local = replicas // context.num_input_pipelines
        dataset = make_batches(
            start_batch,
            replicas=replicas,
            first_replica=context.input_pipeline_id * local,
            local_replicas=local,
        ).with_options(options)
        if steps_per_loop == 1:
            return dataset
        dataset = dataset.batch(steps_per_loop * local, drop_remainder=True)
        regroup = functools.partial(_by_replica, steps_per_loop, local)
        return dataset.map(regroup).unbatch().prefetch(2)

    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        # What a strategy puts around data sets is tuned whatever they say.
        return iter(local_batches(tf.distribute.InputContext()))
    return iter(strategy.distribute_datasets_from_function(local_batches))


def _by_replica(steps: int, local: int, batches):
    """[steps x local, ...] -> [local, steps, ...] of each feature."""
    by_step = tf.nest.map_structure(
        lambda x: tf.reshape(x, [steps, local, *x.shape[1:]]), batches
    )
    return tf.nest.map_structure(
        lambda x: tf.experimental.numpy.swapaxes(x, 0, 1), by_step
    )


def all_gather(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """Returns the values that all processes call it with, once all have.

    Args:
      strategy: of this process.
      value: from 0 to 2^31 - 1.
    """
    if num_workers(strategy) == 1:
        return [value]

    @tf.function(autograph=False)
    def gather(value):
        def one():
            replica = tf.distribute.get_replica_context()
            # A sum is the one collective that every strategy has.
            position = tf.one_hot(
                replica.replica_id_in_sync_group,
                strategy.num_replicas_in_sync,
                dtype=tf.int32,
            )
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, value * position
            )

        return strategy.run(one)

    values = gather(tf.constant(value, tf.int32))
    values = strategy.experimental_local_results(values)[0].numpy().tolist()
    return values[:: len(values) // num_workers(strategy)]


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Returns when every process has come here."""
    all_gather(strategy, 0)


def chief_first(strategy: tf.distribute.Strategy, function: Callable):
    """Returns `function()`, called by the chief and then by all others.

    For what writes files that a second call finds done.
    """
    if is_chief(strategy):
        result = function()
        barrier(strategy)
    else:
        barrier(strategy)
        result = function()
    return result


@contextlib.contextmanager
def clear_errors(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Translates a lost-worker error.

    Raises:
      stopping.Stopped: if a collective operation fails since a worker is gone.
    """
    try:
        yield
    except tf.errors.OpError as error:
        # Of several kinds, by where it is noticed first.
        tasks = re.findall(r"/job:\w+(?:/replica:\d+)?/task:\d+", error.message)
        is_of_others = bool(tasks) and "ollective" in error.message
        if num_workers(strategy) == 1 or not (
            is_of_others or isinstance(error, tf.errors.UnavailableError)
        ):
            raise
        raise stopping.Stopped(
            "since another worker is gone or cannot be reached "
            f"({', '.join(sorted(set(tasks)))}); start all workers again with "
            "the same command, which resumes from the last checkpoint"
        ) from error
