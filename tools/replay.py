r"""Folder of a run -> its steps repeated, and the first difference.

    python -m tools.replay --run_dir=runs/tiny --num_steps=100

Resumes the run from one of its checkpoints, with the flags in run.flags, in a
hidden folder next to its own. Compares each step's values with the log, and
the weights if the run kept a checkpoint of the last step. Nothing in the run's
own folder changes. Exit status: 0 if bit-equal, 2 if not, 1 for an error.

Other machines, versions and numbers of replicas round differently. The first
differing step is printed, with the largest difference of all steps. --override
changes flags of the run, such as paths of moved files. Those that decide the
weights can change only from the start, since a run cannot resume with others:

    python -m tools.replay --run_dir=runs/tiny --from_step=0 \
      --override=--input_file=moved/train --override=--precision=bfloat16
"""

import contextlib
import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from absl import flags, logging

from bert_tf.checkpoint import checksums, model_folders
from bert_tf.training import run_folder, stopping
from bert_tf.workflows import run_history
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files
from tfrecords.text import vocab

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "run_dir", None, "The --output_dir of a training run.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "from_step",
    None,
    "Step of the checkpoint to resume from; 0 for the start of the run. "
    "Default: the oldest one whose next step is in the log, otherwise 0.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_steps",
    None,
    "Number of steps to repeat. Default: to the end of the log, at most 100.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_multi_string(
    "override",
    [],
    "Flag of the run to change, such as --input_file=moved/train; may be "
    "given several times.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "run_dir")

MOST_STEPS = 100
EXIT_CODE_DIFFERS = 2


@dataclasses.dataclass(frozen=True)
class Replay:
    """The steps to repeat and their run; the fields are the flags.

    Attributes:
      run_dir: output folder of a training run.
      from_step: step of the checkpoint to resume from; None for the default.
      num_steps: optimizer steps to repeat; None for the default.
      override: flags of the run to change, such as `--input_file=train`.
    """

    run_dir: str
    from_step: int | None
    num_steps: int | None
    override: tuple[str, ...]


def choose_steps(
    replay: Replay, log: Mapping[int, Mapping[str, float]]
) -> tuple[int, int]:
    """Returns the step to start after, and the last step to compare.

    Raises:
      ValueError: if the checkpoint is missing, or steps are missing in the log.
    """
    run_dir, begin = replay.run_dir, replay.from_step
    kept = [0, *run_history.kept_steps(run_dir)]
    if begin is None:
        begin = next((step for step in kept[1:] if step + 1 in log), 0)
    if begin not in kept:
        raise ValueError(
            f"--from_step={begin}: {run_dir} has no checkpoint of that step. "
            f"It has {', '.join(map(str, kept))}, where 0 is the start."
        )
    if replay.num_steps:
        end = begin + replay.num_steps
    else:
        end = max(begin + 1, min(begin + MOST_STEPS, max(log, default=0)))
    missing = next((s for s in range(begin + 1, end + 1) if s not in log), None)
    if missing:
        raise ValueError(
            f"The log of {run_dir} has no line for step {missing}, of steps "
            f"{begin + 1} to {end}. Choose another --from_step or --num_steps."
        )
    return begin, end


def script_flags(
    replay: Replay, folder: str, source: run_history.Source, steps
) -> list[str]:
    """Returns the flags for the run's script to repeat the steps."""
    begin, end = steps
    # Stops after a complete call of steps_per_loop steps, as in the run, and
    # saves a checkpoint only there.
    together = int(source.flags.get("steps_per_loop", 1))
    stop = math.ceil(end / together) * together
    changes = [
        f"--output_dir={folder}",
        f"--stop_at_step={stop}",
        f"--save_checkpoints_steps={1000 * stop}",
        "--keep_checkpoint_max=2",
        f"--log_every_steps={max(1, (stop - begin) // 10)}",
    ]
    off = ["do_eval", "do_predict"]
    if "early_stopping_evaluations" in source.flags:
        off.remove("do_eval")  # It needs evaluations; no checkpoint has one.
    for name in off:
        if name in source.flags or f"no{name}" in source.flags:
            changes.append(f"--no{name}")
    # The model's rules for text, which the flags may not include.
    for step in run_history.kept_steps(replay.run_dir)[-1:]:
        path = os.path.join(
            run_history.checkpoint(replay.run_dir, step), "model.json"
        )
        if os.path.isfile(path):
            rules = vocab.rules_of(json_files.read(path))
            changes += [f"--{name}={value}" for name, value in rules.items()]
    path = os.path.join(replay.run_dir, run_history.FLAGS_FILE)
    return [f"--flagfile={path}", *changes, *replay.override]


