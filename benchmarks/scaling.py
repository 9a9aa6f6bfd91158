r"""Sizes, lengths, batches -> ms of our training step beside the arithmetic.

    python -m benchmarks.scaling --json=scaling.json

Each cell is the median of a pre-training step, and how many times its floor
that is: the operations of its matrix products by the rate of the machine, which
is measured in turns with the steps. Where cost grows as the work does, the
factor stays or falls from cell to cell; a bend shows as a factor that rises.

A cell is left out, and says so, if its floor is above --max_seconds, or its
weights, slots and activations by arithmetic above --max_gigabytes.
"""

import statistics

from absl import flags, logging

from benchmarks import comparison, settings, turns, work
from benchmarks.peers import products
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

FLAGS = flags.FlagValues()
settings.define_machine_flags(FLAGS)
flags.DEFINE_list(
    "size",
    ["tiny", "mini", "small", "medium", "base", "large"],
    "Of BERT.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "seq_length", ["64", "128", "256", "512"], "Tokens.", flag_values=FLAGS
)
flags.DEFINE_list(
    "batch_size", ["1", "4", "16", "64"], "Rows.", flag_values=FLAGS
)
flags.DEFINE_list(
    "task", ["pretraining"], "pretraining, fine_tuning.", flag_values=FLAGS
)
flags.DEFINE_list(
    "precision", ["bfloat16"], "float32, bfloat16.", flag_values=FLAGS
)
flags.DEFINE_float(
    "max_seconds", 5.0, "Floor of a step to go up to.", flag_values=FLAGS
)
flags.DEFINE_float(
    "max_gigabytes", 10.0, "Memory to go up to.", flag_values=FLAGS
)

# Weight, two slots, gradient, in float32.
_BYTES_A_PARAMETER = 16
_WARM_UP_STEPS = 2


def gigabytes(setting: work.Setting, num_parameters: int) -> float:
    """Returns about how much memory a step takes, by arithmetic.

    Activations by Korthikanti et al. 2022 (arXiv 2205.05198, equation 2):
    S B H (34 + 5 A S / H) bytes a layer in 16 bits, here twice that in float32;
    logits of the masked tokens three times over.
    """
    config = setting.config
    hidden = config["hidden_size"]
    heads = config["num_attention_heads"]
    layer = setting.num_tokens * hidden
    layer *= 34 + 5 * heads * setting.seq_length / hidden
    activations = config["num_hidden_layers"] * layer
    if setting.precision == "float32":
        activations *= 2
    masked = setting.batch_size * setting.num_predictions
    if setting.task == "pretraining":
        activations += 3 * 4 * masked * config["vocab_size"]
    return (_BYTES_A_PARAMETER * num_parameters + activations) / 1e9


def reason_to_leave_out(
    setting: work.Setting, num_parameters: int, rate: float, limits
) -> str:
    """Returns why a cell is too much, or nothing.

    Args:
      setting: of the cell.
      num_parameters: of the model.
      rate: operations a second.
      limits: seconds and gigabytes.
    """
    floor = work.matmul_flops(setting) / rate
    size = gigabytes(setting, num_parameters)
    if floor > limits[0]:
        return f"floor {floor:.2g} s"
    if size > limits[1]:
        return f"{size:.0f} GB"
    return ""


def measure_product(workers) -> float:
    """Returns operations a second of the better library, once."""
    return max(
        products.FLOPS / statistics.median(worker.ask(3)[0])
        for name, worker in workers.items()
        if name in comparison.PRODUCTS
    )


def measure(workers, setting, num_rounds: int, seconds: float) -> dict:
    """Returns ms, floor and their ratio of one cell."""
    ours = workers[comparison.OURS]
    ours.ask([work.random_batch(setting)])
    ours.ask(_WARM_UP_STEPS)
    (once,), _ = ours.ask(1)
    count = turns.steps_a_round(once, seconds)
    steps, factors, floors = [], [], []
    for _ in range(num_rounds):
        rate = measure_product(workers)
        floor = work.matmul_flops(setting) / rate
        step = statistics.median(ours.ask(count)[0])
        steps.append(step)
        floors.append(floor)
        factors.append(step / floor)
    return {
        "ms": 1e3 * statistics.median(steps),
        "floor_ms": 1e3 * statistics.median(floors),
        "factor": statistics.median(factors),
        "factors": factors,
    }


def measure_all(wanted: list[work.Setting]) -> list[dict]:
    """Returns a cell for each setting; all of one size in one process."""
    workers = {
        name: turns.Worker(name, wanted[0])
        for name in (comparison.OURS, *comparison.PRODUCTS)
    }
    limits = (FLAGS.max_seconds, FLAGS.max_gigabytes)
    cells = []
    try:
        _wait(workers)
        num_parameters = workers[comparison.OURS].num_parameters
        for setting in wanted:
            rate = measure_product(workers)
            why = reason_to_leave_out(setting, num_parameters, rate, limits)
            cell = {
                "seq_length": setting.seq_length,
                "batch_size": setting.batch_size,
                "left_out": why,
            }
            if not why:
                cell |= measure(workers, setting, FLAGS.rounds, FLAGS.seconds)
            logging.info("%s", cell)
            cells.append(cell)
    finally:
        for worker in workers.values():
            worker.stop()
    return cells


def _wait(workers):
    """Leaves out a library that is not installed."""
    for name in list(workers):
        try:
            workers[name].wait()
        except RuntimeError:
            if name != "product_torch":
                raise
            workers.pop(name).stop()


def format_table(cells: list[dict]) -> str:
    """Returns a Markdown table: a row a length, a column a batch size."""
    batch_sizes = sorted({cell["batch_size"] for cell in cells})
    by_place = {(c["seq_length"], c["batch_size"]): c for c in cells}
    lines = [
        "| tokens | " + " | ".join(f"batch {b}" for b in batch_sizes) + " |",
        "| --- " * (1 + len(batch_sizes)) + "|",
    ]
    for length in sorted({cell["seq_length"] for cell in cells}):
        row = [by_place[length, b] for b in batch_sizes]
        words = [
            f"({cell['left_out']})"
            if cell["left_out"]
            else f"{cell['ms']:.0f} ms, {cell['factor']:.1f}x"
            for cell in row
        ]
        lines.append(f"| {length} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Times all cells as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    report = {"machine": comparison.machine(["ours"]), "tables": []}
    print(report["machine"])
    tasks = settings.among("task", FLAGS.task, work.TASKS)
    for size in FLAGS.size:
        for precision in FLAGS.precision:
            for task in tasks:
                wanted = settings.combinations(
                    size,
                    [task],
                    settings.numbers("seq_length", FLAGS.seq_length),
                    settings.numbers("batch_size", FLAGS.batch_size),
                    [precision],
                    is_training=True,
                )
                cells = measure_all(wanted)
                title = f"{task.replace('_', '-')} step, {size}, {precision}"
                print(f"\n{title}: ms, times the arithmetic floor")
                print(format_table(cells), flush=True)
                report["tables"].append({"title": title, "cells": cells})
                if FLAGS.json:
                    atomic_files.write_json(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
