r"""Runs killed at random moments -> table: are their files byte-identical?

    python -m tools.kill_report --kills=20

Trains a tiny BERT for 120 steps with dropout, shuffling over several epochs and
gradient accumulation, saving a checkpoint and evaluating every 15 steps. The
process is killed (SIGKILL) and started again with the same command, `--kills`
times, until the run ends. Three fine-tuning runs are killed likewise. Prints
the moment of each kill and a table that compares all files with those of an
uninterrupted run; exits with 1 if any byte differs.
"""

import argparse
import functools
import json
import pathlib
import random
import resource
import shutil
import signal
import tempfile
import time

from tests import planted_ranking, run_processes

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
# Case -> script and flags of a run on the table of `write_table`.
FINE_TUNED = {
    "vectors": ("run_embeddings", ["--text_column=query,passage"]),
    "several labels": (
        "run_glue",
        ["--text_column=passage", "--label_column=topic", "--multi_label"],
    ),
    "few examples": (
        "run_few_shot",
        ["--text_column=passage", "--label_column=query"],
    ),
}
WORKERS = "float32, 2 workers"
# Targets of kills, in turn: a random time, or one of the short phases.
TARGETS = ("time", "step", "checkpoint", "evaluation")
MOMENTS = ("start-up", "step", "evaluation", "checkpoint", "end")
# Column of the table -> part of the names of its files.
PARTS = {
    "weights": "model.safetensors",
    "slots": "optimizer.safetensors",
    "state": "state.json",
    "eval results": "eval_results.json",
    "eval log": "logs/eval",
    "step log": "logs/train",
}


def kill_condition(
    target: str, rng: random.Random, output_dir: pathlib.Path, seconds: float
):
    """Returns the condition to wait for before a kill, and a delay after it.

    Args:
      target: one of TARGETS.
      rng: draws the step or the delay.
      output_dir: folder of the run.
      seconds: duration of a run without kills.
    """
    if target == "time":
        return (lambda: True), rng.uniform(0.0, seconds)
    begin = max(run_processes.saved_steps(output_dir), default=0)
    files = _log_files(output_dir)
    if target == "step":
        last = min(begin + rng.randint(1, 3 * SAVE_STEPS), NUM_TRAIN_STEPS - 2)

        def has_come() -> bool:
            is_started = _log_files(output_dir) > files
            return is_started and run_processes.last_step(output_dir) >= last

        return has_come, rng.uniform(0.0, 0.02)
    if target == "evaluation":  # It follows a checkpoint.
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
    """Returns the number of processes that have opened a log in the run."""
    return len(list(output_dir.glob("logs/train/events.*")))


def _evaluated_step(output_dir: pathlib.Path) -> int:
    """Returns the step of the last finished evaluation; 0 for none."""
    path = output_dir / "logs" / "evaluated.json"
    if not path.exists():  # Fine-tuning has a line for each.
        return run_processes.last_step(output_dir, "dev")
    return json.loads(path.read_text())["step"]


def find_moment(output_dir: pathlib.Path, before: tuple) -> tuple[str, str]:
    """Returns when a process was killed: one of MOMENTS, and a description.

    Args:
      output_dir: folder of the run.
      before: `run_state` at the start of the process.
    """
    files, old, begin = before
    _, new, newest = run_state(output_dir)
    last = run_processes.last_step(output_dir)
    if writing := new - old:
        step = int(min(writing).removeprefix(".step-").split(".")[0])
        return "checkpoint", f"writing the checkpoint of step {step}"
    if _log_files(output_dir) == files:
        return "start-up", f"starting, to resume from step {begin}"
    if last == newest and _evaluated_step(output_dir) != newest:
        return "evaluation", f"evaluating step {last}, after its checkpoint"
    if newest == NUM_TRAIN_STEPS:
        return "end", "after its last evaluation"
    return "step", f"in step {max(last, newest) + 1}"


