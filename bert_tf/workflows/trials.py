"""Task, TrialsConfig -> one run, or restarts, folds and a search.

Each of several runs has its own process and its own folder in `trials/`, so
that a failure does not affect other runs, and the same command resumes.
"""

import copy
import dataclasses
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from absl import logging

from bert_tf.checkpoint import run_models
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import run_folder, stopping
from bert_tf.workflows import fine_tuning, run_history, trial_results
from bert_tf.workflows.configs import TrialsConfig
from bert_tf.workflows.selection import folds, search
from tfrecords.io import atomic_files, json_files, stored_folders

FOLDER = "trials"
# Options in which runs of one folder may differ, or that do not affect scores.
_NOT_COMPARED = (
    *("num_restarts", "num_trials", "output_dir", "records_dir"),
    *("do_train", "do_eval", "do_predict"),
    *("eval_batch_size", "log_every_steps", "doctor"),
    *("keep_checkpoint_max", "save_checkpoints_minutes", "preemption_server"),
)


class Trial(NamedTuple):
    """One run of several.

    Attributes:
      name: name of its folder.
      setting: values of the options that are searched.
      seed: seed of data order, initial weights of the head, and dropout.
      fold: of `fold` and `records_dir`, with --folds.
    """

    name: str
    setting: dict
    seed: int
    fold: dict


def fine_tune(task: FineTuningTask, config: TrialsConfig, command: str) -> bool:
    """Fine-tunes once, or several times as `num_restarts` and others specify.

    Args:
      task: task to fine-tune on.
      config: settings of the runs.
      command: name of the script that runs this, whose only flags are the
        options of task and config.

    Returns:
      As `fine_tuning.fine_tune`; False after several runs, each of which is a
      process of its own.

    Raises:
      ValueError: as in `fine_tuning.fine_tune` and `run`.
      stopping.Stopped: if a run was stopped; the same call resumes.
    """
    if config.num_restarts > 1 or config.space() or _num_folds(task):
        run(task, config, command)
        return False
    check_single(config)
    return fine_tuning.fine_tune(task, config, command)


def check_single(config: TrialsConfig) -> None:
    """Raises ValueError if the folder of a single run contains several runs."""
    path = os.path.join(config.output_dir, trial_results.RESULTS)
    if config.do_train and os.path.exists(path):
        raise ValueError(
            f"{config.output_dir} contains several runs. Choose another "
            "--output_dir for a single run, or give their --num_restarts, "
            "--search and --folds."
        )


def _num_folds(task: FineTuningTask) -> int:
    """Returns --folds; 0 if there are none, or only one of them is run."""
    is_one = getattr(task.data, "fold", None) is not None
    return 0 if is_one else getattr(task.data, "folds", None) or 0


def plan(
    config: TrialsConfig, setting: dict, num_folds: int = 0
) -> list[Trial]:
    """Returns the runs of a setting."""
    records = config.records_dir or os.path.join(config.output_dir, "records")
    parts = [
        {"fold": n, "records_dir": os.path.join(records, f"fold_{n}")}
        for n in range(num_folds)
    ]
    trials = []
    for seed in range(config.seed, config.seed + config.num_restarts):
        words = [f"{name}_{value:g}" for name, value in setting.items()]
        for fold in parts or [{}]:
            names = [*words, f"seed_{seed}"]
            names += [f"fold_{n}" for x, n in fold.items() if x == "fold"]
            trials.append(Trial("-".join(names), setting, seed, fold))
    return trials


