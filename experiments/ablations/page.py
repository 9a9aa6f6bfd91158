"""Rows, scores, checks -> report.png: the tables as dots and curves."""

import os
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")  # Before pyplot looks for a screen.

import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402

from experiments.ablations import plan, report
from experiments.ablations import settings as ablation_settings
from experiments.ablations.checks import NO, NOT_RUN, TOO_NEAR, YES, Check
from experiments.ablations.evaluation_tasks import Probe  # noqa: E402
from experiments.ablations.plan import PERPLEXITY, Row  # noqa: E402
from experiments.ablations.results import Scores  # noqa: E402
from tfrecords.io import atomic_files  # noqa: E402

_COLORS = ("#1f6fb4", "#d9730d", "#3a9a4c", "#8b5bb5", "#777777", "#c23b3b")
_OF_ANSWERS = {
    YES: "#2c7a3d",
    NO: "#c23b3b",
    TOO_NEAR: "#b8860b",
    NOT_RUN: "#999999",
}
_PAPER = {"linestyle": "--", "linewidth": 1, "marker": "o", "markersize": 3}


def _of(rows, scores, table: str) -> list[tuple[Row, Scores]]:
    pairs = zip(rows, scores, strict=True)
    return [(row, found) for row, found in pairs if row.table == table]


def _dots(axes, found, names: Sequence[str], reference: bool) -> None:
    """Draws a group of dots for each column, a dot for each row.

    Args:
      axes: to draw on.
      found: rows and their scores.
      names: columns.
      reference: whether to draw differences from the first row.
    """
    for place, (row, scores) in enumerate(found):
        points = []
        for column, name in enumerate(names):
            score, first = scores.get(name), found[0][1].get(name)
            if score is None or (reference and first is None):
                continue
            value = 100 * (score.mean - (first.mean if reference else 0))
            shift = 0.6 * (place / max(1, len(found) - 1) - 0.5)
            error = 100 * score.error if len(score.values) > 1 else 0.0
            points.append((column + shift, value, error))
        if points:
            x, y, errors = zip(*points, strict=True)
            axes.errorbar(
                x,
                y,
                errors,
                color=_COLORS[place % len(_COLORS)],
                linestyle="",
                marker="o",
                label=row.label,
            )
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_ylabel("points above 80/10/10" if reference else "dev score, %")


def _set_sizes(axes, found) -> range:
    """Names the places of table 6 on the x axis; returns them."""
    places = range(len(found))
    axes.set_xticks(places, [row.label for row, _ in found])
    axes.tick_params(axis="x", labelrotation=25, labelsize=7)
    return places


def _perplexities(axes, found) -> None:
    places = _set_sizes(axes, found)
    ours = [scores.get(PERPLEXITY) for _, scores in found]
    values = [np.nan if score is None else score.mean for score in ours]
    axes.plot(places, values, color=_COLORS[0], marker="o", label="here")
    paper = [row.paper[PERPLEXITY] for row, _ in found]
    axes.plot(places, paper, color=_COLORS[4], label="paper", **_PAPER)
    axes.set_yscale("log")
    axes.set_ylabel("perplexity, held-out text")


def _sizes(axes, found, names) -> None:
    places = _set_sizes(axes, found)
    for place, name in enumerate(names):
        means = [
            100 * scores[name].mean if name in scores else np.nan
            for _, scores in found
        ]
        color = _COLORS[place % len(_COLORS)]
        axes.plot(places, means, color=color, marker="o", label=name)
        if name in found[0][0].paper:
            paper = [row.paper[name] for row, _ in found]
            axes.plot(
                places, paper, color=color, label=f"{name}, paper", **_PAPER
            )
    axes.set_ylabel("dev score, %")


def _steps(axes, found, names, settings) -> None:
    for place, name in enumerate(names):
        for label, style in (
            (plan.MASKED_LM, "-"),
            (plan.LEFT_TO_RIGHT, ":"),
        ):
            points = [
                (
                    ablation_settings.step_of(row.share, settings),
                    100 * scores[name].mean,
                )
                for row, scores in found
                if row.label == label and name in scores
            ]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    color=_COLORS[place % len(_COLORS)],
                    linestyle=style,
                    marker="o",
                    label=f"{name}, {label}",
                )
    axes.set_xlabel("steps of pre-training")
    axes.set_ylabel("dev score, %")


def _answers(axes, checks: Sequence[Check]) -> None:
    """Writes each claim with its answer."""
    axes.axis("off")
    axes.set_title("As in the paper?", loc="left")
    size = min(7.0, 200.0 / max(1, len(checks)))
    for place, check in enumerate(checks):
        text = f"{check.answer:9} {check.claim}"
        text += "" if check.is_paper_s else " Ours."
        axes.text(
            0,
            0.97 - place / max(20, len(checks)),
            text,
            va="top",
            fontsize=size,
            family="monospace",
            color=_OF_ANSWERS[check.answer],
        )


def draw(
    output_dir: str,
    rows: Sequence[Row],
    scores: Sequence[Scores],
    checks: Sequence[Check],
    probes: Sequence[Probe],
    settings: ablation_settings.Settings,
) -> None:
    """Draws report.png; arguments as those of `report.text`."""

    def names(table: str) -> list[str]:
        wanted = plan.COLUMNS[table]
        return [probe.name for probe in probes if probe.kind in wanted]

    found = {name: _of(rows, scores, name) for name in plan.TABLES}
    figure, panels = pyplot.subplots(3, 2, figsize=(13, 15))
    drawn = (
        ("5", lambda a: _dots(a, found["5"], names("5"), False), ""),
        ("8", lambda a: _dots(a, found["8"], names("8"), True), ""),
        ("6", lambda a: _perplexities(a, found["6"]), ": perplexity"),
        ("6", lambda a: _sizes(a, found["6"], names("6")), ": dev scores"),
        (
            "figure5",
            lambda a: _steps(a, found["figure5"], names("figure5"), settings),
            "",
        ),
    )
    for axes, (table, panel, more) in zip(panels.flat, drawn, strict=False):
        axes.set_title(plan.TABLES[table] + more, loc="left")
        if not found[table]:
            axes.axis("off")
            axes.text(0, 0.9, "not in this plan")
            continue
        panel(axes)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(
                frameon=False,
                fontsize=7,
                ncols=2,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.13),
            )
    _answers(panels[2, 1], checks)
    figure.suptitle("Ablations: the shape of the paper's tables", fontsize=14)
    figure.tight_layout()
    path = os.path.join(output_dir, report.PAGE)
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)
    pyplot.close(figure)
