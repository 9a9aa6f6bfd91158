"""Flags of a run, restarts or a grid -> a run for each, their spread, the best.

Each run is a process of its own with a folder of its own in `trials/`, so that
nothing that happens to one is lost with another, and the same command goes on.
"""

import itertools
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from absl import flags, logging

from bert_tf.training import checkpoints, run_folder, stopping
from bert_tf.workflows import trial_results
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

# Devlin et al. 2018, appendix A.3, and for the rate of 4e-5 section 4.1.
GRIDS: dict[str, dict[str, tuple]] = {
    "none": {},
    "paper": {
        "train_batch_size": (16, 32),
        "learning_rate": (5e-5, 4e-5, 3e-5, 2e-5),
        "num_train_epochs": (2, 3, 4),
    },
}
FOLDER = "trials"
RESULTS = "trials.json"
# Flags that trials of one folder may differ in, or that change no score.
_FREE = (
    *("num_restarts", "output_dir", "records_dir"),
    *("do_train", "do_eval", "do_predict"),
    *("eval_batch_size", "log_every_steps", "doctor"),
)


class Trial(NamedTuple):
    """One run of several.

    Attributes:
      name: of its folder.
      setting: values of the grid's flags.
      seed: of shuffling, first weights of the head, and dropout.
    """

    name: str
    setting: dict
    seed: int


def define_trials(values: flags.FlagValues) -> None:
    """Adds the flags that make one run several."""
    flags.DEFINE_integer(
        "num_restarts",
        1,
        "Runs with seeds --seed, --seed + 1 and so on, each in its own folder "
        "in trials/; the model that is best on dev becomes best/. On small "
        "tasks seeds differ by much, and some learn nothing.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "grid",
        "none",
        list(GRIDS),
        "paper: runs with batches of 16 and 32, learning rates 5e-5, 4e-5, "
        "3e-5 and 2e-5, and 2, 3 and 4 epochs: 24, each --num_restarts times.",
        flag_values=values,
    )


def are_wanted(values: flags.FlagValues) -> bool:
    """Returns whether the flags mean more than one run."""
    return values.num_restarts > 1 or values.grid != "none"


def check_single(values: flags.FlagValues) -> None:
    """Raises ValueError if a single run is to train in a folder of several."""
    path = os.path.join(values.output_dir, RESULTS)
    if values.do_train and os.path.exists(path):
        raise ValueError(
            f"{values.output_dir} holds several runs. Choose another "
            "--output_dir for a single one, or give their --num_restarts and "
            "--grid."
        )


def plan(values: flags.FlagValues) -> list[Trial]:
    """Returns the runs that the flags mean; restarts of a setting in turn."""
    grid = GRIDS[values.grid]
    found = []
    for point in itertools.product(*grid.values()):
        setting = dict(zip(grid, point, strict=True))
        for seed in range(values.seed, values.seed + values.num_restarts):
            words = [f"{name}_{value:g}" for name, value in setting.items()]
            name = "-".join([*words, f"seed_{seed}"])
            found.append(Trial(name, setting, seed))
    return found


def run(values: flags.FlagValues, script: str) -> None:
    """Does every run, as far as it is not done, and what the best is for.

    Writes `trials.json`: each run's score on dev; mean, standard deviation and
    best of each setting; which runs are degenerate, that is no better than one
    answer to all (Mosbach et al. 2021, section 3).
    Checkpoints of finished runs are removed, their `best/` stays. The best of
    all becomes `best/` of --output_dir, and is evaluated and predicts there.

    Args:
      values: the script's flags, those of `define_trials` among them.
      script: its name.

    Raises:
      ValueError: for what is wrong with flags or files, or if no run ends.
      stopping.Stopped: if a run was stopped; the same command goes on.
    """
    _check(values)
    folder = os.path.join(values.output_dir, FOLDER)
    with run_folder.open_run(folder):
        _check_flags(values)
        trials, results = plan(values), []
        for number, trial in enumerate(trials, 1):
            # A mistake in the test files shall show before hours of training.
            do_predict = values.do_predict and number == 1
            results.append(_result(values, script, trial, do_predict))
            logging.info(
                "trial %d of %d: %s  %s",
                number,
                len(trials),
                trial.name,
                trial_results.describe(results[-1]),
            )
            _write(values, results)
        ended = [result for result in results if not result["has_failed"]]
        if not ended:
            raise ValueError(
                f"All of {len(results)} runs diverged; see their messages "
                "above. Lower --learning_rate."
            )
        trial_results.report(results)
        best = max(ended, key=lambda result: result["score"])
        source = os.path.join(folder, best["name"], checkpoints.BEST)
        logging.info("best  %s  %s", best["name"], trial_results.describe(best))
        target = os.path.join(values.output_dir, checkpoints.BEST)
        with atomic_files.atomic_folder(target) as aside:
            shutil.copytree(source, aside, dirs_exist_ok=True)
        changes = {"do_train": False, "output_dir": values.output_dir}
        _require_end(_start(values, script, changes), values.output_dir)


