r"""Kills at random moments -> whether each run ends as the one never killed.

    python -m tools.kill_report --kills=20

Trains a tiny BERT, with dropout, shuffling over several epochs, accumulation,
a checkpoint and an evaluation every 15 of 120 steps, in processes that are
started as a user would, killed (SIGKILL) and started again with the same
command, until so many kills have been survived and the run has ended. Prints
each kill's moment and a table, and exits with 1 if a single byte differs.
"""

import argparse
import json
import pathlib
import random
import resource
import shutil
import signal
import tempfile
import time

from tests import run_processes

NUM_TRAIN_STEPS = 120
SAVE_STEPS = 15
ALL = {
    "num_train_steps": NUM_TRAIN_STEPS,
    "save_checkpoints_steps": SAVE_STEPS,
    "gradient_accumulation_steps": 2,
}
MIRRORED = {"distribution_strategy": "mirrored", "virtual_devices": 2}
CASES = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "float32, 2 replicas": MIRRORED,
    "bfloat16, 2 replicas": MIRRORED | {"precision": "bfloat16"},
}
WORKERS = "float32, 2 workers"
# In turn: at any time, or where a run spends but a small part of it.
AIMS = ("time", "step", "checkpoint", "evaluation")
MOMENTS = ("start-up", "step", "evaluation", "checkpoint", "end")
# What must be the same, and the start of the names of its files.
PARTS = {
    "weights": "model.safetensors",
    "slots": "optimizer.safetensors",
    "state": "state.json",
    "eval results": "eval_results.json",
    "eval log": "logs/eval",
    "step log": "logs/train",
}


def aim(kind: str, rng: random.Random, output_dir: pathlib.Path, seconds):
    """Returns what to wait for before a kill, and how long after it.

    Args:
      kind: of AIMS.
      rng: draws what is left open.
      output_dir: of the run.
      seconds: that a run takes which nobody kills.
    """
    if kind == "time":
        return (lambda: True), rng.uniform(0.0, seconds)
    begin = max(run_processes.saved_steps(output_dir), default=0)
    files = _log_files(output_dir)
    if kind == "step":
        last = min(begin + rng.randint(1, 3 * SAVE_STEPS), NUM_TRAIN_STEPS - 2)

        def has_come() -> bool:
            is_started = _log_files(output_dir) > files
            return is_started and run_processes.last_step(output_dir) >= last

        return has_come, rng.uniform(0.0, 0.02)
    if kind == "evaluation":  # It comes after a checkpoint.
        last = min(begin + SAVE_STEPS * rng.randint(1, 3), NUM_TRAIN_STEPS)
        return (
            lambda: last in run_processes.saved_steps(output_dir)
        ), rng.uniform(0.0, 0.05)
    seen = run_processes.unfinished(output_dir)
    number = len(seen) + rng.randint(1, 3)

    def is_writing() -> bool:
        if _log_files(output_dir) > files:
            seen.update(run_processes.unfinished(output_dir))
        return len(seen) >= number

    return is_writing, rng.uniform(0.0, 0.01)


def _log_files(output_dir: pathlib.Path) -> int:
    """Number of processes that have come to write a log here."""
    return len(list(output_dir.glob("logs/train/events.*")))


def _evaluated_step(output_dir: pathlib.Path) -> int:
    """The step whose evaluation was the last to be finished; 0 for none."""
    path = output_dir / "logs" / "evaluated.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


def moment(output_dir: pathlib.Path, before: tuple) -> tuple[str, str]:
    """Returns in what a process was killed: of MOMENTS, and in words.

    Args:
      output_dir: of the run.
      before: what `look` returned when it was started.
    """
    files, old, begin = before
    _, new, newest = look(output_dir)
    last = run_processes.last_step(output_dir)
    if writing := new - old:
        step = int(min(writing).removeprefix(".step-").split(".")[0])
        return "checkpoint", f"writing the checkpoint of step {step}"
    if _log_files(output_dir) == files:
        return "start-up", f"starting, to go on from step {begin}"
    if last == newest and _evaluated_step(output_dir) != newest:
        return "evaluation", f"evaluating step {last}, after its checkpoint"
    if newest == NUM_TRAIN_STEPS:
        return "end", "after its last evaluation"
    return "step", f"in step {max(last, newest) + 1}"


def look(output_dir: pathlib.Path) -> tuple[int, set[str], int]:
    """Returns what `moment` compares."""
    return (
        _log_files(output_dir),
        run_processes.unfinished(output_dir),
        max(run_processes.saved_steps(output_dir), default=0),
    )


