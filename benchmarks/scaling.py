r"""Model sizes, lengths, batch sizes -> ms of our training step and its floor.

    python -m benchmarks.scaling --json=scaling.json

Each cell has the median time of a pre-training step, and its ratio to a floor:
the operations of its matrix products divided by the machine's rate, which is
measured in every round. If the cost is proportional to the work, the ratio is
constant or falls from cell to cell; a rising ratio shows worse scaling.

A cell is skipped, with the reason, if its floor exceeds --max_seconds, or if
its estimated weights, slots and activations exceed --max_gigabytes.
"""

import statistics

from absl import flags, logging

from benchmarks import comparison, settings, turns, work
from benchmarks.peers import products
from run_scripts.flags import common_flags
from tfrecords.io import json_files

FLAGS = flags.FlagValues()
settings.define_machine_flags(FLAGS)
flags.DEFINE_list(
    "size",
    ["tiny", "mini", "small", "medium", "base", "large"],
    "Model sizes.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "seq_length",
    ["64", "128", "256", "512"],
    "Tokens in a row.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "batch_size", ["1", "4", "16", "64"], "Rows in a batch.", flag_values=FLAGS
)
flags.DEFINE_list(
    "task", ["pretraining"], "pretraining, fine_tuning.", flag_values=FLAGS
)
flags.DEFINE_list(
    "precision", ["bfloat16"], "float32, bfloat16.", flag_values=FLAGS
)
flags.DEFINE_float(
    "max_seconds", 5.0, "Maximum floor of a step.", flag_values=FLAGS
)
flags.DEFINE_float(
    "max_gigabytes", 10.0, "Maximum estimated memory.", flag_values=FLAGS
)

# Weight, two slots and gradient, in float32.
_BYTES_A_PARAMETER = 16
_WARM_UP_STEPS = 2


def gigabytes(setting: work.Setting, num_parameters: int) -> float:
    """Returns an estimate of the memory of a step.

    Activations are from Korthikanti et al. 2022 (arXiv 2205.05198, equation 2):
    S B H (34 + 5 A S / H) bytes per layer in 16 bits, twice that in float32.
    Logits of the masked tokens count three times, in float32.
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
    """Returns why a cell is skipped, "" if it is not.

    Args:
      setting: setting of the cell.
      num_parameters: number of parameters of the model.
      rate: FLOP/s of the machine.
      limits: maximum seconds and gigabytes.
    """
    floor = work.matmul_flops(setting) / rate
    size = gigabytes(setting, num_parameters)
    if floor > limits[0]:
        return f"floor {floor:.2g} s"
    if size > limits[1]:
        return f"{size:.0f} GB"
    return ""


def measure_product(workers) -> float:
    """Measures FLOP/s of the faster library once."""
    return max(
        products.FLOPS / statistics.median(worker.ask(3)[0])
        for name, worker in workers.items()
        if name in comparison.PRODUCTS
    )


def measure(workers, setting, num_rounds: int, seconds: float) -> dict:
    """Returns the ms, the floor and their ratio for one cell."""
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
    """Returns a cell for each setting of one model size, in one process."""
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
    """Waits until all are ready; removes torch's product if it fails."""
    for name in list(workers):
        try:
            workers[name].wait()
        except RuntimeError:
            if name != "product_torch":
                raise
            workers.pop(name).stop()


def format_table(cells: list[dict]) -> str:
    """Returns a Markdown table: a row per length, a column per batch size."""
    batch_sizes = sorted({cell["batch_size"] for cell in cells})
    by_sizes = {(c["seq_length"], c["batch_size"]): c for c in cells}
    lines = [
        "| tokens | " + " | ".join(f"batch {b}" for b in batch_sizes) + " |",
        "| --- " * (1 + len(batch_sizes)) + "|",
    ]
    for length in sorted({cell["seq_length"] for cell in cells}):
        row = [by_sizes[length, b] for b in batch_sizes]
        words = [
            f"({cell['left_out']})"
            if cell["left_out"]
            else f"{cell['ms']:.0f} ms, {cell['factor']:.1f}x"
            for cell in row
        ]
        lines.append(f"| {length} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Times all cells."""
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
                print(f"\n{title}: ms, ratio to the floor")
                print(format_table(cells), flush=True)
                report["tables"].append({"title": title, "cells": cells})
                if FLAGS.json:
                    json_files.write(FLAGS.json, report)


if __name__ == "__main__":
    common_flags.run(main)
