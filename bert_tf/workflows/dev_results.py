"""Scores on dev sets -> the best model, eval_results.json."""

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping

import keras
from absl import logging

from bert_tf.checkpoint import checksums, model_folders, run_models
from bert_tf.tasks.task import Scores
from bert_tf.training import reporting, run_folder, stopping, strategies
from tfrecords.io import atomic_files, json_files

PREDICTIONS = "predictions"
# A class of less than this share of the rows is rare.
_RARE = 0.1
_FOUND = 0.5  # F1 from which a rare class is found.
_UNCLIPPED = 1e9  # --clip_norm that does not clip.


def make_keep_best(
    model: keras.Model,
    evaluate: Callable[[], Scores],
    folder: run_folder.RunFolder,
    *,
    best_metric: str,
    dev: str,
    metadata_of: Callable[[Scores], dict],
    vocabulary: bytes | None,
) -> Callable[[int], None]:
    """Returns step -> None, which evaluates and saves the best to `best/`.

    Args:
      model: model that is being trained.
      evaluate: () -> scores of all dev sets. The first dev set decides: for
        MNLI that is the matched one.
      folder: folder of the run, for `best/` and `logs/` of each dev set. Only
        the chief writes to it; the others only evaluate.
      best_metric: metric of the first dev set that selects the best model.
      dev: digest of that dev set, see `check_comparable`.
      metadata_of: scores -> content of model.json.
      vocabulary: content of vocab.txt, to save with the model, if any.
    """
    writers: dict[str, reporting.Writer] = {}

    def keep_best(step: int) -> None:
        results = evaluate()
        if not folder.is_chief:
            return
        # Read here, after the run has been restored from a checkpoint.
        start_step = folder.newest_step()
        for split, values in results.items():
            if split not in writers:
                logs = os.path.join(folder.path, "logs", split)
                writers[split] = reporting.Writer(logs, start_step)
            writers[split].write(step, values)
        log(results, step)
        value = next(iter(results.values()))[best_metric]
        if run_folder.rank(value) > run_folder.rank(
            read_best(folder.best)["value"]
        ):
            save_best(
                folder.best,
                model,
                {
                    "step": step,
                    "metric": best_metric,
                    "value": value,
                    "dev": dev,
                },
                metadata=metadata_of(results),
                vocabulary=vocabulary,
            )

    return keep_best


def save_best(
    best_dir: str,
    model: keras.Model,
    state: Mapping,
    *,
    metadata: Mapping,
    vocabulary: bytes | None,
) -> None:
    """Writes the best model so far; `state` has its step, metric and value.

    Its head is divided by the temperature in `metadata`, if any, so that all
    readers of the model in any format have it.
    """
    temperature = metadata.get("temperature")
    head = model.head.weights if temperature else ()
    before = [keras.ops.convert_to_numpy(weight) for weight in head]
    with atomic_files.atomic_folder(best_dir) as folder:
        for weight, value in zip(head, before, strict=True):
            weight.assign(value / temperature)
        model_folders.save_model(
            folder, model, metadata=metadata, vocabulary=vocabulary
        )
        # Training goes on with the weights that it had.
        for weight, value in zip(head, before, strict=True):
            weight.assign(value)
        checksums.write_checksums(folder, state)


def check_improves(
    folder: run_folder.RunFolder, strategy, step: int, count: int, interval: int
) -> None:
    """Raises EarlyStopped if the last `count` evaluations were not better.

    `interval` steps are between two. A run that resumes ends at the same step.
    """
    last = count * interval
    if strategies.of_chief(
        strategy, lambda: step >= read_best(folder.best)["step"] + last
    ):
        raise stopping.EarlyStopped(
            f"after step {step}: no evaluation was better in "
            f"--early_stopping_evaluations={count}; {folder.best} has the best "
            "model. To train on, increase the flag",
            0,
        )


def check_updated(
    folder: run_folder.RunFolder, num_train_steps: int, flag: str
) -> None:
    """Raises ValueError if training without `flag` would leave an old `best/`.

    Other commands take the model from there.
    """
    is_done = folder.newest_step() >= num_train_steps
    if os.path.isdir(folder.best) and not is_done:
        raise ValueError(
            f"{folder.best} has the best model so far of a run with {flag}, "
            "and is not updated without it. Give the flag, or move that folder "
            "away."
        )


def check_comparable(
    folder: run_folder.RunFolder, metric: str, dev: str
) -> None:
    """Raises ValueError if `best/` was chosen by other scores.

    Args:
      folder: folder of the run.
      metric: metric of the first dev set that is to select the best model.
      dev: digest of its rows and files.
    """
    best = read_best(folder.best)
    before = best.get("metric", metric)
    if before != metric:
        others = f"{before} of dev, and now {metric} would decide"
    elif best.get("dev", dev) != dev:
        others = f"{metric} of other dev files, or of what they had in them"
    else:
        return
    raise ValueError(
        f"{folder.best} has the best model of this run by {others}: the two "
        "cannot be compared. To resume, give the dev files and columns of that "
        f"run, which are in {os.path.join(folder.path, 'run.flags')}; to "
        "evaluate it on others, omit --do_train; or choose another "
        "--output_dir."
    )


