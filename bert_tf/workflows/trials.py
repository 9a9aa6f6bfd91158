"""A task, TrialsConfig -> one run, or restarts and a grid of runs.

Each run is a process of its own with a folder of its own in `trials/`, so that
nothing that happens to one is lost with another, and the same command resumes.
"""

import dataclasses
import itertools
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from absl import logging

from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import checkpoints, run_folder, stopping
from bert_tf.workflows import fine_tuning, run_history, trial_results
from bert_tf.workflows.configs import TrialsConfig
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
# Options that trials of one folder may differ in, or that change no score.
_FREE = (
    *("num_restarts", "output_dir", "records_dir"),
    *("do_train", "do_eval", "do_predict"),
    *("eval_batch_size", "log_every_steps", "doctor"),
)


class Trial(NamedTuple):
    """One run of several.

    Attributes:
      name: of its folder.
      setting: values of the options of the grid.
      seed: of shuffling, first weights of the head, and dropout.
    """

    name: str
    setting: dict
    seed: int


def fine_tune(task: FineTuningTask, config: TrialsConfig, command: str) -> None:
    """Fine-tunes once, or as often as `num_restarts` and `grid` ask for.

    Args:
      task: what to fine-tune for.
      config: how to do it.
      command: name of the script that does this, without arguments other than
        the options of task and config.

    Raises:
      ValueError: as `fine_tuning.fine_tune` and `run`.
      stopping.Stopped: if a run was stopped; the same call resumes.
    """
    if config.num_restarts > 1 or config.grid != "none":
        run(task, config, command)
    else:
        check_single(config)
        fine_tuning.fine_tune(task, config, command)


def check_single(config: TrialsConfig) -> None:
    """Raises ValueError if a single run is to train in a folder of several."""
    path = os.path.join(config.output_dir, trial_results.RESULTS)
    if config.do_train and os.path.exists(path):
        raise ValueError(
            f"{config.output_dir} holds several runs. Choose another "
            "--output_dir for a single one, or give their --num_restarts and "
            "--grid."
        )


def plan(config: TrialsConfig) -> list[Trial]:
    """Returns the runs that are wanted; restarts of a setting in turn."""
    grid = GRIDS[config.grid]
    trials = []
    for point in itertools.product(*grid.values()):
        setting = dict(zip(grid, point, strict=True))
        for seed in range(config.seed, config.seed + config.num_restarts):
            words = [f"{name}_{value:g}" for name, value in setting.items()]
            name = "-".join([*words, f"seed_{seed}"])
            trials.append(Trial(name, setting, seed))
    return trials


def run(task: FineTuningTask, config: TrialsConfig, command: str) -> None:
    """Does every run, as far as it is not done, and what the best is for.

    Writes `trials.json`: each run's score on dev; mean, standard deviation and
    best of each setting; which runs are degenerate, that is no better than the
    majority baseline (Mosbach et al. 2021, section 3).
    Checkpoints of finished runs are removed, their `best/` stays. The best of
    all becomes `best/` of --output_dir, and is evaluated and predicts there.

    Args:
      task: what to fine-tune for.
      config: with the settings that all runs share.
      command: name of the script that does a run.

    Raises:
      ValueError: for what is wrong with flags or files, or if no run ends.
      stopping.Stopped: if a run was stopped; the same command resumes.
    """
    _check(config)
    folder = os.path.join(config.output_dir, FOLDER)
    with run_folder.open_run(folder):
        _check_flags(task, config)
        trials, results = plan(config), []
        for number, trial in enumerate(trials, 1):
            # A mistake in the test files shall show before hours of training.
            do_predict = config.do_predict and number == 1
            results.append(_result(task, config, command, trial, do_predict))
            logging.info(
                "trial %d of %d: %s  %s",
                number,
                len(trials),
                trial.name,
                trial_results.describe(results[-1]),
            )
            _write(task, config, results)
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
        target = os.path.join(config.output_dir, checkpoints.BEST)
        with atomic_files.atomic_folder(target) as aside:
            shutil.copytree(source, aside, dirs_exist_ok=True)
        changes = {"do_train": False, "output_dir": config.output_dir}
        _require_end(_start(task, config, command, changes), config.output_dir)