def _link_files(source: str, target: str) -> None:
    """Copies a folder, with links instead of files.

    They are hard links where possible: a living run removes old checkpoints.
    """
    for folder, _, names in os.walk(os.path.abspath(source)):
        inside = os.path.relpath(folder, os.path.abspath(source))
        os.makedirs(os.path.join(target, inside), exist_ok=True)
        for name in names:
            path = os.path.join(target, inside, name)
            try:
                os.link(os.path.join(folder, name), path)
            except OSError:
                os.symlink(os.path.join(folder, name), path)


@contextlib.contextmanager
def fresh_folder(run_dir: str, begin: int) -> Iterator[str]:
    """Yields a temporary folder in which the run can resume after a step.

    Raises:
      checksums.DamagedError: if the checkpoint is damaged.
      ValueError: if the run has removed it.
    """
    above = os.path.dirname(os.path.abspath(run_dir))
    with atomic_files.temporary_folder(f"{above}/replay") as folder:
        if begin:
            source = run_history.checkpoint(run_dir, begin)
            linked = run_history.checkpoint(folder, begin)
            _link_files(source, linked)
            try:
                checksums.read_state(linked)  # Without it nothing is checked.
                checksums.check(linked)
            except checksums.DamagedError:
                _check_kept(run_dir, begin)
                checksums.check(source)  # Names the checkpoint of the run.
                raise
            path = os.path.join(run_dir, run_folder.FILE)
            settings = json_files.read(path)
            path = os.path.join(folder, run_folder.FILE)
            json_files.write(path, settings)
        # Without its records, a fine-tuning run would make them again.
        records = os.path.join(run_dir, "records")
        if os.path.isdir(records):
            _link_files(records, os.path.join(folder, "records"))
        yield folder


def _check_kept(run_dir: str, step: int) -> None:
    """Raises ValueError if a run has removed the checkpoint of a step."""
    if step and step not in run_history.kept_steps(run_dir):
        raise ValueError(
            f"{run_dir} is still running, and has removed its checkpoint of "
            f"step {step}, which was to be repeated. Start the replay again; "
            "the run keeps more checkpoints with --keep_checkpoint_max."
        )


def repeat(script: str, arguments: list[str]) -> None:
    """Runs the script in a separate process, like the run.

    Raises:
      ValueError: if the script fails; it has printed the reason.
    """
    command = [sys.executable, "-m", f"run_scripts.{script}", *arguments]
    code = subprocess.run(command, env=stopping.child_environment()).returncode
    if code not in (0, stopping.EXIT_CODE):
        raise ValueError(
            f"{script} ended with exit code {code}; see its error above. "
            "Paths in run.flags are relative to the folder where the run was "
            "started; give the paths of moved files with --override, such as "
            "--override=--input_file=PATH."
        )


def compare_steps(
    then: Mapping[int, Mapping], now: Mapping[int, Mapping], steps
) -> str | None:
    """Returns the first difference and the largest; None if bit-equal.

    Args:
      then: values by step, logged by the run.
      now: values by step, logged by the replay.
      steps: step to start after, and last step.

    Raises:
      ValueError: if steps are missing in `now`.
    """
    first, largest = None, 0.0
    for step in range(steps[0] + 1, steps[1] + 1):
        if step not in now:
            raise ValueError(
                f"The replay stopped before step {step}; try again."
            )
        a, b = then[step], now[step]
        # Compared as text, which is exact for floats and equal for NaN.
        names = [n for n in a | b if repr(a.get(n)) != repr(b.get(n))]
        if names and first is None:
            values = "; ".join(
                f"{n} {a.get(n)} in the run, {b.get(n)} now" for n in names
            )
            first = f"step {step}: {values}"
        for name in set(names) & set(a) & set(b):
            size = max(abs(a[name]), abs(b[name])) or 1.0  # For 0.0 and -0.0.
            apart = abs(a[name] - b[name]) / size
            # NaN or infinite in one of the two.
            largest = max(largest, apart if math.isfinite(apart) else math.inf)
    if first is None:
        return None
    return f"{first}\nlargest relative difference {largest:.2g}"


