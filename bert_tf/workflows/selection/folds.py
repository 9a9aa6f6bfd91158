"""Dev rows of a run for each fold of train -> out-of-fold rows and scores."""

import json
import os

from absl import logging

from bert_tf.tasks import metrics
from bert_tf.tasks.task import DEV_SEED, FineTuningTask
from bert_tf.training import reporting
from bert_tf.workflows import dev_results
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_examples

FILE = "out_of_fold.jsonl"


def assign(task: FineTuningTask) -> list[int]:
    """Returns the fold of each row of train, in their order.

    Raises:
      ValueError: if there is no train file, there are dev files, or too few
        rows or groups.
    """
    table, data = getattr(task, "table", None), task.data
    if not table:
        raise ValueError(
            f"--folds={data.folds} divides the rows of train. Add --train_file."
        )
    return glue_examples.fold_of_rows(
        table, data.data_dir or "", num_folds=data.folds, seed=DEV_SEED
    )


def write(
    task: FineTuningTask, runs: list[tuple[str, str]], output_dir: str
) -> dict[str, float | None]:
    """Writes `predictions/out_of_fold.jsonl`; returns the scores of its rows.

    Args:
      task: a TextTask with --folds.
      runs: run folder, with `predictions/dev.jsonl`, and records of each fold.
      output_dir: folder of all runs.

    Returns:
      `rows`, their number, and the metrics of their predictions and labels.

    Raises:
      ValueError: if the file has changed since the records were made.
    """
    table, data = task.table, task.data
    for fold, (_, records) in enumerate(runs):
        glue_examples.read_split(
            *(table, data.data_dir or "", records, "dev"),
            dev_share=[fold, data.folds],
            seed=DEV_SEED,
        )
    ids = {name: i for i, name in enumerate(task.class_names)}

    def to_label(named):
        if isinstance(named, list):
            return tuple(ids[name] for name in named)
        return ids[named] if ids else named

    found, files = [], [_read_rows(folder) for folder, _ in runs]
    path = os.path.join(output_dir, dev_results.PREDICTIONS, FILE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_files.atomic_file(path) as out:
        for fold in assign(task):
            row = {"fold": fold} | next(files[fold])
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            found.append([to_label(row[x]) for x in ("predicted", "label")])
    arrays = [task.label_array(x) for x in zip(*found, strict=True)]
    if table.multi_label:
        scores = metrics.f1_scores(*arrays)
    else:
        scores = metrics.compute(table.metrics, *arrays, "out of fold")
    shown = reporting.format_values(scores)
    logging.info("%s  %d rows  %s", path, len(found), shown)
    return {"rows": len(found)} | scores


def _read_rows(folder: str):
    path = os.path.join(folder, dev_results.PREDICTIONS, "dev.jsonl")
    with open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)
