"""Name of an accelerator, step -> bytes and a time, by arithmetic.

No accelerator is needed or asked.
"""

import dataclasses
import math

from bert_tf.contrib.apps.doctor import accelerators
from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import estimates
from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic

# Assumed utilization, as a fraction of the published rate; not measured.
_UTILIZATION = 0.4
_GB = 1e9
# Above this part of the memory, a step may not fit: estimates.memory is within
# 15 % on CPUs, and what the runtime and the compiler reserve is not counted.
_SAFE_PART = 0.85


def calculate(
    name: str,
    config: TrainingConfig,
    step: estimates.Step,
    num_rows: float,
    num_train_steps: int | None,
) -> tuple[list[Diagnostic], list[str]]:
    """Returns diagnostics, and lines with the bytes and a time of a run.

    Args:
      name: a key of `accelerators.ACCELERATORS`.
      config: settings of the run.
      step: batch and model of its global step.
      num_rows: rows of the records.
      num_train_steps: steps of the run, if known.
    """
    chip, num_chips = accelerators.ACCELERATORS[name]
    rate = chip.rates.get(step.precision)
    if rate is None:
        text = (
            f"no rate of {step.precision} products is published for {name}. "
            f"Use --precision={next(iter(chip.rates))}."
        )
        return [Diagnostic(ERROR, "accelerator", text)], []
    replicas = num_chips * chip.replicas
    share = replicas * config.gradient_accumulation_steps
    if config.train_batch_size % share:
        text = (
            f"--train_batch_size={config.train_batch_size} is not a multiple "
            f"of {share}: {replicas} replicas of {name} x "
            "--gradient_accumulation_steps="
            f"{config.gradient_accumulation_steps}. Choose a multiple."
        )
        return [Diagnostic(ERROR, "accelerator", text)], []
    own = dataclasses.replace(step, batch_size=step.batch_size // replicas)
    parts = memory(own)
    available = chip.memory / chip.replicas
    chips = f"{num_chips} chip{'s, each' * (num_chips > 1)}"
    lines = [
        f"{name}: {chips} with {_gigabytes(chip.memory)}; replicas: "
        f"{replicas}, each with {own.batch_size} of {step.batch_size} rows of "
        f"{step.max_seq_length} tokens",
        f"arithmetic: {_gigabytes(sum(parts.values()))} of the "
        f"{_gigabytes(available)} of a replica ("
        + ", ".join(f"{n} {_gigabytes(x)}" for n, x in parts.items())
        + ")",
        _time(step, num_chips, rate, num_rows, num_train_steps),
    ]
    return _check_memory(name, sum(parts.values()), available), lines


def memory(step: estimates.Step) -> dict[str, float]:
    """Returns the peak memory of a replica in bytes, by kind.

    As `estimates.memory`, without Python and TensorFlow: they are on the host.
    """
    parts = estimates.memory(step)
    return {name: parts[name] for name in parts if name != "TensorFlow"}


def _check_memory(
    name: str, needed: float, available: float
) -> list[Diagnostic]:
    if needed <= _SAFE_PART * available:
        return []
    text = (
        f"a replica needs {_gigabytes(needed)} of the {_gigabytes(available)} "
        f"that it has on {name}, without what the runtime reserves. Raise "
        "--gradient_accumulation_steps, add --remat, or lower "
        "--train_batch_size."
    )
    return [
        Diagnostic(ERROR if needed > available else WARNING, "memory", text)
    ]


def _time(
    step: estimates.Step,
    num_chips: int,
    rate: float,
    num_rows: float,
    num_train_steps: int | None,
) -> str:
    """Returns a line with the time of the run, or of an epoch.

    Args:
      step: batch and model of the global step.
      num_chips: number of chips.
      rate: peak FLOP/s of a chip.
      num_rows: rows of the records.
      num_train_steps: steps of the run, if known.
    """
    steps = num_rows / step.batch_size
    count, words = steps, f"an epoch is {math.ceil(steps):,} steps"
    if num_train_steps:
        count = num_train_steps
        words = f"--num_train_steps={count} is {count / steps:.2f} epochs"
    flops = count * estimates.products(step)
    seconds = flops / (num_chips * rate * _UTILIZATION)
    share = f"{100 * _UTILIZATION:g} %"
    return (
        f"arithmetic: {words}; {flops:.3g} FLOP / ({num_chips} x "
        f"{rate / 1e12:g} TFLOP/s in {step.precision} x {share}) = "
        f"{estimates.duration(seconds)}; {share} of the published rate is "
        "assumed, nothing is measured"
    )


def _gigabytes(size: float) -> str:
    return f"{size / _GB:.1f} GB"
