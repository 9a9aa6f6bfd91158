r"""Folder of a run -> some of its steps once more, and what differs.

    python -m tools.replay --run_dir=runs/tiny --num_steps=100

Goes on from a checkpoint of the run with the flags in its run.flags, in a
hidden folder beside, and compares each step's values with the run's log, and
the weights where the run kept a checkpoint of the last step. Nothing in the
run's own folder changes. Exit status: 0 bit-equal, 2 not, 1 a mistake.

Other machines, versions and numbers of replicas round in another way. The
first step that differs is named, and how far the values are apart. What was
moved, or is to be another, is said so:

    python -m tools.replay --run_dir=runs/tiny \
      --override=--input_file=moved/train --override=--precision=bfloat16
"""

import contextlib
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from absl import flags, logging

from bert_tf.training import checkpoints, checksums, run_folder, stopping
from bert_tf.workflows import run_history
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "run_dir", None, "The --output_dir of a training run.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "from_step",
    None,
    "Step of the checkpoint to go on from; 0 for the start of the run. "
    "Default: the oldest one kept with logged steps after it, else 0.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_steps",
    None,
    "Optimizer steps to do again. Default: to the end of the log, at most 100.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_multi_string(
    "override",
    [],
    "A flag of the run to change, such as --input_file=moved/train; may be "
    "given several times.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "run_dir")

MOST_STEPS = 100
EXIT_CODE_DIFFERS = 2


def choose_steps(
    run_dir: str, log: Mapping[int, Mapping[str, float]]
) -> tuple[int, int]:
    """Returns the step to begin after, and the last step to compare.

    Raises:
      ValueError: if there is no such checkpoint, or the log lacks steps.
    """
    kept = [0, *run_history.kept_steps(run_dir)]
    begin = FLAGS.from_step
    if begin is None:
        begin = next((step for step in kept[1:] if step + 1 in log), 0)
    if begin not in kept:
        raise ValueError(
            f"--from_step={begin}: {run_dir} has no checkpoint of that step. "
            f"It has {', '.join(map(str, kept))}, where 0 is the start."
        )
    if FLAGS.num_steps:
        end = begin + FLAGS.num_steps
    else:
        end = max(begin + 1, min(begin + MOST_STEPS, max(log, default=0)))
    missing = next((s for s in range(begin + 1, end + 1) if s not in log), None)
    if missing:
        raise ValueError(
            f"The log of {run_dir} has no line of step {missing}, which is "
            f"among steps {begin + 1} to {end}. Choose other --from_step or "
            "--num_steps; runs of before did not log every step."
        )
    return begin, end


def script_flags(
    run_dir: str, folder: str, source: run_history.Source, steps
) -> list[str]:
    """Returns the flags with which the run's script does its steps again."""
    begin, end = steps
    # Steps of one call stay together, as in the run. One checkpoint, at last.
    together = int(source.flags.get("steps_per_loop", 1))
    stop = math.ceil(end / together) * together
    changes = [
        f"--output_dir={folder}",
        f"--stop_at_step={stop}",
        f"--save_checkpoints_steps={1000 * stop}",
        "--keep_checkpoint_max=2",
        f"--log_every_steps={max(1, (stop - begin) // 10)}",
    ]
    for name in ("do_eval", "do_predict"):
        if name in source.flags or f"no{name}" in source.flags:
            changes.append(f"--no{name}")
    # In run.flags it counts as given, so a default may contradict the model.
    for step in run_history.kept_steps(run_dir)[-1:]:
        path = os.path.join(run_history.checkpoint(run_dir, step), "model.json")
        if os.path.isfile(path):
            is_lower = atomic_files.read_json(path).get("do_lower_case", True)
            changes.append(f"--do_lower_case={is_lower}")
    path = os.path.join(run_dir, run_history.FLAGS_FILE)
    return [f"--flagfile={path}", *changes, *FLAGS.override]


def _link_files(source: str, target: str) -> None:
    """Makes a folder like another, with links in the place of files."""
    for folder, _, names in os.walk(os.path.abspath(source)):
        inside = os.path.relpath(folder, os.path.abspath(source))
        os.makedirs(os.path.join(target, inside), exist_ok=True)
        for name in names:
            path = os.path.join(target, inside, name)
            os.symlink(os.path.join(folder, name), path)


@contextlib.contextmanager
def fresh_folder(run_dir: str, begin: int) -> Iterator[str]:
    """Yields a folder in which the run can go on after a step.

    Raises:
      checksums.DamagedError: if the checkpoint is damaged.
    """
    above = os.path.dirname(os.path.abspath(run_dir))
    with tempfile.TemporaryDirectory(prefix=".replay-", dir=above) as folder:
        if begin:
            source = run_history.checkpoint(run_dir, begin)
            checksums.check(source)
            _link_files(source, run_history.checkpoint(folder, begin))
            path = os.path.join(run_dir, run_folder.FILE)
            settings = atomic_files.read_json(path)
            path = os.path.join(folder, run_folder.FILE)
            atomic_files.write_json(path, settings)
        # Of run_glue, which makes them where they are missing.
        records = os.path.join(run_dir, "records")
        if os.path.isdir(records):
            _link_files(records, os.path.join(folder, "records"))
        yield folder


