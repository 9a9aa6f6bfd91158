"""Names -> tf.distribute strategies; distributed batches, chief, barriers."""

import contextlib
import os
import re
import time
import urllib.error
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.training import stopping

_NO_TPU_KERNELS = (
    f"This TensorFlow {tf.__version__} has no TPU kernels; they are in the "
    "wheel tensorflow-tpu of the same version, which replaces the wheel "
    "tensorflow. On a TPU VM: pip uninstall -y tensorflow; pip install "
    f"tensorflow-tpu=={tf.__version__} libtpu==0.0.14"
)
# Lines of TensorFlow's errors that are the same for all causes.
_NO_CAUSE = re.compile("Graph execution error|Detected at node|<stack traces")
# In which the last messages reach the other workers.
_LINGER_SECONDS = 0.5


def split_cpu(num_devices: int) -> None:
    """Splits the host's CPU into logical devices, to test replicas on it.

    Raises:
      ValueError: if TensorFlow has created a tensor before.
    """
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * num_devices
        )
    except RuntimeError as error:
        raise ValueError(
            f"Cannot split the CPU into {num_devices} devices: TensorFlow "
            "already uses it. Split it at the start of a new process."
        ) from error


def local_devices() -> list[str]:
    """Returns this host's GPUs, or its CPU devices if it has none."""
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def make_strategy(
    name: str, virtual_devices: int = 0, tpu: str | None = None
) -> tf.distribute.Strategy:
    """Returns a new strategy.

    Args:
      name: "one_device"; "mirrored", over all local devices; "multi_worker",
        over the devices of all processes in TF_CONFIG; or "tpu".
      virtual_devices: if not 0, number of devices to split the CPU into first.
      tpu: name or grpc:// address of a TPU, or "local" for that of this
        machine.

    Raises:
      ValueError: if the requirements of the strategy are missing.
      stopping.Stopped: if another process has not been started in time.
    """
    if tpu and name != "tpu":
        raise ValueError(
            f"--tpu={tpu} needs --distribution_strategy=tpu, not {name}."
        )
    if virtual_devices and name != "mirrored":
        # Each worker uses only one CPU device.
        raise ValueError(
            f"--virtual_devices={virtual_devices} needs "
            f"--distribution_strategy=mirrored, not {name}."
        )
    if name == "tpu":
        return tf.distribute.TPUStrategy(_connect_tpu(tpu))
    if name == "multi_worker":
        return _multi_worker()
    if virtual_devices:
        split_cpu(virtual_devices)
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(local_devices()[0])
    return tf.distribute.MirroredStrategy(local_devices())


def _multi_worker() -> tf.distribute.Strategy:
    """Returns the strategy of the workers in TF_CONFIG."""
    from bert_tf.training import cluster as cluster_lib  # Of several machines.

    cluster = cluster_lib.read(os.environ.get("TF_CONFIG"))
    logging.info(
        "worker %d of %d, %s",
        cluster.own + 1,
        len(cluster.addresses),
        cluster.addresses[cluster.own],
    )
    if len(cluster.addresses) > 1:
        cluster_lib.wait_for_workers(cluster)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError) as error:
        own, text = cluster.addresses[cluster.own], str(error)
        if "gRPC server" not in text:
            raise
        reason = text.splitlines()[0]
        raise ValueError(cluster_lib.port_error(own, reason)) from error


def _connect_tpu(name: str | None):
    """Returns the cluster resolver of an initialized TPU."""
    if not name:
        raise ValueError(
            "--distribution_strategy=tpu needs --tpu: the name of a TPU, its "
            "grpc:// address, or local on a TPU VM."
        )
    if name == "local" and not _has_tpu_kernels():
        raise ValueError(_NO_TPU_KERNELS)
    if name.startswith("grpc://"):
        _check_addresses(name)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # Any error: the resolver uses the network, the cloud API and the driver.
    except Exception as error:
        if "No OpKernel was registered" in str(error):
            raise ValueError(_NO_TPU_KERNELS) from error
        raise ValueError(
            f"No TPU at --tpu={name}: {_cause(error)}. Give the name of a TPU, "
            "its grpc:// address, or local on a TPU VM."
        ) from error
    return resolver


