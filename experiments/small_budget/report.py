"""Folders of finished runs -> report.md and curves.png."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments import dev_scores, reports
from experiments.dev_scores import Score
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget.jobs import BUDGET, DEEP, PAPER, Settings
from tfrecords.io import json_files

FIGURE = "curves.png"
_COLORS = {BUDGET: "#1f6fb4", PAPER: "#d9730d", DEEP: "#3a9a4c"}
_NONE = "-"


class Curve(NamedTuple):
    """Held-out masked LM during a run, and after it.

    Attributes:
      hours: hours of training at each evaluation, on the cores of the run.
      accuracies: masked-LM accuracy at each.
      perplexities: perplexity of the masked tokens at each.
      steps: optimizer steps of the complete run.
      accuracy: final accuracy, on the records of all models.
      perplexity: final perplexity, on those.
    """

    hours: np.ndarray
    accuracies: np.ndarray
    perplexities: np.ndarray
    steps: int
    accuracy: float
    perplexity: float


def read_curve(recipe: str, index: int, settings: Settings) -> Curve | None:
    """Returns the curve of a pre-trained model; None if it was not scored.

    Args:
      recipe: recipe of the run.
      index: index of its seed.
      settings: settings of the experiment.
    """
    folder, scored = (
        os.path.join(settings.output_dir, name_of(recipe, index))
        for name_of in (budget_jobs.pretrained_name, budget_jobs.scored_name)
    )
    path = os.path.join(scored, dev_scores.RESULTS)
    if not os.path.exists(path):
        return None
    score = json_files.read(path)
    log = os.path.join(folder, "logs", "eval", "steps.jsonl")
    with open(log, encoding="utf-8") as file:
        points = [json.loads(line) for line in file]
    run = json_files.read(os.path.join(folder, "run.json"))
    shares = _token_shares([point["step"] for point in points], run)
    return Curve(
        settings.train_hours * shares,
        np.array([point["masked_lm_accuracy"] for point in points]),
        np.array([point["perplexity"] for point in points]),
        run["num_train_steps"],
        score["masked_lm_accuracy"],
        score["perplexity"],
    )


def _token_shares(steps: Sequence[int], run: Mapping) -> np.ndarray:
    """Returns the share of a run's tokens that are read at each step.

    Steps of different sequence lengths take different times, and their tokens
    nearly the same.

    Args:
      steps: optimizer steps.
      run: content of the run's run.json.
    """
    lengths = [size["max_seq_length"] for size in run["sizes"]]
    ends = np.cumsum([0, *run["phases"]])
    tokens = np.cumsum([0, *np.multiply(run["phases"], lengths)])
    return np.interp(steps, ends, tokens) / tokens[-1]


def read_curves(settings: Settings) -> dict[str, list[Curve]]:
    """Returns the curves of the finished runs of each recipe."""
    curves = {}
    for recipe in settings.recipes:
        found = [
            read_curve(recipe, index, settings)
            for index in range(settings.num_pretrainings)
        ]
        curves[recipe] = [curve for curve in found if curve]
    return curves


def read_score(
    row: str, task: EvaluationTask, settings: Settings
) -> Score | None:
    """Returns the dev scores of a task's finished runs; None without any."""
    names = [
        budget_jobs.fine_tuned_name(row, task, index)
        for index in range(settings.num_seeds)
    ]
    return dev_scores.over_seeds(settings.output_dir, names, task.kind)


def _show(score: Score | None, form: str) -> str:
    """Returns mean and standard error; a dash for no score."""
    return score.show(form) if score and score.values else _NONE


def _pretraining_table(
    curves: Mapping[str, Sequence[Curve]], settings: Settings
) -> list[str]:
    lines = []
    for recipe, of_recipe in curves.items():
        accuracy, perplexity = (
            Score(tuple(getattr(curve, name) for curve in of_recipe), name)
            for name in ("accuracy", "perplexity")
        )
        steps = sorted({curve.steps for curve in of_recipe})
        lines.append(
            [
                recipe,
                f"{settings.train_hours:g}",
                str(len(of_recipe)),
                ", ".join(f"{number:,}" for number in steps) or _NONE,
                _show(accuracy, "{:.3f}"),
                _show(perplexity, "{:.1f}"),
            ]
        )
    header = ["Recipe", "Hours", "Seeds", "Steps"]
    header += ["Masked-LM accuracy", "Perplexity"]
    return dev_scores.table(header, lines)


def _task_table(
    tasks: Sequence[EvaluationTask],
    tf_idf: Mapping[str, float],
    settings: Settings,
) -> list[str]:
    rows = budget_jobs.model_names(settings)
    lines = []
    for task in tasks:
        found = [read_score(row, task, settings) for row in rows]
        first = next((score for score in found if score), None)
        majority = first.baseline if first else None
        lines.append(
            [
                f"{task.name}, {first.metric}" if first else task.name,
                f"{task.num_train:,}",
                *(_show(score, "{:.3f}") for score in found),
                _number(tf_idf.get(task.name)),
                _number(majority),
            ]
        )
    header = ["Task, metric on dev", "Rows or windows", *rows]
    return dev_scores.table([*header, "TF-IDF", "Majority"], lines)


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def write(
    tasks: Sequence[EvaluationTask],
    tf_idf: Mapping[str, float],
    settings: Settings,
    command: str,
) -> None:
    """Writes report.md and curves.png on the finished runs.

    Args:
      tasks: tasks of the plan.
      tf_idf: name of a task -> score of TF-IDF and logistic regression.
      settings: settings of the experiment.
      command: command that writes this report.
    """
    curves = read_curves(settings)
    lines = ["# Pre-training on a small budget", ""]
    lines += _pretraining_table(curves, settings)
    lines += ["", f"![Masked LM over hours]({FIGURE})", ""]
    lines += _task_table(tasks, tf_idf, settings)
    lines += [
        "",
        "Mean and standard error over seeds. Majority: the most frequent "
        "class, or for NER the most frequent tag of each word.",
        "",
        "```sh",
        command,
        "```",
    ]
    reports.write(settings.output_dir, "\n".join(lines) + "\n")
    _draw(curves, settings)


def _draw(curves: Mapping[str, Sequence[Curve]], settings: Settings) -> None:
    figure = Figure(figsize=(10, 4))
    left, right = figure.subplots(1, 2)
    for name, of_recipe in curves.items():
        for index, curve in enumerate(of_recipe):
            style = {
                "color": _COLORS[name],
                "linewidth": 1.2,
                "label": name if index == 0 else None,
            }
            left.plot(curve.hours, curve.accuracies, **style)
            right.plot(curve.hours, curve.perplexities, **style)
    right.set_yscale("log")
    for axes, title in (
        (left, "Masked-LM accuracy, held-out text"),
        (right, "Perplexity of masked tokens, held-out text"),
    ):
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("hours of training")
        axes.grid(linewidth=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if any(curves.values()):
        left.legend(frameon=False)
    reports.save_figure(figure, settings.output_dir, FIGURE)