def do_again(script: str, words: list[str]) -> None:
    """Runs the script in a process of its own, as the run was.

    Raises:
      ValueError: if it fails; the reason is printed by then.
    """
    command = [sys.executable, "-m", f"run_scripts.{script}", *words]
    code = subprocess.run(command).returncode
    if code not in (0, stopping.EXIT_CODE):
        raise ValueError(
            f"{script} ended with exit code {code}, for the reason above. "
            "Paths in run.flags are relative to where the run was started; "
            "name what was moved by --override=--input_file=PATH or the like."
        )


def compare_steps(
    then: Mapping[int, Mapping], now: Mapping[int, Mapping], steps
) -> str | None:
    """Returns what differs first, and how far at most; None if nothing.

    Raises:
      ValueError: if `now` lacks steps.
    """
    first, most = None, 0.0
    for step in range(steps[0] + 1, steps[1] + 1):
        if step not in now:
            raise ValueError(f"It stopped before step {step}; try once more.")
        a, b = then[step], now[step]
        # As text, which a float gives back as it is, and NaN is NaN.
        names = [n for n in a | b if repr(a.get(n)) != repr(b.get(n))]
        if names and first is None:
            values = "; ".join(
                f"{n} {a.get(n)} in the run, {b.get(n)} now" for n in names
            )
            first = f"step {step}: {values}"
        for name in set(names) & set(a) & set(b):
            # 0.0 and -0.0 differ in their text alone.
            size = max(abs(a[name]), abs(b[name])) or 1.0
            most = max(most, abs(a[name] - b[name]) / size)
    if first is None:
        return None
    return f"{first}\nlargest relative difference of all {most:.2g}"


def compare_weights(run_dir: str, folder: str) -> tuple[str, bool]:
    """Returns what is known of the weights after the last step, and if equal.

    Nothing, where the run kept no checkpoint of that step.
    """
    step = run_history.kept_steps(folder)[-1]
    if step not in run_history.kept_steps(run_dir):
        return "", True
    then, now = (
        checksums.read_state(run_history.checkpoint(where, step))
        for where in (run_dir, folder)
    )
    sums = [state["weights_sha256"] for state in (then, now)]
    if sums[0] != sums[1]:
        text = f"weights of step {step}, sha256 {sums[0]} in the run, {sums[1]}"
        return f"{text} now", False
    slots = [s.get("files", {}).get(checkpoints.OPTIMIZER) for s in (then, now)]
    if all(slots) and slots[0] != slots[1]:
        return f"{checkpoints.OPTIMIZER} of step {step}, not weights", False
    return f"; weights after step {step} too, sha256 {sums[0]}", True


def main(argv: list[str]) -> None:
    """Does some steps again, prints what differs, exits with the status."""
    common_flags.parse(FLAGS, argv, __doc__)
    run_dir = FLAGS.run_dir
    source = run_history.read_flags(run_dir)
    if source.flags.get("distribution_strategy") == "multi_worker" and not any(
        "distribution_strategy" in word for word in FLAGS.override
    ):
        raise ValueError(
            f"{run_dir} was trained by several workers, and this is one "
            "process. Add --override=--distribution_strategy=mirrored, on a "
            "machine with as many devices; it may round in another way."
        )
    run_history.warn_of_versions(source.versions)
    log = run_history.read_log(run_dir)
    steps = choose_steps(run_dir, log)
    logging.info("steps %d to %d of %s", steps[0] + 1, steps[1], run_dir)
    with fresh_folder(run_dir, steps[0]) as folder:
        words = script_flags(run_dir, folder, source, steps)
        do_again(source.script, words)
        path = os.path.join(folder, run_folder.FILE)
        # Other records would explain everything.
        if not FLAGS.override:
            settings = atomic_files.read_json(path)
            run_folder.write_or_check(run_dir, settings, has_begun=True)
        differs = compare_steps(log, run_history.read_log(folder), steps)
        weights, is_equal = compare_weights(run_dir, folder)
    what = f"steps {steps[0] + 1} to {steps[1]} of {run_dir}"
    if differs or not is_equal:
        print(f"NOT equal: {what} differ, first {differs or weights}")
        raise SystemExit(EXIT_CODE_DIFFERS)
    values = len(log[steps[1]])
    print(f"bit-equal: {what}, {values} values each{weights}")


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
