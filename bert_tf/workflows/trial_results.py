"""Evaluations of several runs -> mean, deviation, degenerate runs."""

import os
import statistics

from absl import logging

from bert_tf.checkpoint import run_models
from bert_tf.training import run_folder
from bert_tf.workflows.selection.search import SETTINGS
from tfrecords.io import json_files
from tfrecords.io.json_files import Finite

RESULTS = "trials.json"

# Form of what is read of it, see `json_files.check`.
_TRIALS = {
    "flags?": {"*": str},
    "trials": [{"split?": str}],
    "settings": [
        {"mean?": Finite, "standard_deviation?": Finite, "num_runs": int}
    ],
}


def read(folder: str) -> dict:
    """Returns the entries in `trials.json` of a run.

    Args:
      folder: folder of an evaluated run.

    Returns:
      `score`, the `metric` on `split`, the first dev set; `majority_baseline`,
      that of the majority-class baseline; `is_degenerate`, whether the run is
      not better than the baseline (Mosbach et al. 2021, section 3); `step` of
      the best model. A score that is undefined is None, and degenerate; then
      `undefined` has the reason.
    """
    results = read_evaluation(folder)
    metric = results["best_metric"]
    split = next(name for name in results if name.startswith("dev"))
    of_split = results[run_models.BASELINE].get(split, {})
    score, baseline = results[split][metric], of_split.get(metric)
    # A constant, which has no correlation with anything, is as good as 0.
    is_degenerate = score is None or (
        metric in of_split and score <= (baseline or 0.0)
    )
    result = {
        "has_failed": False,
        "split": split,
        "metric": metric,
        "score": score,
        run_models.BASELINE: baseline,
        "is_degenerate": is_degenerate,
        "step": results["step"],
    }
    return result | (
        {"undefined": run_models.UNDEFINED} if score is None else {}
    )


def read_evaluation(folder: str) -> dict:
    """Returns the content of `eval_results.json` of a fine-tuning run.

    Raises:
      ValueError: if there is none, it is of pre-training, or as in
        `run_models.read_results`.
    """
    path = os.path.join(folder, run_folder.RESULTS)
    if not os.path.isfile(path):
        raise ValueError(
            f"{folder} has no {run_folder.RESULTS}. Give the output folder of "
            "run_... --do_eval."
        )
    results = run_models.read_results(folder)
    if "task_name" not in results:
        raise ValueError(
            f"{path} is not of a fine-tuning run: it has no task_name. Give "
            "the output folder of run_... --do_eval, or omit it."
        )
    return results


def read_trials(folder: str) -> dict:
    """Returns the content of `trials.json` of a folder of runs.

    Raises:
      ValueError: if it has another shape.
    """
    return json_files.read(os.path.join(folder, RESULTS), _TRIALS)


def describe(result: dict) -> str:
    """Returns a run's score as text."""
    if result["has_failed"]:
        return "failed"
    score = result["score"]
    shown = "undefined" if score is None else f"{score:.4f}"
    text = f"{result['split']} {result['metric']} {shown}"
    return text + ", degenerate" * result["is_degenerate"]


def summarize(results: list[dict]) -> list[dict]:
    """Returns mean, deviation and best of each setting, best mean first.

    Args:
      results: results of runs, as in `trials.json`; failed ones are omitted.

    Returns:
      For each setting its values, `num_runs`, `mean`, `standard_deviation` of
      the sample (None for a single run) and `best`. Mean and deviation are
      None if the score of a run is undefined; such settings are last.
    """
    settings: dict[tuple, list[float | None]] = {}
    for result in results:
        if not result["has_failed"]:
            key = tuple((n, result[n]) for n in SETTINGS if n in result)
            settings.setdefault(key, []).append(result["score"])
    summaries = [
        dict(key)
        | {
            "num_runs": len(scores),
            "mean": None if None in scores else statistics.fmean(scores),
            "standard_deviation": (
                statistics.stdev(scores)
                if len(scores) > 1 and None not in scores
                else None
            ),
            "best": max(scores, key=run_folder.rank),
        }
        for key, scores in settings.items()
    ]
    return sorted(
        summaries, key=lambda setting: -run_folder.rank(setting["mean"])
    )


def report(results: list[dict]) -> None:
    """Logs a summary of each setting, and a warning for degenerate runs."""
    for setting in summarize(results):
        words = [
            f"{name} {'-' if value is None else f'{value:.4g}'}"
            for name, value in setting.items()
        ]
        logging.info("%s", "  ".join(words))
    undefined = [r["name"] for r in results if "undefined" in r]
    if undefined:
        logging.warning(
            "%d of %d runs have an undefined score, since %s, and are last in "
            "every ranking: %s.",
            *(len(undefined), len(results), run_models.UNDEFINED),
            ", ".join(undefined),
        )
    degenerate = [r for r in results if r.get("is_degenerate")]
    if degenerate:
        baselines = {r[run_models.BASELINE] for r in degenerate}  # Of folds.
        shown = ["undefined" if x is None else f"{x:.4f}" for x in baselines]
        logging.warning(
            "%d of %d runs are degenerate, not better than the majority-class "
            "baseline (%s %s): %s. Raise --num_train_epochs, lower "
            "--learning_rate or, without --folds, raise --num_restarts.",
            *(len(degenerate), len(results), degenerate[0]["metric"]),
            ", ".join(sorted(shown)),
            ", ".join(result["name"] for result in degenerate),
        )