def run(task: FineTuningTask, config: TrialsConfig, command: str) -> None:
    """Does all unfinished runs, then evaluates the best model and predicts.

    Writes `trials.json`: the dev score of each run; mean, standard deviation
    and best of each setting; and which runs are degenerate, not better than the
    majority-class baseline (Mosbach et al. 2021, section 3). Checkpoints of
    finished runs are removed, except `best/`. The best of all is copied to
    `best/` in `output_dir`, where it is evaluated and predicts. Of folds none
    is; without a search and restarts, `folds.write` has their rows.

    Args:
      task: task to fine-tune on.
      config: settings that all runs share.
      command: name of the script of a run.

    Raises:
      ValueError: if flags or files are invalid, or all runs fail.
      stopping.Stopped: if a run was stopped; the same command resumes.
    """
    _check(task, config)
    folder = os.path.join(config.output_dir, FOLDER)
    with run_folder.open_run(folder):
        _check_flags(task, config)
        results = []

        def score(setting: dict) -> float | None:
            """Returns the mean score of the runs of a setting."""
            trials = plan(config, setting, _num_folds(task))
            for trial in trials:
                if any(x["name"] == trial.name for x in results):
                    continue  # Optuna may suggest a setting again.
                # To find errors in test files before hours of training.
                predicts = config.do_predict and not results
                found = _result(task, config, command, trial, predicts)
                results.append(found)
                logging.info(
                    "trial %d: %s  %s",
                    *(len(results), trial.name, trial_results.describe(found)),
                )
                _write(task, config, results)
                stored_folders.commit()
            names = {trial.name for trial in trials}
            runs = [result for result in results if result["name"] in names]
            if any(result["has_failed"] for result in runs):
                return None
            return trial_results.summarize(runs)[0]["mean"]

        search.run(
            *(config.space(), config.num_trials, config.seed, folder, score)
        )
        finished = [result for result in results if not result["has_failed"]]
        if not finished:
            raise ValueError(
                f"All {len(results)} runs diverged; see their messages above. "
                "Lower --learning_rate."
            )
        trial_results.report(results)
        if count := _num_folds(task):
            trials = plan(config, {}, count)
            if len(finished) == len(results) == count and not config.space():
                runs = [
                    (os.path.join(folder, x.name), x.fold["records_dir"])
                    for x in trials
                ]
                scores = folds.write(task, runs, config.output_dir)
                _write(task, config, results, out_of_fold=scores)
            return
        best = max(
            finished, key=lambda result: run_folder.rank(result["score"])
        )
        source = os.path.join(folder, best["name"], run_models.BEST)
        logging.info("best  %s  %s", best["name"], trial_results.describe(best))
        target = os.path.join(config.output_dir, run_models.BEST)
        atomic_files.remove_leftovers(config.output_dir, run_models.BEST)
        with atomic_files.atomic_folder(target) as staged:
            shutil.copytree(source, staged, dirs_exist_ok=True)
        changes = {"do_train": False, "output_dir": config.output_dir}
        _check_status(_start(task, config, command, changes), config.output_dir)


def _check(task, config) -> None:
    if not (config.do_train and config.do_eval):
        raise ValueError(
            "--num_restarts, --search and --folds train, and evaluate on dev: "
            "add --do_train and --do_eval."
        )
    if config.distribution_strategy == "multi_worker":
        raise ValueError(
            "--num_restarts, --search and --folds start all runs on one "
            "machine; omit --distribution_strategy=multi_worker."
        )
    if config.stop_at_step:
        raise ValueError(
            f"--stop_at_step={config.stop_at_step} is for a single run. Stop "
            "several runs with SIGTERM; the same command resumes."
        )
    space = config.space()
    given = [name for name in space if name in _given(task, config)]
    if given:
        raise ValueError(
            f"--search={','.join(config.search)} has its own values for "
            f"--{', --'.join(given)}. Omit these flags, or --search."
        )
    if _num_folds(task):
        folds.assign(task)
        if config.do_predict:
            raise ValueError(
                f"--folds={task.data.folds}: a model of each fold is no one "
                "model to predict with. Omit --do_predict."
            )
    # What each run would refuse. A copy, as `prepare` may complete options.
    copy.copy(task).prepare(config.with_defaults(), None)
    for setting in search.points(space):  # Checks them.
        of_data = {x: setting.pop(x) for x in space if hasattr(task.data, x)}
        dataclasses.replace(config, **setting).with_defaults()
        dataclasses.replace(task.data, **of_data)
    if os.path.exists(os.path.join(config.output_dir, run_folder.FILE)):
        raise ValueError(
            f"{config.output_dir} contains a single run. Choose another "
            "--output_dir for several runs."
        )