def kill_once(
    arguments, output_dir, kind, seconds, rng
) -> tuple[str, str] | None:
    """Starts a run and kills it; returns the moment, None if it had ended."""
    before = look(output_dir)
    begin = time.monotonic()
    is_time, delay = aim(kind, rng, output_dir, seconds)
    log = output_dir.with_suffix(".log")
    with run_processes.training(arguments, log) as process:
        process.wait_until(is_time)
        process.wait_until(lambda: False, delay)
        code = process.code()
        if code == 0:
            return None
        if code is not None:
            raise RuntimeError(f"exit code {code}:\n{process.printed()}")
        process.send(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            return None
    kind, words = moment(output_dir, before)
    return kind, f"{words}, {time.monotonic() - begin:.1f} s after its start"


def finish(arguments, output_dir) -> float:
    """Runs to the end; returns how many seconds of a CPU it took."""
    begin = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    log = output_dir.with_suffix(".log")
    with run_processes.training(arguments, log) as process:
        if code := process.wait():
            raise RuntimeError(f"exit code {code}:\n{process.printed()}")
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - begin


def compare(whole: dict[str, bytes], killed: dict[str, bytes]) -> list[str]:
    """Returns the names of the files that differ."""
    return sorted(
        name
        for name in whole.keys() | killed.keys()
        if whole.get(name) != killed.get(name)
    )


def try_case(data, folder, flags, num_kills, rng):
    """Kills one run many times over; returns its moments and what differs."""
    whole, killed = folder / "whole", folder / "killed"
    folder.mkdir()

    def arguments(output_dir):
        return run_processes.training_arguments(data, output_dir, **flags)

    seconds = finish(arguments(whole), whole)
    moments = []
    while len(moments) < num_kills:
        kind = AIMS[len(moments) % len(AIMS)]
        found = kill_once(arguments(killed), killed, kind, seconds, rng)
        if found:
            moments.append(found)
            print(f"  kill {len(moments)}: {found[1]}", flush=True)
        # At its end before all kills: another one, of the same run.
        if not found and len(moments) < num_kills:
            _check(whole, killed)
            shutil.rmtree(killed)
            print("  it ended, as the other one; once more", flush=True)
    finish(arguments(killed), killed)
    results = map(run_processes.results, (whole, killed))
    return [kind for kind, _ in moments], compare(*results)


def _check(whole, killed) -> None:
    results = map(run_processes.results, (whole, killed))
    if names := compare(*results):
        raise RuntimeError(f"{killed} differs from {whole}: {names}")


def try_workers(data, folder, num_kills, rng):
    """Kills one of two worker processes; the other must end by itself.

    Returns:
      Moments, names of files that differ, and the seconds until the other
      worker had ended.
    """
    folder.mkdir()
    ends, moments = [], []

    def start(output_dir):
        arguments = run_processes.training_arguments(data, output_dir, **ALL)
        logs = [output_dir.with_suffix(f".{i}.log") for i in range(2)]
        return run_processes.workers(arguments, logs)

    def run_to_end(output_dir):
        with start(output_dir) as both:
            codes = [process.wait() for process in both]
        if codes != [0, 0]:
            raise RuntimeError(f"exit codes {codes}: {both[0].printed()}")

    whole, killed = folder / "whole", folder / "killed"
    run_to_end(whole)
    while len(moments) < num_kills:
        before = look(killed)
        last = before[2] + rng.randint(1, SAVE_STEPS)
        with start(killed) as both:
            both[0].wait_until(
                lambda last=last, files=before[0]: (
                    _log_files(killed) > files
                    and run_processes.last_step(killed) >= last
                )
            )
            one = rng.randrange(2)
            both[one].kill()
            begin = time.monotonic()
            code = both[1 - one].wait()
            ends.append(time.monotonic() - begin)
            if code != 75:
                text = both[1 - one].printed()
                raise RuntimeError(f"exit code {code}:\n{text}")
        found = moment(killed, before)
        moments.append(found[0])
        print(
            f"  kill {len(moments)}: worker {one} {found[1]}; the other stopped"
            f" after {ends[-1]:.1f} s, exit code {code}",
            flush=True,
        )
    run_to_end(killed)
    results = map(run_processes.results, (whole, killed))
    return moments, compare(*results), ends


def row(name: str, moments: list[str], different: list[str]) -> list[str]:
    """Returns the cells of one case."""
    cells = [name, str(len(moments))]
    cells += [str(moments.count(kind)) for kind in MOMENTS]
    for part in PARTS.values():
        is_equal = not any(part in name for name in different)
        cells.append("equal" if is_equal else "DIFFER")
    return cells


def show(rows: list[list[str]]) -> None:
    """Prints a table as docs/results.md has it."""
    heads = ["Run", "Kills", *MOMENTS, *PARTS]
    for cells in (heads, ["---"] * len(heads), *rows):
        print("|", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Runs the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="of each run")
    parser.add_argument("--worker_kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", default=";".join([*CASES, WORKERS]))
    flags = parser.parse_args()
    run_processes.end_with_us()
    rows, is_equal = [], True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        run_processes.make_data(data, dupe_factor=30, hidden_size=16)
        for place, case in enumerate(flags.runs.split(";")):
            rng = random.Random(f"{flags.seed} {case}")
            print(case, flush=True)
            where = folder / str(place)
            if case == WORKERS:
                moments, different, _ = try_workers(
                    data, where, flags.worker_kills, rng
                )
            else:
                moments, different = try_case(
                    data, where, ALL | CASES[case], flags.kills, rng
                )
            print("  differ:", ", ".join(different) or "no file", flush=True)
            rows.append(row(case, moments, different))
            is_equal &= not different
        show(rows)
    raise SystemExit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
