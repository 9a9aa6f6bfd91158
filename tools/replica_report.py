r"""Training on 1 to 4 replicas and 2 workers -> differences of the losses.

    python -m tools.replica_report

Trains BERT-tiny (2 layers, hidden size 128) for some steps on real text, with
dropout. Each step has the same batch of 16 examples, split over the replicas,
in one or two micro-batches. Prints the largest relative difference of values
from those on one replica, and exits with status 1 if the loss differs by more
than 1e-5.
"""

import argparse
import pathlib
import tempfile

from tests import run_processes

GOAL = 1e-5
# Case -> worker processes, devices per worker. If there are several workers,
# TensorFlow uses only one CPU device of each.
CASES = {
    "1 device": (1, 1),
    "mirrored, 2 devices": (1, 2),
    "mirrored, 4 devices": (1, 4),
    "2 workers": (2, 1),
}
NAMES = ("loss", "masked_lm_loss", "gradient_norm")


def train(data, output_dir, num_workers, num_devices, **flags) -> list[dict]:
    """Trains; returns the logged values of each step."""
    if num_devices > 1:
        flags["virtual_devices"] = num_devices
        flags["distribution_strategy"] = "mirrored"
    arguments = run_processes.training_arguments(
        data,
        output_dir,
        **{
            "train_batch_size": 16,
            "do_eval": False,
        }
        | flags,
    )
    logs = [output_dir.with_suffix(f".{i}.log") for i in range(num_workers)]
    with run_processes.workers(arguments, logs) as processes:
        codes = [process.wait() for process in processes]
    if any(codes):
        text = "\n".join(process.printed() for process in processes)
        raise RuntimeError(f"exit codes {codes}:\n{text}")
    return run_processes.log_lines(output_dir)


def largest_difference(
    lines: list[dict], expected: list[dict], name: str
) -> float:
    """Returns the largest relative difference of a value over all steps.

    Raises:
      ValueError: if the runs logged different steps.
    """
    pairs = list(zip(lines, expected, strict=True))
    if any(a["step"] != b["step"] for a, b in pairs):
        raise ValueError("The runs logged different steps.")
    return max(abs(a[name] / b[name] - 1) for a, b in pairs)


def main() -> None:
    """Runs all cases and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--num_train_steps",
        type=int,
        default=50,
        help="optimizer steps of each run",
    )
    parser.add_argument(
        "--precision", default="float32", help="float32, bfloat16 or float16"
    )
    parser.add_argument(
        "--learning_rate", type=float, default=1e-4, help="peak learning rate"
    )
    flags = parser.parse_args()
    run_processes.end_with_us()
    rows, expected = [], None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        run_processes.make_data(data, dupe_factor=30, hidden_size=128)
        for num_parts in (1, 2):
            for case, (workers, devices) in CASES.items():
                lines = train(
                    data,
                    folder / f"run{len(rows)}",
                    workers,
                    devices,
                    gradient_accumulation_steps=num_parts,
                    num_train_steps=flags.num_train_steps,
                    precision=flags.precision,
                    learning_rate=flags.learning_rate,
                )
                expected = expected or lines
                differences = [
                    largest_difference(lines, expected, name) for name in NAMES
                ]
                rows.append((case, num_parts, lines[-1]["loss"], differences))
                print(rows[-1], flush=True)
    print(
        f"\n{flags.precision}, {flags.num_train_steps} steps, batch 16, "
        "dropout 0.1"
    )
    print("| Replicas | Micro-batches | Last loss |", " | ".join(NAMES), "|")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case, num_parts, loss, differences in rows:
        cells = " | ".join(f"{x:.1e}" for x in differences)
        print(f"| {case} | {num_parts} | {loss:.6f} | {cells} |")
    raise SystemExit(0 if max(row[3][0] for row in rows) <= GOAL else 1)


if __name__ == "__main__":
    main()