def _check(values) -> None:
    if not (values.do_train and values.do_eval):
        raise ValueError(
            "--num_restarts and --grid train, and pick the best on dev: add "
            "--do_train and --do_eval."
        )
    if values.distribution_strategy == "multi_worker":
        raise ValueError(
            "--num_restarts and --grid start their runs on one machine; leave "
            "--distribution_strategy=multi_worker away."
        )
    if values.stop_at_step:
        raise ValueError(
            f"--stop_at_step={values.stop_at_step} is for a single run. Stop "
            "several by a SIGTERM; the same command goes on."
        )
    given = [name for name in GRIDS[values.grid] if values[name].present]
    if given:
        raise ValueError(
            f"--grid={values.grid} tries values of its own for "
            f"--{', --'.join(given)}. Leave them away, or the grid."
        )
    if os.path.exists(os.path.join(values.output_dir, run_folder.FILE)):
        raise ValueError(
            f"{values.output_dir} holds a single run. Choose another "
            "--output_dir for several."
        )


def _given(values) -> dict[str, str]:
    """Returns the flags that were given: name to what repeats it."""
    return {
        name: values[name].serialize()
        for name in values
        if values[name].present and values[name].value is not None
    }


def _shared(values) -> dict[str, str]:
    """Returns what all runs in a folder have in common."""
    free = {*_FREE, *GRIDS[values.grid]}
    return {n: word for n, word in _given(values).items() if n not in free}


def _check_flags(values) -> None:
    """Raises ValueError if the folder holds runs with other flags."""
    path = os.path.join(values.output_dir, RESULTS)
    if not os.path.exists(path):
        return
    there, now = atomic_files.read_json(path)["flags"], _shared(values)
    differences = [
        f"{there.get(name, f'no --{name}')} there, "
        f"{now.get(name, f'no --{name}')} now"
        for name in sorted(there | now)
        if there.get(name) != now.get(name)
    ]
    if differences:
        raise ValueError(
            f"{values.output_dir} holds runs with other flags:\n  "
            + "\n  ".join(differences)
            + "\nChoose another --output_dir, or give the same flags."
        )


def _start(values, script: str, changes: dict) -> int:
    """Runs the script with changed flags; returns its exit status."""
    changes = {
        "num_restarts": 1,
        "grid": "none",
        "records_dir": values.records_dir
        or os.path.join(values.output_dir, "records"),
    } | changes
    words = [w for n, w in _given(values).items() if n not in changes]
    words += [f"--{name}={value}" for name, value in changes.items()]
    command = [sys.executable, "-m", f"run_scripts.{script}", *words]
    process = subprocess.Popen(command)
    try:
        return process.wait()
    finally:
        # Whoever stops this process means its run, too, which ends its step.
        if process.poll() is None:
            process.terminate()
            process.wait()


def _require_end(status: int, folder: str) -> None:
    if status == stopping.EXIT_CODE:
        raise stopping.Stopped(
            f"in {folder}; the same command goes on from here"
        )
    if status:
        raise ValueError(
            f"The run in {folder} ended with status {status}; its message "
            "stands above. The same command goes on."
        )


def _result(values, script: str, trial: Trial, do_predict: bool) -> dict:
    """Returns what trials.json says of a run, which is done if need be."""
    folder = os.path.join(values.output_dir, FOLDER, trial.name)
    result = {"name": trial.name, "seed": trial.seed, **trial.setting}
    if not trial_results.is_done(folder):
        changes = {"seed": trial.seed, **trial.setting, "output_dir": folder}
        changes["do_predict"] = do_predict
        status = _start(values, script, changes)
        if status == common_flags.DIVERGED_EXIT_CODE:
            logging.warning("%s diverged; it is left out", folder)
            return result | trial_results.failed()
        _require_end(status, folder)
    for name in ("checkpoints", "init_checkpoint"):  # `best/` is what counts.
        path = os.path.join(folder, name)
        if os.path.exists(path):
            atomic_files.remove_folder(path)
    return result | trial_results.read(folder)


def _write(values, results: list[dict]) -> None:
    atomic_files.write_json(
        os.path.join(values.output_dir, RESULTS),
        {
            "flags": _shared(values),
            "settings": trial_results.summarize(results),
            "trials": results,
        },
    )
