"""Run folder -> the model folder to use in it, its step, settings and scores.

    run/best/                       the model with the best dev score, if any
    run/checkpoints/step-00001000/  after 1,000 updates, with the optimizer

Each is a model folder (see model_folders.py). A checkpoint also contains
`optimizer.safetensors` and `state.json`, with LoRA `lora.safetensors` too.
"""

import os
import re
from collections.abc import Mapping

from absl import logging

from bert_tf.checkpoint import checksums
from tfrecords.io import json_files
from tfrecords.io.json_files import Finite

OPTIMIZER = "optimizer.safetensors"
LORA = "lora.safetensors"
STATE = checksums.STATE
WEIGHTS = "model.safetensors"  # Of a model folder.
BEST = "best"
SETTINGS = "run.json"  # Of a run.
RESULTS = "eval_results.json"
BASELINE = "majority_baseline"  # Its entry with the baseline's scores.
INTERVALS = "confidence_interval"  # Of the metric that selects the best.
WORD_BASELINE = "tf_idf_baseline"  # TF-IDF with logistic regression.
# Why a score in it is null; the log says whether of predictions or labels.
UNDEFINED = "all predictions, or all labels, are the same"
STEP_PREFIX = "step-"  # Of the names of checkpoints.
# Of its eval_results.json after pre-training.
_NOT_SCORES = ("step", "records", "max_eval_steps", "unigram_accuracy")
_TOKEN_ACCURACIES = ("masked_lm_accuracy", "next_token_accuracy")

# Forms of run.json and eval_results.json, see `json_files.check`. A loss may be
# NaN.
_SETTINGS = {"task?": str, "config?": dict, "num_train_steps?": int}
_SCORES = {"loss?": float, "*?": Finite}
_COUNT = range(2**53)
_RESULTS = {
    "task_name": str,
    "best_metric": str,
    "dev*": _SCORES,
    "test*": _SCORES,
    BASELINE: {"*": _SCORES},
    f"{WORD_BASELINE}?": {"*": _SCORES},
    f"{INTERVALS}?": {
        "*": {"unit": str, "size": _COUNT, "low?": Finite, "high?": Finite}
    },
    "classes?": {"*": {"*": {"support": _COUNT, "f1": Finite, "*?": Finite}}},
    "confusion_matrix?": {"*": [[_COUNT]]},
    "calibration?": {"*": {"error": Finite, "error_before": Finite}},
}


def name(step: int) -> str:
    """Returns the folder name of the checkpoint after `step` updates."""
    return f"{STEP_PREFIX}{step:08d}"


def steps(folder: str, before: str = "") -> list[int]:
    """Returns the steps of the checkpoints in a folder, oldest first.

    `before` is a prefix of the folder names, such as "damaged-".
    """
    if not os.path.isdir(folder):
        return []
    pattern = re.compile(rf"{before}{STEP_PREFIX}([0-9]{{8,}})")
    matches = map(pattern.fullmatch, os.listdir(folder))
    return sorted(int(match[1]) for match in matches if match)


def newest_step(output_dir: str) -> int:
    """Returns the step of a run's newest checkpoint; 0 if it has none.

    Damaged checkpoints are included: the run has started, and a new start must
    not overwrite files that may still be recovered. `restore_latest` renames
    damaged checkpoints if it finds an older intact one; after that,
    `newest_step` returns the restored step.
    """
    return max(steps(os.path.join(output_dir, "checkpoints")), default=0)


def find(path: str) -> str:
    """Returns the model folder at a path.

    If the folder has a state.json, missing or truncated files and changes in
    files up to 16 MB are detected here. Changes in larger files are detected
    when they are read (`TensorFile`), so that they are not read twice.

    Args:
      path: a model folder, or a run folder. For a run folder the result is its
        best model if it has one, otherwise its newest checkpoint in which no
        damage is detected.

    Raises:
      DamagedError: a ValueError, if `path` itself, the best model or all
        checkpoints are damaged.
      ValueError: if there is no model.
    """
    if os.path.isfile(os.path.join(path, WEIGHTS)):
        checksums.check_quickly(path)
        return path
    best = os.path.join(path, BEST)
    try:
        if _has_model(best):
            return best
    except checksums.DamagedError as error:
        raise checksums.DamagedError(
            f"{error} To use another model, give a folder in "
            f"{os.path.join(path, 'checkpoints')}/."
        ) from error
    return find_newest(path)


