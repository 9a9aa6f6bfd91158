"""Folder of a fine-tuning run -> scores, logs and data for its report."""

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoint import run_models
from bert_tf.training import reporting, run_folder
from bert_tf.workflows import run_history
from tfrecords.io import json_files
from tfrecords.io.records import Manifest, Records
from tfrecords.reading import static_lengths

ROWS = os.path.join("predictions", "{split}.jsonl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunData:
    """Scores, logs and data of a run.

    Attributes:
      name: name of its folder.
      results: content of eval_results.json.
      labels: class names, if the task has classes.
      rows: dev split -> evaluated rows, see `wrong_rows`; of tasks that write
        them.
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
    path = os.path.join(run_dir, run_folder.RESULTS)
    if not os.path.isfile(path):
        raise ValueError(
            f"{run_dir} has no {run_folder.RESULTS}. Give the output folder of "
            "a run that was evaluated."
        )
    results = json_files.read(path)
    if "task_name" not in results:
        raise ValueError(
            f"{path} is of pre-training. Give a run of run_glue, run_squad, "
            "run_swag or run_ner."
        )
    settings = {}
    if os.path.isfile(os.path.join(run_dir, run_models.SETTINGS)):
        settings = json_files.read(os.path.join(run_dir, run_models.SETTINGS))
    source = None
    if os.path.isfile(os.path.join(run_dir, run_history.FLAGS_FILE)):
        source = run_history.read_flags(run_dir)
    manifests = _read_manifests(run_dir, source)
    splits = [name for name in results if name.startswith("dev")]
    logs = {
        split: run_history.read_log(run_dir, split)
        for split in ("train", *splits)
        if os.path.isfile(run_history.log_path(run_dir, split))
    }
    return RunData(
        name=os.path.basename(os.path.abspath(run_dir)),
        results=results,
        labels=[*next(iter(results.get("classes", {}).values()), ())],
        rows={
            split: rows
            for split in splits
            if (rows := _read_lines(run_dir, ROWS.format(split=split)))
        },
        train_log=logs.pop("train", {}),
        dev_logs=logs,
        settings={n: x for n, x in settings.items() if n != "config"},
        model=settings.get("config", {}),
        source=source,
        manifests={name: x.manifest for name, x in manifests.items()},
        lengths=_read_lengths(manifests.get("train")),
        sessions=_read_lines(run_dir, reporting.SESSIONS),
    )


def _read_lines(run_dir: str, name: str) -> list[dict]:
    """Returns the objects of a file of JSON lines; [] if it is missing."""
    path = os.path.join(run_dir, name)
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = list(file)
    if name == reporting.SESSIONS and lines and not lines[-1].endswith("\n"):
        lines.pop()  # Cut by a kill, as it is appended.
    return [
        json_files.parse(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
    ]


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
