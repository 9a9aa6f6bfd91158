"""Rows, scores, checks -> report.png: the tables as dots and curves."""

import os
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.ablations import report, tables
from experiments.ablations.checks import NO, NOT_RUN, TOO_NEAR, YES, Check
from experiments.ablations.results import Scores
from experiments.ablations.settings import Settings
from experiments.ablations.tables import PERPLEXITY, Row
from experiments.dev_scores import Score
from experiments.evaluation_tasks import EvaluationTask
from tfrecords.io import atomic_files

_COLORS = ("#1f6fb4", "#d9730d", "#3a9a4c", "#8b5bb5", "#777777", "#c23b3b")
_OF_ANSWERS = {
    YES: "#2c7a3d",
    NO: "#c23b3b",
    TOO_NEAR: "#b8860b",
    NOT_RUN: "#999999",
}
_PERCENT = 0.01
_PAPER = {"linestyle": "--", "linewidth": 1, "marker": "o", "markersize": 3}


def _table_rows(rows, scores, table: str) -> list[tuple[Row, Scores]]:
    pairs = zip(rows, scores, strict=True)
    return [
        (row, row_scores) for row, row_scores in pairs if row.table == table
    ]


def _dots(axes, pairs, names: Sequence[str], reference: bool) -> None:
    """Draws a group of dots for each column, one dot per row.

    Args:
      axes: axes to draw on.
      pairs: rows and their scores.
      names: columns.
      reference: whether to draw differences from the first row.
    """
    for index, (row, scores) in enumerate(pairs):
        points = []
        for column, name in enumerate(names):
            score, first = scores.get(name), pairs[0][1].get(name)
            if score is None or (reference and first is None):
                continue
            value = 100 * (score.mean - (first.mean if reference else 0))
            shift = 0.6 * (index / max(1, len(pairs) - 1) - 0.5)
            points.append((column + shift, value, 100 * score.error))
        if points:
            x, y, errors = zip(*points, strict=True)
            axes.errorbar(
                x,
                y,
                errors,
                color=_COLORS[index % len(_COLORS)],
                linestyle="",
                marker="o",
                label=row.label,
            )
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_ylabel(
        "dev score, points above 80/10/10" if reference else "dev score, %"
    )


def _set_sizes(axes, pairs) -> range:
    """Labels the x axis with the sizes of table 6; returns their positions."""
    positions = range(len(pairs))
    axes.set_xticks(positions, [row.label for row, _ in pairs])
    axes.tick_params(axis="x", labelrotation=25, labelsize=9)
    return positions


def _curve(
    axes, x: Sequence, scores: Sequence[Score | None], unit=1.0, **style
) -> None:
    """Draws means with error bars, in multiples of `unit`; None is a gap."""
    numbers = [
        (score.mean / unit, score.error / unit) if score else (np.nan, np.nan)
        for score in scores
    ]
    means, errors = zip(*numbers, strict=True)
    axes.errorbar(x, means, errors, marker="o", **style)


def _perplexities(axes, pairs) -> None:
    positions = _set_sizes(axes, pairs)
    ours = [scores.get(PERPLEXITY) for _, scores in pairs]
    _curve(axes, positions, ours, color=_COLORS[0], label="here")
    paper = [row.paper[PERPLEXITY] for row, _ in pairs]
    axes.plot(positions, paper, color=_COLORS[4], label="paper", **_PAPER)
    axes.set_yscale("log")
    axes.set_ylabel("perplexity, held-out text")


def _sizes(axes, pairs, names) -> None:
    positions = _set_sizes(axes, pairs)
    for index, name in enumerate(names):
        ours = [scores.get(name) for _, scores in pairs]
        color = _COLORS[index % len(_COLORS)]
        _curve(axes, positions, ours, _PERCENT, color=color, label=name)
        if name in pairs[0][0].paper:
            paper = [row.paper[name] for row, _ in pairs]
            axes.plot(
                positions, paper, color=color, label=f"{name}, paper", **_PAPER
            )
    axes.set_ylabel("dev score, %")


def _steps(axes, pairs, names, settings) -> None:
    for label, linestyle in (
        (tables.MASKED_LM, "-"),
        (tables.LEFT_TO_RIGHT, ":"),
    ):
        of_label = [
            (row, scores) for row, scores in pairs if row.label == label
        ]
        steps = [settings.checkpoint_step(row.share) for row, _ in of_label]
        for index, name in enumerate(names):
            ours = [scores.get(name) for _, scores in of_label]
            if not any(ours):
                continue
            _curve(
                axes,
                steps,
                ours,
                _PERCENT,
                color=_COLORS[index % len(_COLORS)],
                linestyle=linestyle,
                label=f"{name}, {label}",
            )
    axes.set_xlabel("pre-training steps")
    axes.set_ylabel("dev score, %")


def _answers(axes, checks: Sequence[Check]) -> None:
    """Writes each claim with its answer."""
    axes.axis("off")
    axes.set_title("Do the paper's claims hold?", loc="left")
    size = min(8.5, 200.0 / max(1, len(checks)))
    for index, check in enumerate(checks):
        text = f"{check.answer:9} {check.claim}"
        text += "" if check.is_from_paper else " Ours."
        axes.text(
            0,
            0.97 - index / max(20, len(checks)),
            text,
            va="top",
            fontsize=size,
            family="monospace",
            color=_OF_ANSWERS[check.answer],
        )


def draw(
    rows: Sequence[Row],
    scores: Sequence[Scores],
    checks: Sequence[Check],
    tasks: Sequence[EvaluationTask],
    settings: Settings,
) -> None:
    """Draws report.png; for the arguments see `report.text`."""
    figure = Figure(figsize=(13, 15))
    panels = figure.subplots(3, 2)
    drawn = (
        ("5", "", lambda *a: _dots(*a, reference=False)),
        ("8", "", lambda *a: _dots(*a, reference=True)),
        (
            "6",
            ": perplexity",
            lambda axes, pairs, _: _perplexities(axes, pairs),
        ),
        ("6", ": dev scores", _sizes),
        ("figure5", "", lambda *a: _steps(*a, settings)),
    )
    for axes, (table, more, draw_panel) in zip(
        panels.flat, drawn, strict=False
    ):
        axes.set_title(tables.TABLES[table] + more, loc="left")
        pairs = _table_rows(rows, scores, table)
        if not pairs:
            axes.axis("off")
            axes.text(0, 0.9, "not in this plan")
            continue
        wanted = tables.COLUMNS[table]
        draw_panel(axes, pairs, [t.name for t in tasks if t.kind in wanted])
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(
                frameon=False,
                fontsize=9,
                ncols=2,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.19),
            )
    _answers(panels[2, 1], checks)
    figure.suptitle("Ablations: the shape of the paper's tables", fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.985))  # The title is above all.
    path = os.path.join(settings.output_dir, report.FIGURE)
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)