def _given(task, config) -> dict[str, str]:
    """Returns name -> flag, for all options that are not the default."""
    return {
        field.name: run_history.flag_line(field.name, value)
        for options in (task.data, config)
        for field in dataclasses.fields(options)
        for value in [getattr(options, field.name)]
        if value != field.default
    }


def _shared(task, config) -> dict[str, str]:
    """Returns name -> flag, for options that all runs of a folder share."""
    not_compared = {*_NOT_COMPARED, *config.space()}
    given = _given(task, config)
    if config.num_trials:  # Another version may suggest other settings.
        given["optuna"] = f"optuna {search.version()}"
    return {
        name: stored_folders.address(given[name])
        for name in given
        if name not in not_compared
    }


def _check_flags(task, config) -> None:
    """Raises ValueError if the folder contains runs with other options."""
    path = os.path.join(config.output_dir, trial_results.RESULTS)
    if not os.path.exists(path):
        return
    written = trial_results.read_trials(config.output_dir).get("flags") or {}
    given = _shared(task, config)
    nothing = {name: f"no --{name}" for name in {*written, *given}}
    changed = run_folder.differences(nothing | written, nothing | given)
    if changed:
        raise ValueError(
            f"{config.output_dir} contains runs with other flags:\n  "
            + "\n  ".join(changed)
            + "\nChoose another --output_dir, or give the same flags."
        )


def _start(task, config, command: str, changes: dict) -> int:
    """Runs the script with changed options; returns its exit status."""
    changes = {
        "num_restarts": 1,
        "search": "none",
        "records_dir": config.records_dir
        or os.path.join(config.output_dir, "records"),
    } | changes
    changed = {*changes, "num_trials"}
    words = [w for n, w in _given(task, config).items() if n not in changed]
    words += [run_history.flag_line(n, v) for n, v in changes.items()]
    words = [sys.executable, "-m", f"run_scripts.{command}", *words]
    process = subprocess.Popen(words, env=stopping.child_environment())
    try:
        return process.wait()
    finally:
        # Stopping this process also stops its run, after the current step.
        if process.poll() is None:
            process.terminate()
            process.wait()


def _check_status(status: int, folder: str) -> None:
    """Raises an error for a run that was stopped or failed."""
    if status == stopping.EXIT_CODE:
        raise stopping.Stopped(
            f"in {folder}; the same command resumes from here"
        )
    if status:
        raise ValueError(
            f"The run in {folder} ended with status {status}; see its message "
            "above. The same command resumes."
        )


def _result(task, config, command, trial: Trial, do_predict: bool) -> dict:
    """Returns the entries in trials.json of a run; runs it if necessary."""
    folder = os.path.join(config.output_dir, FOLDER, trial.name)
    result = {"name": trial.name, "seed": trial.seed, **trial.setting}
    if not os.path.exists(os.path.join(folder, run_folder.RESULTS)):
        changes = {"seed": trial.seed, **trial.setting, "output_dir": folder}
        changes |= {"do_predict": do_predict, **trial.fold}
        status = _start(task, config, command, changes)
        if status == stopping.DIVERGED_EXIT_CODE:
            logging.warning("%s diverged; it is ignored", folder)
            return result | {"has_failed": True}
        _check_status(status, folder)
    atomic_files.remove_leftovers(folder)  # Of a removal that was killed.
    checkpoints = os.path.join(folder, "checkpoints")
    if os.path.exists(checkpoints):  # Only `best/` is needed.
        atomic_files.remove_folder(checkpoints)
    return result | trial_results.read(folder)


def _write(task, config, results: list[dict], **more) -> None:
    json_files.write(
        os.path.join(config.output_dir, trial_results.RESULTS),
        {
            "flags": _shared(task, config),
            "settings": trial_results.summarize(results),
            "trials": results,
            **more,
        },
    )
