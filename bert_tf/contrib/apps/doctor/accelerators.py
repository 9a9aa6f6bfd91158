"""Name of an accelerator -> published rates and memory of its chips.

Rates are those of matrix products without sparsity. Sources: the pages v2, v3,
v4, v5e, v5p and v6e of https://cloud.google.com/tpu/docs/, and the data sheets
of NVIDIA's V100 (SXM2, 16 GB), T4, L4, A100 (SXM), H100 (SXM) and H200 (SXM),
in which the rates with sparsity are twice these.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    """Published figures of one chip.

    Attributes:
      rates: precision -> peak FLOP/s of matrix products.
      memory: bytes.
      replicas: TensorFlow devices; its memory is split evenly over them.
    """

    rates: dict[str, float]
    memory: float
    replicas: int = 1


def _tpu(rate: float, memory: float, replicas: int = 1) -> Chip:
    # Without another setting, XLA multiplies float32 matrices on TPUs as
    # bfloat16 ones; no other rate is published. float16 is not listed.
    return Chip({"bfloat16": rate, "float32": rate}, memory, replicas)


# The two cores of v2 and v3 are two devices; those of v4 and v5p are one.
_V2 = _tpu(45e12, 16 * 2**30, 2)
_V3 = _tpu(123e12, 32 * 2**30, 2)
_V4 = _tpu(275e12, 32 * 2**30)
_V5E = _tpu(197e12, 16e9)
_V5P = _tpu(459e12, 95e9)
_V6E = _tpu(918e12, 32e9)
# Tensor cores of V100 and T4 have no bfloat16; those of the others multiply
# float32 as TF32, TensorFlow's default.
_V100 = Chip({"float16": 125e12, "float32": 15.7e12}, 16e9)
_T4 = Chip({"float16": 65e12, "float32": 8.1e12}, 16e9)


def _gpu(half: float, tf32: float, memory: float) -> Chip:
    rates = {"bfloat16": half, "float16": half, "float32": tf32}
    return Chip(rates, memory)


_L4 = _gpu(121e12, 60e12, 24e9)
_A100_40 = _gpu(312e12, 156e12, 40e9)
_A100_80 = _gpu(312e12, 156e12, 80e9)
_H100 = _gpu(989e12, 494e12, 80e9)
_H200 = _gpu(989e12, 494e12, 141e9)

# Name -> chip and number of chips. The number in names of TPUs counts cores for
# v2, v3, v4 and v5p, and chips for v5e and v6e; in names of GPUs, GPUs.
ACCELERATORS = {
    "v2-8": (_V2, 4),
    "v3-8": (_V3, 4),
    "v3-32": (_V3, 16),
    "v4-8": (_V4, 4),
    "v4-32": (_V4, 16),
    "v5e-1": (_V5E, 1),
    "v5e-4": (_V5E, 4),
    "v5e-8": (_V5E, 8),
    "v5e-16": (_V5E, 16),
    "v5p-8": (_V5P, 4),
    "v6e-1": (_V6E, 1),
    "v6e-4": (_V6E, 4),
    "v6e-8": (_V6E, 8),
    "v100": (_V100, 1),
    "t4": (_T4, 1),
    "l4": (_L4, 1),
    "a100-40gb": (_A100_40, 1),
    "a100-80gb": (_A100_80, 1),
    "a100-80gb-8": (_A100_80, 8),
    "h100": (_H100, 1),
    "h100-8": (_H100, 8),
    "h200": (_H200, 1),
}
NAMES = tuple(ACCELERATORS)