def find_newest(path: str) -> str:
    """Returns a run's newest checkpoint in which no damage is detected.

    Raises:
      DamagedError: a ValueError, if all checkpoints are damaged.
      ValueError: if there is none.
    """
    inside, faults = os.path.join(path, "checkpoints"), []
    for step in reversed(steps(inside)):
        folder = os.path.join(inside, name(step))
        try:
            if _has_model(folder):
                return folder
        except checksums.DamagedError as error:
            logging.warning("%s Trying the previous one.", error)
            faults.append(str(error))
    if faults:
        faults.append(f"{path} has no other checkpoint.")
        raise checksums.DamagedError("\n".join(faults))
    raise ValueError(
        f"{path} contains no model: expected {WEIGHTS} in it, in its {BEST}/ "
        f"or in its checkpoints/{STEP_PREFIX}*. Give the output_dir of a run."
    )


def _has_model(folder: str) -> bool:
    """Returns whether a folder has a model; raises DamagedError if damaged."""
    checksums.check_quickly(folder)
    has_weights = os.path.isfile(os.path.join(folder, WEIGHTS))
    if not has_weights and os.path.isfile(os.path.join(folder, STATE)):
        raise checksums.damaged(folder, f"{WEIGHTS} is missing")
    return has_weights


def step_of(folder: str) -> int:
    """Returns the number of updates of a model folder; 0 if it has none."""
    if not os.path.exists(os.path.join(folder, STATE)):
        return 0
    return checksums.read_state(folder).get("step", 0)


def read_settings(run_dir: str) -> dict:
    """Returns the content of a run's `run.json`; {} if there is none.

    Raises:
      OSError: if it cannot be read.
      ValueError: naming the file, if it is damaged.
    """
    path = os.path.join(run_dir, SETTINGS)
    return json_files.read(path, _SETTINGS) if os.path.lexists(path) else {}


def read_results(run_dir: str) -> dict:
    """Returns the content of a run's `eval_results.json`.

    After fine-tuning it has `task_name` and scores of dev splits, after
    pre-training held-out scores.

    Raises:
      OSError: if it cannot be read.
      ValueError: naming the file and the entry, if it is damaged.
    """
    path = os.path.join(run_dir, RESULTS)
    results = json_files.read(path, {"step": int})
    if "task_name" not in results:
        held_out = [x for x in results if x not in _NOT_SCORES]
        names = (*held_out, "unigram_accuracy")
        json_files.check(results, {f"{x}?": Finite for x in names}, path)
        return results
    json_files.check(results, _RESULTS, path)
    results = {name: x for name, x in results.items() if x is not None}
    dev = [name for name in results if name.startswith("dev")]
    if not dev:
        raise ValueError(
            f"{path} has no scores of a dev set. Evaluate the run again with "
            "run_... --do_eval."
        )
    # The first one selects the best model; others may have other metrics.
    metric = results["best_metric"]
    if metric not in results[dev[0]]:
        json_files.check(None, Finite, path, f"{dev[0]}.{metric}")
    return results


def read_run(folder: str) -> dict[str, dict]:
    """Returns `run` and `results` of the run that a model folder is in.

    They are the contents of run.json and eval_results.json, as far as there are
    any; results of another step are left out.

    Args:
      folder: a model folder, from `find`.

    Raises:
      OSError, ValueError: as in `read_settings` and `read_results`.
    """
    above, name = os.path.split(os.path.abspath(folder))
    if os.path.basename(above) == "checkpoints":
        above = os.path.dirname(above)
    elif name != BEST:
        return {}
    found = {}
    if settings := read_settings(above):
        found["run"] = settings
    if os.path.lexists(os.path.join(above, RESULTS)):
        results = read_results(above)
        if results["step"] == step_of(folder):
            found["results"] = results
    return found


def scores(
    results: Mapping,
) -> list[tuple[str, str, float | None, float | None]]:
    """Returns split, metric, score and baseline of each score of a run.

    Args:
      results: content of eval_results.json. A score of a fine-tuning in it is
        None if it is undefined.
    """
    if "task_name" not in results:  # Of pre-training.
        unigram = results.get("unigram_accuracy")
        return [
            (
                "held out",
                name,
                value,
                unigram if name in _TOKEN_ACCURACIES else None,
            )
            for name, value in results.items()
            if value is not None and name not in _NOT_SCORES
        ]
    baselines = results.get(BASELINE, {})
    return [
        (split, name, value, baselines.get(split, {}).get(name))
        for split, of_split in results.items()
        if split.startswith(("dev", "test"))
        for name, value in of_split.items()
    ]