def _has_tpu_kernels() -> bool:
    """Returns whether this TensorFlow was built for TPUs, used or not."""
    from tensorflow.python.framework import kernels  # There is no public name.

    # TensorFlow rewrites the public ConfigureDistributedTPU, which never has a
    # kernel, to this.
    return bool(
        kernels.get_registered_kernels_for_op("_ConfigureDistributedTPU").kernel
    )


def _check_addresses(name: str) -> None:
    """Raises ValueError if nothing answers; TensorFlow would wait silently."""
    from bert_tf.training import cluster as cluster_lib

    for part in name.split(","):
        address = part.removeprefix("grpc://")
        if not cluster_lib.is_address(address):
            raise ValueError(
                f"--tpu={name}: {address!r} is not an address, host:port, such "
                "as grpc://10.0.0.2:8470."
            )
        if not cluster_lib.answers(address):
            raise ValueError(
                f"No TPU at --tpu={name}: nothing answers at {address}. Check "
                "the address, and that its TPU is running; on a TPU VM give "
                "local."
            )


def _cause(error: Exception) -> str:
    """Returns the line of an error that says what went wrong."""
    has_answered = isinstance(error, urllib.error.HTTPError)
    if isinstance(error, urllib.error.URLError) and not has_answered:
        return (
            "Google Cloud, which knows the names of TPUs, does not answer "
            f"({error.reason}); its machines can ask it"
        )
    lines = filter(None, map(str.strip, str(error).splitlines()))
    lines = [line for line in lines if not _NO_CAUSE.match(line)]
    return (lines or [type(error).__name__])[0].rstrip(".")


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes checkpoints and logs."""
    return worker_index(strategy) == 0


def worker_index(strategy: tf.distribute.Strategy) -> int:
    """Returns the index of this process; that of the chief is 0."""
    resolver = strategy.cluster_resolver
    if num_workers(strategy) == 1 or resolver.task_type == "chief":
        return 0
    return resolver.task_id + ("chief" in resolver.cluster_spec().jobs)


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of processes that train together."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    jobs = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(jobs.get(job, ())) for job in ("chief", "worker"))


def choose_input_mode(
    strategy: tf.distribute.Strategy, input_mode: str | None
) -> str:
    """Returns how records are read: "python" or "stream".

    Args:
      strategy: strategy of the run.
      input_mode: the flag; None for the default.

    Raises:
      ValueError: if Python would have to run on the other hosts of a TPU.
    """
    on_other_hosts = isinstance(strategy, tf.distribute.TPUStrategy) and any(
        # The job of a process that is not connected to others.
        tf.DeviceSpec.from_string(device).job != "localhost"
        for device in strategy.extended.worker_devices
    )
    if on_other_hosts and input_mode == "python":
        raise ValueError(
            "--input_mode=python reads records by Python in this process, but "
            "the hosts of this TPU are others. Use --input_mode=stream, or "
            "omit the flag."
        )
    return input_mode or ("stream" if on_other_hosts else "python")


def distribute_batches(
    strategy: tf.distribute.Strategy,
    make_batches: Callable[..., tf.data.Dataset],
    start_batch: int,
) -> Iterator:
    """Returns an endless iterator over global batches.

    Args:
      strategy: strategy whose replicas share each batch.
      make_batches: (start batch, replicas=, first_replica=, local_replicas=)
        -> endless dataset of the local replicas' parts of each batch.
      start_batch: number of the first batch.
    """
    replicas = strategy.num_replicas_in_sync

    def local_batches(context):
        local = replicas // context.num_input_pipelines
        dataset = make_batches(
            start_batch,
            replicas=replicas,
            first_replica=context.input_pipeline_id * local,
            local_replicas=local,
        )
        # Otherwise workers would tell each other before each batch whether they
        # have one.
        endless = tf.data.experimental.assert_cardinality(
            tf.data.experimental.INFINITE_CARDINALITY
        )
        return dataset.apply(endless)

    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        # A strategy's wrapper would be autotuned regardless of the options:
        # deleting its iterator may take a minute, see `reading.batches`.
        return iter(local_batches(tf.distribute.InputContext()))
    return iter(strategy.distribute_datasets_from_function(local_batches))


def all_gather(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """Returns the values of all processes, once each has called this.

    `value` is that of this process, from 0 to 2^31 - 1.
    """
    if num_workers(strategy) == 1:
        return [value]
    return _all_gather(strategy, np.array(value, np.int32)).tolist()


def _all_gather(strategy, value: np.ndarray) -> np.ndarray:
    """Returns [workers, ...]: the int32 values [...] of all processes."""
    workers = num_workers(strategy)
    local = strategy.num_replicas_in_sync // workers

    @tf.function(autograph=False)
    def gather(value):
        def one():
            replica = tf.distribute.get_replica_context()
            number = replica.replica_id_in_sync_group
            # Sums are the only collective that all strategies support.
            position = tf.one_hot(number // local, workers, dtype=tf.int32)
            position *= tf.cast(number % local == 0, tf.int32)
            position = tf.reshape(position, [-1] + [1] * value.shape.rank)
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, value * position
            )

        return strategy.run(one)

    values = gather(tf.constant(value))
    return strategy.experimental_local_results(values)[0].numpy()


def gather_arrays(
    strategy: tf.distribute.Strategy, arrays: Sequence[np.ndarray]
) -> list[list[np.ndarray]]:
    """Returns the arrays of each process, once each has called this.

    Args:
      strategy: strategy of the run.
      arrays: at least one, float32 or int32; each has the same shape in all
        processes.

    Returns:
      A list for each process, the chief first; equal bit for bit.

    Raises:
      ValueError: in every process, if types, shapes or numbers differ.
    """
    if num_workers(strategy) == 1:
        return [list(arrays)]
    described = str([(array.dtype.name, array.shape) for array in arrays])
    sums = all_gather(strategy, zlib.crc32(described.encode()) >> 1)
    if len(set(sums)) > 1:
        raise ValueError(
            "The workers have results of different shapes. Give all of them "
            "the same flags and the same files."
        )
    # Bits, since a sum of floats would lose the sign of -0.0 and spread a NaN.
    bits = [np.ravel(array).view(np.int32) for array in arrays]
    ends = np.cumsum([len(each) for each in bits])
    return [
        [
            part.view(array.dtype).reshape(array.shape)
            for part, array in zip(
                np.split(row, ends[:-1]), arrays, strict=True
            )
        ]
        for row in _all_gather(strategy, np.concatenate(bits))
    ]


def of_chief(
    strategy: tf.distribute.Strategy, function: Callable[[], bool]
) -> bool:
    """Returns `function()` of the chief, once each process has called this.

    Only the chief calls it: files may appear later, or fail, elsewhere.
    """
    value = is_chief(strategy) and function()
    return bool(all_gather(strategy, int(value))[0])


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until every process has called this."""
    all_gather(strategy, 0)


