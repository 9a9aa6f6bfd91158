"""Precision -> one large matrix product, to measure the machine's speed."""

import numpy as np

from benchmarks import work

# Beyond this size neither library gets faster.
SIZE = 2048
FLOPS = 2.0 * SIZE**3


def make(setting: work.Setting, library: str) -> work.Step:
    """Returns the step of a library: a product of two square matrices."""
    values = np.random.default_rng(1).normal(size=(2, SIZE, SIZE))
    by_library = {"tensorflow": _tensorflow, "torch": _torch}
    product = by_library[library](values, setting.precision)
    return work.Step(lambda batch: None, lambda _: product(), 0)


def _tensorflow(values, precision):
    import tensorflow as tf

    # Variables, since a product of constants would be folded.
    a, b = (tf.Variable(tf.constant(x, getattr(tf, precision))) for x in values)
    graph = tf.function(lambda: tf.matmul(a, b), autograph=False)
    return lambda: float(graph()[0, 0])


def _torch(values, precision):
    import torch

    a, b = (torch.tensor(x, dtype=getattr(torch, precision)) for x in values)
    out = torch.empty_like(a)

    def product():
        with torch.inference_mode():
            return float(torch.matmul(a, b, out=out)[0, 0])

    return product