def run_state(output_dir: pathlib.Path) -> tuple[int, set[str], int]:
    """Returns number of logs, unfinished checkpoints, newest saved step."""
    return (
        _log_files(output_dir),
        run_processes.unfinished(output_dir),
        max(run_processes.saved_steps(output_dir), default=0),
    )


def kill_once(
    arguments, script, output_dir, target, seconds, rng
) -> tuple[str, str] | None:
    """Starts a run and kills it; returns the moment; None if it ended first."""
    before = run_state(output_dir)
    begin = time.monotonic()
    has_come, delay = kill_condition(target, rng, output_dir, seconds)
    log = output_dir.with_suffix(".log")
    with run_processes.training(arguments, log, script=script) as process:
        process.wait_until(has_come)
        process.wait_until(lambda: False, delay)
        code = process.code()
        if code == 0:
            return None
        if code is not None:
            raise RuntimeError(f"exit code {code}:\n{process.printed()}")
        process.send(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            return None
    moment, words = find_moment(output_dir, before)
    return moment, f"{words}, {time.monotonic() - begin:.1f} s after its start"


def finish(arguments, script, output_dir) -> float:
    """Runs to the end; returns the CPU seconds used."""
    begin = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    log = output_dir.with_suffix(".log")
    with run_processes.training(arguments, log, script=script) as process:
        if code := process.wait():
            raise RuntimeError(f"exit code {code}:\n{process.printed()}")
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - begin


def compare(reference: pathlib.Path, killed: pathlib.Path) -> list[str]:
    """Returns the names of the files that differ between two runs."""
    first, second = map(run_processes.results, (reference, killed))
    return sorted(
        name
        for name in first.keys() | second.keys()
        if first.get(name) != second.get(name)
    )


def write_table(path: pathlib.Path, num_queries: int) -> None:
    """Writes relevant rows of `planted_ranking`; every third has two topics."""
    nouns, table = planted_ranking.NOUNS, []
    for row in planted_ranking.rows(num_queries, num_queries):
        if row[2] == "1":
            other = nouns[nouns.index(row[0]) - 1]
            topics = row[0] if len(table) % 3 else f"{row[0]},{other}"
            table.append((*row[:3], topics))
    planted_ranking.write(path, table)


def fine_tuning_arguments(
    data: pathlib.Path, output_dir: pathlib.Path, flags: list[str]
) -> list[str]:
    """Returns flags of a run of `NUM_TRAIN_STEPS` on `write_table`."""
    values = {
        "train_file": data / "train.csv",
        "dev_file": data / "dev.csv",
        "bert_config_file": data / "bert_config.json",
        "vocab_file": run_processes.VOCAB_FILE,
        "max_seq_length": 16,
        "train_batch_size": 8,
        "num_train_epochs": 10,
        "learning_rate": 1e-3,
        "save_checkpoints_steps": SAVE_STEPS,
        "log_every_steps": 1,
        "output_dir": output_dir,
    }
    words = [f"--{name}={value}" for name, value in values.items()]
    return ["--do_train", "--do_eval", *words, *flags]


def command_of(case: str, data: pathlib.Path):
    """Returns a function, folder of a run -> its flags, and its script."""
    if case in CASES:
        flags, arguments = ALL | CASES[case], run_processes.training_arguments
        script = run_processes.SCRIPT
        return functools.partial(arguments, data, **flags), script
    script, own = FINE_TUNED[case]
    arguments = functools.partial(fine_tuning_arguments, data, flags=own)
    return arguments, f"run_scripts.{script}"


def try_case(arguments, script, folder, num_kills, rng):
    """Kills a run `num_kills` times; returns moments and differing files.

    Args:
      arguments: folder of a run -> its flags.
      script: module of its script.
      folder: is made, for the runs.
      num_kills: number of kills.
      rng: draws the moments.
    """
    reference, killed = folder / "reference", folder / "killed"
    folder.mkdir()
    seconds = finish(arguments(reference), script, reference)
    moments = []
    while len(moments) < num_kills:
        target = TARGETS[len(moments) % len(TARGETS)]
        kill = kill_once(
            *(arguments(killed), script, killed, target, seconds, rng)
        )
        if kill:
            moment, words = kill
            moments.append(moment)
            print(f"  kill {len(moments)}: {words}", flush=True)
        else:  # It ended before all kills: start the same run again.
            if names := compare(reference, killed):
                raise RuntimeError(
                    f"{killed} differs from {reference}: {names}"
                )
            shutil.rmtree(killed)
            print("  ended with equal files; starting over", flush=True)
    finish(arguments(killed), script, killed)
    return moments, compare(reference, killed)


def try_workers(data, folder, num_kills, rng):
    """Kills one of two worker processes; the other must then exit.

    Returns:
      Moments of the kills, and names of files that differ.
    """
    folder.mkdir()
    moments = []

    def start(output_dir):
        arguments = run_processes.training_arguments(data, output_dir, **ALL)
        logs = [output_dir.with_suffix(f".{i}.log") for i in range(2)]
        return run_processes.workers(arguments, logs)

    def run_to_end(output_dir):
        with start(output_dir) as both:
            codes = [process.wait() for process in both]
        if codes != [0, 0]:
            raise RuntimeError(f"exit codes {codes}: {both[0].printed()}")

    reference, killed = folder / "reference", folder / "killed"
    run_to_end(reference)
    while len(moments) < num_kills:
        before = run_state(killed)
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
            seconds = time.monotonic() - begin
            if code != 75:
                text = both[1 - one].printed()
                raise RuntimeError(f"exit code {code}:\n{text}")
        moment, words = find_moment(killed, before)
        moments.append(moment)
        print(
            f"  kill {len(moments)}: worker {one} {words}; the other stopped"
            f" after {seconds:.1f} s, exit code {code}",
            flush=True,
        )
    run_to_end(killed)
    return moments, compare(reference, killed)


def row(name: str, moments: list[str], different: list[str]) -> list[str]:
    """Returns the table row of one case."""
    cells = [name, str(len(moments))]
    cells += [str(moments.count(moment)) for moment in MOMENTS]
    for part in PARTS.values():
        is_equal = not any(part in path for path in different)
        cells.append("equal" if is_equal else "DIFFER")
    others = [x for x in different if not any(y in x for y in PARTS.values())]
    return [*cells, "DIFFER" if others else "equal"]


def show(rows: list[list[str]]) -> None:
    """Prints a Markdown table."""
    heads = ["Run", "Kills", *MOMENTS, *PARTS, "other files"]
    for cells in (heads, ["---"] * len(heads), *rows):
        print("|", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Runs the cases given on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--kills", type=int, default=20, help="number of kills of each run")
    add(
        "--worker_kills",
        type=int,
        default=4,
        help="number of kills of a worker",
    )
    add("--seed", type=int, default=1, help="seed of the random moments")
    known = (*CASES, *FINE_TUNED, WORKERS)
    runs = ";".join(known)
    add(
        "--runs",
        default=runs,
        help="cases, separated by semicolons: %(default)s",
    )
    flags = parser.parse_args()
    cases = flags.runs.split(";")
    for case in cases:
        if case not in known:
            parser.error(f"--runs: {case!r} should be one of {runs}")
    run_processes.end_with_us()
    rows, is_equal = [], True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        run_processes.make_data(data, dupe_factor=30, hidden_size=16)
        write_table(data / "train.csv", 96)
        write_table(data / "dev.csv", 40)
        for index, case in enumerate(cases):
            rng = random.Random(f"{flags.seed} {case}")
            print(case, flush=True)
            inner = folder / str(index)
            if case == WORKERS:
                moments, different = try_workers(
                    data, inner, flags.worker_kills, rng
                )
            else:
                moments, different = try_case(
                    *command_of(case, data), inner, flags.kills, rng
                )
            print("  differing:", ", ".join(different) or "no file", flush=True)
            rows.append(row(case, moments, different))
            is_equal &= not different
        show(rows)
    raise SystemExit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
