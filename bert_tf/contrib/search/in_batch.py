"""All-gather over replicas -> rows of all, and a mask of duplicate texts.

B rows of a replica, R rows of all replicas, S sequence.
"""

import tensorflow as tf


def gathered(own: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns [R, ...] of all replicas for tensors [B, ...] of this one."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return own
    return {name: replica.all_gather(x, axis=0) for name, x in own.items()}


def equal_texts(ids: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Returns [B, R] bool, which texts have the same tokens.

    Args:
      ids: [B, S] int32.
      others: [R, S] int32.
    """
    return tf.reduce_all(ids[:, None] == others[None], axis=-1)
