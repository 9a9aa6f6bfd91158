"""Folder of a fine-tuning run -> scores, logs and data for its report."""

import collections
import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoint import run_models
from bert_tf.training import reporting
from bert_tf.workflows import run_history, trial_results
from tfrecords import options
from tfrecords.io import json_files
from tfrecords.io.json_files import Finite
from tfrecords.io.records import Manifest, Records
from tfrecords.reading import static_lengths

ROWS = os.path.join("predictions", "{split}.jsonl")
# Form of each row, see `json_files.check`.
_ROW = {"source": str, "text_a": str, "text_b?": str}
_AGAIN = "Evaluate the run again with run_... --do_eval."


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunData:
    """Scores, logs and data of a run.

    Attributes:
      name: name of its folder.
      results: content of eval_results.json.
      labels: class names, if the task has classes.
      rows: split -> evaluated rows, see `wrong_rows`; of tasks that write them.
      train_log, dev_logs: logged values of each step.
      settings: content of run.json, without the sizes of the model.
      model: sizes of the model.
      source: script, versions and flags; None without run.flags.
      manifests: split -> manifest of its records, of those that are there.
      lengths: lengths of the training rows in tokens; empty if unknown.
      sessions: seconds and peak memory of each process that trained.
    """

    name: str
    results: Mapping[str, Any]
    labels: Sequence[str]
    rows: Mapping[str, list[dict]]
    train_log: Mapping[int, Mapping[str, float]]
    dev_logs: Mapping[str, Mapping[int, Mapping[str, float]]]
    settings: Mapping[str, Any]
    model: Mapping[str, Any]
    source: run_history.Source | None
    manifests: Mapping[str, Manifest]
    lengths: np.ndarray
    sessions: Sequence[Mapping[str, float]]

    @property
    def scores(self) -> list[tuple[str, str, float | None, float | None]]:
        """Split, metric, score and baseline of each score."""
        return run_models.scores(self.results)

    def evaluated(self, split: str) -> dict[str, str]:
        """Returns digests of what a dev split was evaluated on, if known.

        Of its "rows", and of the file of its "records".
        """
        found = {}
        if split in self.rows:
            keys = ("text_a", "text_b", "label")
            rows = [[row.get(key) for key in keys] for row in self.rows[split]]
            found["rows"] = hashlib.sha256(
                json.dumps(rows).encode()
            ).hexdigest()
        if split in self.manifests:
            manifest = self.manifests[split]
            if source := manifest.flags.get("source_sha256"):
                found["records"] = f"{source} {manifest.num_examples}"
        return found


def read(run_dir: str) -> RunData:
    """Returns the scores, logs and data of a run.

    Raises:
      ValueError: if the folder has no eval_results.json of a fine-tuning, or a
        file in it is damaged.
    """
    results = trial_results.read_evaluation(run_dir)
    _check_classes(results, os.path.join(run_dir, run_models.RESULTS))
    settings = run_models.read_settings(run_dir)
    source = run_history.read_flags(run_dir)
    manifests = _read_manifests(run_dir, source)
    splits = [x for x in results if x.startswith(("dev", "test"))]
    logs = {
        split: log
        for split in ("train", *splits)
        if (log := run_history.read_log(run_dir, split))
    }
    labels = [*next(iter(results.get("classes", {}).values()), ())]
    sessions = reporting.read_lines(
        os.path.join(run_dir, reporting.SESSIONS), reporting.SESSION
    )
    return RunData(
        name=os.path.basename(os.path.abspath(run_dir)),
        results=results,
        labels=labels,
        rows={
            split: rows
            for split in splits
            if (rows := _read_rows(run_dir, results, split, labels))
        },
        train_log=logs.pop("train", {}),
        dev_logs=logs,
        settings={n: x for n, x in settings.items() if n != "config"},
        model=settings.get("config") or {},
        source=source,
        manifests={name: x.manifest for name, x in manifests.items()},
        lengths=_read_lengths(manifests.get("train")),
        sessions=[values for _, values in sessions],
    )


def _check_classes(results: Mapping, path: str) -> None:
    """Raises ValueError unless classes and confusion matrix agree in size."""
    all_classes = results.get("classes", {})
    matrices = results.get("confusion_matrix", {})
    for split in {**all_classes, **matrices}:
        classes = all_classes.get(split, {})
        matrix = matrices.get(split, [[0] * len(classes)] * len(classes))
        sizes = {len(classes), len(matrix), *map(len, matrix)}
        names = {tuple(scores) for scores in classes.values()}
        if split not in results or len(names) != 1 or len(sizes) != 1:
            raise ValueError(
                f"{path}: the classes or the confusion matrix of {split} are "
                f"not complete. {_AGAIN}"
            )


def _read_rows(
    run_dir: str, results: Mapping, split: str, labels: Sequence[str]
) -> list[dict]:
    """Returns the evaluated rows of a dev split; [] if there are none."""
    path = os.path.join(run_dir, ROWS.format(split=split))
    if not os.path.lexists(path):
        return []
    rows, counts = [], collections.Counter()
    form = {"label": str, "predicted": str, "probabilities": [Finite]}
    if not labels:
        form = {"label": Finite, "predicted": Finite}
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            row = json_files.parse(line, f"{path}:{number}", _ROW)
            if labels and not rows and isinstance(row.get("label"), list):
                form |= {"label": [str], "predicted": [str]}
            json_files.check(row, form, f"{path}:{number}")
            rows.append(row)
            if not labels:
                continue
            given, predicted = (
                x if isinstance(x, list) else [x]
                for x in (row["label"], row["predicted"])
            )
            counts.update(given)
            is_known = {*given, *predicted} <= {*labels}
            if not (is_known and len(row["probabilities"]) == len(labels)):
                raise ValueError(
                    f"{path}:{number}: the labels or the number of "
                    f"probabilities are not those of {run_models.RESULTS}, "
                    f"{options.some(labels)}. {_AGAIN}"
                )
    for label, scores in results.get("classes", {}).get(split, {}).items():
        if counts[label] != scores["support"]:
            raise ValueError(
                f"{path} has {counts[label]} rows of {label!r}; "
                f"{run_models.RESULTS} has {scores['support']}. {_AGAIN}"
            )
    return rows


def _read_manifests(run_dir: str, source) -> dict[str, Records]:
    """Returns split -> its records, if they are where the run had them."""
    folder = os.path.join(run_dir, "records")
    if source and "records_dir" in source.flags:
        folder = source.flags["records_dir"]
    paths = sorted(
        glob.glob(os.path.join(glob.escape(folder), "*/manifest.json"))
    )
    return {
        os.path.basename(os.path.dirname(path)): Records.open(
            os.path.dirname(path)
        )
        for path in paths
    }


def _read_lengths(records: Records | None) -> np.ndarray:
    if records is None:
        return np.zeros(0, int)
    return static_lengths.read(
        records, records.manifest.sizes["max_seq_length"]
    )