def read_best(best_dir: str) -> dict:
    """Returns step and value of the best model; 0 and -inf if there is none.

    The value is None if it is undefined for every model so far.
    """
    none = {"step": 0, "value": -math.inf}
    if not os.path.exists(best_dir):
        return none
    try:
        checksums.check_quickly(best_dir)
        state = checksums.read_state(best_dir)
        path = os.path.join(best_dir, checksums.STATE)
        entries = {"step": int, "value?": float, "metric?": str, "dev?": str}
        json_files.check(state, entries, path)
        if "value" not in state:
            json_files.check(None, float, path, "value")
        return state
    except ValueError as error:
        logging.warning("%s It is replaced by the model of this step.", error)
        return none


def write(
    results: Scores,
    baseline: Scores,
    step: int,
    output_dir: str,
    *,
    task_name: str,
    best_metric: str,
    details: Mapping[str, Mapping],
) -> dict:
    """Writes and logs `eval_results.json`: loss and metrics of each dev set.

    The majority-class baseline is written under "majority_baseline". A score
    that is undefined is null, and "undefined" says why. `details`, by split,
    are written under their names: "classes", "confusion_matrix",
    "calibration", "confidence_interval" of `best_metric`, "tf_idf_baseline".

    Returns:
      The content of the file.
    """
    content = {"task_name": task_name, "step": step, "best_metric": best_metric}
    content |= results
    content |= {run_models.BASELINE: baseline} | _by_name(details)
    content |= _undefined(results)
    os.makedirs(output_dir, exist_ok=True)
    json_files.write(os.path.join(output_dir, run_folder.RESULTS), content)
    log(results, step)
    for split, values in baseline.items():
        logging.info(
            "%s, majority-class baseline  %s",
            split,
            reporting.format_values(values),
        )
    return content


def write_rows(rows: Iterable[Mapping], output_dir: str, split: str) -> None:
    """Writes the evaluated rows of a split, if there are any, atomically.

    Args:
      rows: from `FineTuningTask.evaluated_rows`.
      output_dir: folder of the run.
      split: name of the split, also of the file in `predictions/`.
    """
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    folder = os.path.join(output_dir, PREDICTIONS)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{split}.jsonl")
    with atomic_files.atomic_file(path) as file:
        for row in itertools.chain([first], rows):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def advice(results: Mapping, output_dir: str) -> list[str]:
    """Returns advice if accuracy on dev hides a rare class, or none is found.

    None for a model that was not trained in this folder, nor of a class without
    rows, a score below the baseline, or a flag that the run has.

    Args:
      results: content of eval_results.json.
      output_dir: folder of the run.
    """
    settings, found = run_folder.RunFolder(output_dir).settings(), []
    for split, classes in results.get("classes", {}).items():
        scores = results[split]
        accuracy = scores.get("accuracy")
        constant = results[run_models.BASELINE].get(split, {}).get("accuracy")
        if None in (accuracy, constant) or "macro_f1" not in scores:
            continue
        counts = {n: x["support"] for n, x in classes.items() if x["support"]}
        rarest = min(counts, key=counts.get)
        share = counts[rarest] / sum(counts.values())
        is_majority = abs(accuracy - constant) <= 0.005
        is_dev = split.startswith("dev")  # Nothing is chosen by a test file.
        is_rare = share < _RARE and classes[rarest]["f1"] < _FOUND
        if not (settings and is_dev and is_majority and is_rare):
            continue
        if "class_weights" in settings:
            is_clipped = settings.get("clip_norm", 1.0) < _UNCLIPPED
            if not classes[rarest]["f1"] and is_clipped:
                found.append(
                    f"{split}: in spite of --class_weights no row of "
                    f"{rarest!r} is found. Clipping undoes large weights: it "
                    "shortens the gradients of the batches that have such a "
                    "row. Add --clip_norm=1e9, or smaller weights."
                )
            continue
        text = (
            f"{split}: accuracy {accuracy:.3f} is that of the majority class, "
            f"and {rarest!r} has {share:.1%} of the rows. "
            "--class_weights=balanced lets rare classes count"
        )
        if results.get("best_metric") != "macro_f1":
            text += ", and --best_metric=macro_f1 keeps the model that is best "
            text += "on all"
        found.append(f"{text}.")
    return found


def _by_name(details: Mapping[str, Mapping]) -> dict[str, dict]:
    """Returns name -> split -> value, given split -> name -> value."""
    found: dict[str, dict] = {}
    for split, values in details.items():
        for name, value in values.items():
            found.setdefault(name, {})[split] = value
    return found


def _undefined(results: Scores) -> dict:
    """Returns the entry of scores that are undefined; {} if all are defined."""
    found = {
        f"{split}.{name}": run_models.UNDEFINED
        for split, values in results.items()
        for name, value in values.items()
        if value is None
    }
    return {"undefined": found} if found else {}


def log(results: Scores, step: int) -> None:
    """Logs the scores of each split."""
    for split, values in results.items():
        logging.info(
            "%s, step %d  %s", split, step, reporting.format_values(values)
        )