def compare_weights(run_dir: str, folder: str) -> tuple[str, bool]:
    """Returns a note on the weights after the last step, and whether equal.

    The note is empty if the run kept no checkpoint of that step.
    """
    step = run_history.kept_steps(folder)[-1]
    if step not in run_history.kept_steps(run_dir):
        return "", True
    try:
        then, now = (
            checksums.read_state(run_history.checkpoint(each, step))
            for each in (run_dir, folder)
        )
    except checksums.DamagedError:
        if step not in run_history.kept_steps(run_dir):
            return "", True  # Removed in the meantime.
        raise
    sums = [state["weights_sha256"] for state in (then, now)]
    if sums[0] != sums[1]:
        text = f"weights of step {step}, sha256 {sums[0]} in the run, {sums[1]}"
        return f"{text} now", False
    slots = [
        s.get("files", {}).get(model_folders.OPTIMIZER) for s in (then, now)
    ]
    if all(slots) and slots[0] != slots[1]:
        text = (
            f"{model_folders.OPTIMIZER} of step {step}; its weights are equal"
        )
        return text, False
    return f"; equal weights after step {step}, sha256 {sums[0]}", True


def main(argv: list[str]) -> None:
    """Repeats steps, prints the result, and exits with the status."""
    common_flags.parse(FLAGS, argv, __doc__)
    replay = Replay(
        FLAGS.run_dir, FLAGS.from_step, FLAGS.num_steps, tuple(FLAGS.override)
    )
    run_dir = replay.run_dir
    source = run_history.read_flags(run_dir)
    if source.flags.get("distribution_strategy") == "multi_worker" and not any(
        "distribution_strategy" in word for word in replay.override
    ):
        raise ValueError(
            f"{run_dir} was trained by several workers, but a replay is one "
            "process. Add --override=--distribution_strategy=mirrored, on a "
            "machine with as many devices; it may round differently."
        )
    if "feature_layers" in source.flags:
        raise ValueError(
            f"{run_dir} has --feature_layers: a run for each choice of layers, "
            "which cannot be repeated one by one. Run the same command with "
            "another --output_dir."
        )
    run_history.warn_of_versions(source.versions)
    log = run_history.read_log(run_dir)
    steps = choose_steps(replay, log)
    logging.info("steps %d to %d of %s", steps[0] + 1, steps[1], run_dir)
    with fresh_folder(run_dir, steps[0]) as folder:
        try:
            repeat(source.script, script_flags(replay, folder, source, steps))
        except ValueError:
            _check_kept(run_dir, steps[0])
            raise
        # The records must be those of the run, or nothing is comparable.
        settings, before = (
            json_files.read(os.path.join(each, run_folder.FILE))
            for each in (folder, run_dir)
        )
        if replay.override:
            settings = before | {"records": settings["records"]}
        run_folder.write_or_check(run_dir, settings, has_begun=True)
        differs = compare_steps(log, run_history.read_log(folder), steps)
        weights, is_equal = compare_weights(run_dir, folder)
    compared = f"steps {steps[0] + 1} to {steps[1]} of {run_dir}"
    if differs or not is_equal:
        fault = f"are equal, but not {weights}"
        if differs:
            fault = f"differ, first {differs}"
        print(f"NOT equal: {compared} {fault}")
        raise SystemExit(EXIT_CODE_DIFFERS)
    num_values = len(log[steps[1]])
    print(f"bit-equal: {compared}, {num_values} values each{weights}")


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
