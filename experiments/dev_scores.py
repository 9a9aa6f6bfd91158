"""Folders of finished runs -> dev scores over seeds, tables of them."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.checkpoint import run_models
from bert_tf.workflows import trial_results

RESULTS = run_models.RESULTS
# The official scores of SQuAD are in percent, all others are fractions.
_FACTORS = {"squad": 0.01}


class Score(NamedTuple):
    """Score of a task over seeds.

    Attributes:
      values: one for each finished seed; fractions, or perplexities. NaN for
        a score that is undefined.
      metric: name of the metric.
      baseline: score of the majority-class (for NER: most-frequent-tag)
        baseline; None if not known.
      is_constant: whether it is free of random error, like `baseline`.
    """

    values: tuple[float, ...]
    metric: str
    baseline: float | None = None
    is_constant: bool = False

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values))

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for one seed, 0 for a constant."""
        if self.is_constant:
            return 0.0
        if len(self.values) < 2:
            return math.nan
        return float(np.std(self.values, ddof=1) / math.sqrt(len(self.values)))

    def show(self, form: str) -> str:
        """Returns the mean and, of more than one seed, the standard error.

        Args:
          form: how to write a number, such as `{:.3f}`.
        """
        mean, error = form.format(self.mean), form.format(self.error)
        return f"{mean} ± {error}" if len(self.values) > 1 else mean


def read_score(folder: str, kind: str) -> Score | None:
    """Returns the dev score of a fine-tuning's best model; None if not done.

    For GLUE tasks that report accuracy, this is the accuracy, as in the paper's
    tables 5 and 6, even if F1 selects the best model (MRPC and QQP).

    Args:
      folder: folder of the results.
      kind: kind of the task.
    """
    if not os.path.exists(os.path.join(folder, RESULTS)):
        return None
    results = trial_results.read_evaluation(folder)
    dev = next(name for name in results if name.startswith("dev"))
    metric = results["best_metric"]
    if kind == "glue" and "accuracy" in results[dev]:
        metric = "accuracy"
    baseline = results[run_models.BASELINE].get(dev, {}).get(metric)
    factor = _FACTORS.get(kind, 1.0)
    if baseline is not None:
        baseline *= factor
    score = results[dev][metric]
    value = math.nan if score is None else factor * score
    return Score((value,), metric, baseline)


def over_seeds(
    output_dir: str, names: Iterable[str], kind: str
) -> Score | None:
    """Returns the scores of finished runs as one; None if none is finished.

    Args:
      output_dir: folder of all runs.
      names: folders of the results in it, one for each seed.
      kind: kind of the task.
    """
    runs = [read_score(os.path.join(output_dir, name), kind) for name in names]
    done = [run for run in runs if run]
    if not done:
        return None
    return done[0]._replace(values=tuple(run.values[0] for run in done))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