def _check(config) -> None:
    if not (config.do_train and config.do_eval):
        raise ValueError(
            "--num_restarts and --grid train, and pick the best on dev: add "
            "--do_train and --do_eval."
        )
    if config.distribution_strategy == "multi_worker":
        raise ValueError(
            "--num_restarts and --grid start their runs on one machine; omit "
            "--distribution_strategy=multi_worker."
        )
    if config.stop_at_step:
        raise ValueError(
            f"--stop_at_step={config.stop_at_step} is for a single run. Stop "
            "several by a SIGTERM; the same command resumes."
        )
    given = [
        name for name in GRIDS[config.grid] if getattr(config, name) is not None
    ]
    if given:
        raise ValueError(
            f"--grid={config.grid} tries values of its own for "
            f"--{', --'.join(given)}. Omit them, or the grid."
        )
    if os.path.exists(os.path.join(config.output_dir, run_folder.FILE)):
        raise ValueError(
            f"{config.output_dir} holds a single run. Choose another "
            "--output_dir for several."
        )


def _given(task, config) -> dict[str, str]:
    """Returns the options that are not their defaults, as flags, by name."""
    return {
        field.name: run_history.flag_line(field.name, value)
        for options in (task.data, config)
        for field in dataclasses.fields(options)
        for value in [getattr(options, field.name)]
        if value != field.default
    }


def _shared(task, config) -> dict[str, str]:
    """Returns what all runs in a folder have in common."""
    free = {*_FREE, *GRIDS[config.grid]}
    given = _given(task, config)
    return {name: word for name, word in given.items() if name not in free}


def _check_flags(task, config) -> None:
    """Raises ValueError if the folder holds runs with other options."""
    path = os.path.join(config.output_dir, trial_results.RESULTS)
    if not os.path.exists(path):
        return
    there, now = atomic_files.read_json(path)["flags"], _shared(task, config)
    differences = [
        f"{there.get(name, f'no --{name}')} there, "
        f"{now.get(name, f'no --{name}')} now"
        for name in sorted(there | now)
        if there.get(name) != now.get(name)
    ]
    if differences:
        raise ValueError(
            f"{config.output_dir} holds runs with other flags:\n  "
            + "\n  ".join(differences)
            + "\nChoose another --output_dir, or give the same flags."
        )


def _start(task, config, command: str, changes: dict) -> int:
    """Runs the script with changed options; returns its exit status."""
    changes = {
        "num_restarts": 1,
        "grid": "none",
        "records_dir": config.records_dir
        or os.path.join(config.output_dir, "records"),
    } | changes
    words = [w for n, w in _given(task, config).items() if n not in changes]
    words += [run_history.flag_line(n, v) for n, v in changes.items()]
    words = [sys.executable, "-m", f"run_scripts.{command}", *words]
    process = subprocess.Popen(words)
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
            f"in {folder}; the same command resumes from here"
        )
    if status:
        raise ValueError(
            f"The run in {folder} ended with status {status}; its message "
            "stands above. The same command resumes."
        )


def _result(task, config, command, trial: Trial, do_predict: bool) -> dict:
    """Returns what trials.json says of a run, which is done if need be."""
    folder = os.path.join(config.output_dir, FOLDER, trial.name)
    result = {"name": trial.name, "seed": trial.seed, **trial.setting}
    if not trial_results.is_done(folder):
        changes = {"seed": trial.seed, **trial.setting, "output_dir": folder}
        changes["do_predict"] = do_predict
        status = _start(task, config, command, changes)
        if status == stopping.DIVERGED_EXIT_CODE:
            logging.warning("%s diverged; it is left out", folder)
            return result | trial_results.failed()
        _require_end(status, folder)
    for name in ("checkpoints", "init_checkpoint"):  # `best/` is what counts.
        path = os.path.join(folder, name)
        if os.path.exists(path):
            atomic_files.remove_folder(path)
    return result | trial_results.read(folder)


def _write(task, config, results: list[dict]) -> None:
    atomic_files.write_json(
        os.path.join(config.output_dir, trial_results.RESULTS),
        {
            "flags": _shared(task, config),
            "settings": trial_results.summarize(results),
            "trials": results,
        },
    )