def chief_first(strategy: tf.distribute.Strategy, function: Callable):
    """Returns `function()`, called first by the chief, then by the others.

    For functions that write files on the first call and only read them later.
    """
    if not is_chief(strategy):
        barrier(strategy)
    result = function()
    if is_chief(strategy):
        barrier(strategy)
    return result


@contextlib.contextmanager
def translate_worker_errors(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Makes errors of lost workers Stopped; then a grace period for the others.

    A worker has its result of a collective operation before the others have
    received all that they need from it. If it ended at once, theirs would fail:
    with several workers it waits for a few seconds at the end.

    Raises:
      stopping.Stopped: if an operation fails because a worker is lost.
    """
    try:
        yield
    except tf.errors.OpError as error:
        # The type of the error depends on where the loss is detected first.
        tasks = re.findall(r"/job:\w+(?:/replica:\d+)?/task:\d+", error.message)
        is_of_others = bool(tasks) and "ollective" in error.message
        if num_workers(strategy) == 1 or not (
            is_of_others or isinstance(error, tf.errors.UnavailableError)
        ):
            raise
        raise stopping.Stopped(
            "because another worker has ended or is unreachable "
            f"({', '.join(sorted(set(tasks)))}); restart all workers with the "
            "same command, which resumes from the last checkpoint"
        ) from error
    finally:
        if num_workers(strategy) > 1:
            time.sleep(_LINGER_SECONDS)
