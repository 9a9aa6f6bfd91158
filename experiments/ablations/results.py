"""Folders of finished runs -> scores of rows, means over seeds."""

import math
import os
from collections.abc import Iterable, Sequence

from bert_tf.checkpoint import run_models
from experiments import dev_scores
from experiments.ablations import jobs
from experiments.ablations.settings import Settings
from experiments.ablations.tables import PERPLEXITY, Model, Row
from experiments.dev_scores import Score
from experiments.evaluation_tasks import EvaluationTask

# Scores of a row, by the name of a task or `PERPLEXITY`.
Scores = dict[str, Score]


def row_scores(
    row: Row, tasks: Iterable[EvaluationTask], settings: Settings
) -> Scores:
    """Returns the scores of a row's finished runs."""
    scores: Scores = {}
    step = settings.checkpoint_step(row.share)
    for task in jobs.row_tasks(row, tasks):
        names = [
            jobs.result_folder(row, task, step, index)
            for index in range(settings.num_seeds)
        ]
        score = dev_scores.over_seeds(settings.output_dir, names, task.kind)
        if score:
            scores[task.name] = score
    if row.table == "6":
        values = _perplexities(row.model, settings)
        if values:
            scores[PERPLEXITY] = Score(values, "perplexity")
    return scores


def _perplexities(model: Model, settings: Settings) -> tuple[float, ...]:
    """Returns the perplexities of a model's finished pre-trainings."""
    values = []
    for index in range(settings.num_seeds):
        name = jobs.pretraining_name(model, index)
        folder = os.path.join(settings.output_dir, name)
        if os.path.exists(os.path.join(folder, run_models.RESULTS)):
            results = run_models.read_results(folder)
            # The file is rewritten at every checkpoint.
            if results["step"] == settings.num_train_steps:
                values.append(results.get("perplexity") or math.nan)
    return tuple(values)


def all_scores(
    rows: Sequence[Row],
    tasks: Sequence[EvaluationTask],
    settings: Settings,
) -> list[Scores]:
    """Returns the scores of each row."""
    return [row_scores(row, tasks, settings) for row in rows]
