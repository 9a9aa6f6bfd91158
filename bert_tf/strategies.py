"""Names of strategies -> tf.distribute strategies over this host's devices."""

import tensorflow as tf


def split_cpu(num_devices: int) -> None:
    """Splits the host's CPU into logical devices, to try Mirrored on it.

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
    name: str, virtual_devices: int = 0
) -> tf.distribute.Strategy:
    """Returns a strategy.

    Args:
      name: "one_device", or "mirrored" over all local devices.
      virtual_devices: if not 0, CPU devices to split the host into first.

    Raises:
      ValueError: if no strategy has that name.
    """
    if virtual_devices:
        split_cpu(virtual_devices)
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(local_devices()[0])
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(local_devices())
    raise ValueError(
        f"distribution_strategy={name!r} should be one_device or mirrored."
    )
