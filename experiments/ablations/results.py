"""Folders of runs that are done -> scores of rows: means over restarts."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.ablations import jobs
from experiments.ablations import settings as ablation_settings
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.plan import PERPLEXITY, Row
from tfrecords.io import atomic_files

RESULTS = "eval_results.json"
# The official scores of SQuAD are in percent, all others shares.
_FACTORS = {"squad": 0.01}


class Score(NamedTuple):
    """What runs of one kind reached.

    Attributes:
      values: one for each restart that is done; shares, or perplexities.
      metric: its name.
      trivial: what one answer to all scores, or the like; None if not known.
      is_constant: whether no chance is in it, as in `trivial`.
    """

    values: tuple[float, ...]
    metric: str
    trivial: float | None = None
    is_constant: bool = False

    @property
    def mean(self) -> float:
        """Mean over restarts."""
        return float(np.mean(self.values))

    @property
    def error(self) -> float:
        """Standard error of the mean; nan of one restart, 0 of a constant."""
        if self.is_constant:
            return 0.0
        if len(self.values) < 2:
            return math.nan
        return float(np.std(self.values, ddof=1) / math.sqrt(len(self.values)))


# Of each row, by the name of a probe or `PERPLEXITY`.
Scores = dict[str, Score]


def of_run(folder: str, kind: str) -> Score | None:
    """Returns the dev score of a fine-tuning's best model, if it is there.

    It is the accuracy of all tasks of GLUE that have one, as in the paper's
    tables 5 and 6, also where F1 picks the best model (MRPC and QQP).

    Args:
      folder: of its results.
      kind: of the probe.
    """
    path = os.path.join(folder, RESULTS)
    if not os.path.exists(path):
        return None
    results = atomic_files.read_json(path)
    dev = next(name for name in results if name.startswith("dev"))
    metric = results["best_metric"]
    if kind == "glue" and "accuracy" in results[dev]:
        metric = "accuracy"
    trivial = results.get("trivial", {}).get(dev, {}).get(metric)
    factor = _FACTORS.get(kind, 1.0)
    if trivial is not None:
        trivial *= factor
    return Score((factor * results[dev][metric],), metric, trivial)


def of_row(
    row: Row, probes: Iterable[Probe], settings: ablation_settings.Settings
) -> Scores:
    """Returns the scores of a row, as far as its runs are done."""
    found: Scores = {}
    step = ablation_settings.step_of(row.share, settings)
    for probe in jobs.probes_of(row, probes):
        runs = [
            of_run(
                os.path.join(
                    settings.output_dir,
                    jobs.result_folder(row, probe, step, restart),
                ),
                probe.kind,
            )
            for restart in range(settings.num_restarts)
        ]
        done = [run for run in runs if run]
        if done:
            values = tuple(run.values[0] for run in done)
            found[probe.name] = done[0]._replace(values=values)
    path = row.model and os.path.join(
        settings.output_dir, "pretrained", row.model.name, RESULTS
    )
    if path and row.table == "6" and os.path.exists(path):
        results = atomic_files.read_json(path)
        # At every checkpoint there is one; the last is meant.
        if results["step"] == settings.num_train_steps:
            value = results["perplexity"]
            found[PERPLEXITY] = Score((value,), "perplexity")
    return found


def of_rows(
    rows: Sequence[Row],
    probes: Sequence[Probe],
    settings: ablation_settings.Settings,
) -> list[Scores]:
    """Returns the scores of each row."""
    return [of_row(row, probes, settings) for row in rows]
