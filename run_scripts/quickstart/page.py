"""Summary and logs of a quickstart run -> one PNG of curves and tables."""

import json
import os
import textwrap

import matplotlib

matplotlib.use("Agg")  # Before pyplot looks for a display.

import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402

from bert_tf.training.reporting import metric_words
from run_scripts.quickstart import task as quickstart_task
from tfrecords.io import atomic_files
from tfrecords.tasks import glue_tables

_POINTS = 80  # Per curve, approximately.
_TEXT_WIDTH = 40  # Characters.
_BLUE, _ORANGE, _GREY = "#1f6fb4", "#b85c00", "#6b6b6b"
# Key of the summary -> words of the table.
_WORDS = {
    "masked_lm_accuracy": "masked tokens guessed",
    "unigram_accuracy": "by the most frequent token",
    "pretrained_accuracy": "dev score, pre-trained",
    "from_scratch_accuracy": "dev score, from scratch",
    "margin": "gain of pre-training",
    "served_accuracy": "dev score, SavedModel",
}
# Part of the logs -> style of its curve.
_PARTS = (
    ("train", {"alpha": 0.5, "label": "training batches"}),
    ("eval", {"marker": "o", "label": "held-out documents"}),
)


def read_steps(run_dir: str, part: str) -> list[dict]:
    """Returns the logged values of a run, a dict per line; [] without logs."""
    path = os.path.join(run_dir, "logs", part, "steps.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _curve(axes, lines: list[dict], name: str, **style) -> None:
    """Draws about `_POINTS` points, each the mean of consecutive steps."""
    points = [
        (line["step"], line[name])
        for line in lines
        if line.get(name) is not None  # null if it is undefined.
    ]
    each = max(1, len(points) // _POINTS)
    groups = [points[i : i + each] for i in range(0, len(points), each)]
    if groups:
        means = [np.mean(group, axis=0) for group in groups]
        axes.plot(*zip(*means, strict=True), **style)


def _accuracy_panel(axes, folder: str, baseline: float) -> None:
    for part, style in _PARTS:
        lines = read_steps(os.path.join(folder, "pretrained"), part)
        _curve(axes, lines, "masked_lm_accuracy", color=_BLUE, **style)
    axes.axhline(
        baseline, color=_GREY, linestyle="--", label="most frequent token"
    )
    axes.set_title("Pre-training: masked-LM accuracy")


def _loss_panel(axes, folder: str) -> None:
    for part, style in _PARTS:
        lines = read_steps(os.path.join(folder, "pretrained"), part)
        _curve(axes, lines, "masked_lm_loss", color=_BLUE, **style)
    axes.set_title("Pre-training: masked-LM loss, nats")
    axes.set_ylim(bottom=0)


def _fine_tuning_panel(
    axes, folder: str, metric: str, dev: str, task: str
) -> None:
    for name, color, label in (
        ("fine_tuned", _BLUE, "pre-trained"),
        ("from_scratch", _ORANGE, "from scratch"),
    ):
        lines = read_steps(os.path.join(folder, name), dev)
        _curve(axes, lines, metric, color=color, marker=".", label=label)
    title = f"{task[0].upper()}{task[1:]}: dev {metric_words(metric)}"
    axes.set_title(title)


def _summary_rows(summary: dict) -> list[tuple[str, str]]:
    rows = [
        (words, shown(summary[name]))
        for name, words in _WORDS.items()
        if name in summary
    ]
    return rows + [
        (f"{name.replace('_', ' ')}, seconds", f"{value:.0f}")
        for name, value in summary["seconds"].items()
    ]


def _table(axes, rows, title: str) -> None:
    axes.axis("off")
    axes.set_title(title, loc="left")
    table = axes.table(
        rows, loc="upper left", cellLoc="left", colWidths=(0.7, 0.3), edges="B"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(11)
    table.scale(1, 1.3)
    for cell in table.get_celld().values():
        cell.set_edgecolor("#d5d5d5")
        cell.PAD = 0


def _filled_lines(folder: str) -> list[str]:
    """Returns each sentence, followed by the candidates for its masks."""
    lines = []
    with open(os.path.join(folder, "filled.jsonl"), encoding="utf-8") as file:
        for row in file:
            answer = json.loads(row)
            lines += textwrap.wrap(answer["text"], _TEXT_WIDTH)
            for mask in answer["masks"]:
                candidates = "   ".join(
                    f"{c['token']} {c['probability']:.2f}" for c in mask[:4]
                )
                lines.append(f"   {candidates}")
            lines.append("")
    return lines


def shown(score: float | None) -> str:
    """Returns a score as text."""
    return "undefined" if score is None else f"{score:.3f}"


def _meanings(summary: dict, task: str) -> list[str]:
    """Returns a sentence on each number that needs one, in lines."""
    metric = metric_words(summary["metric"])
    sentences = (
        f"Of the tokens masked in held-out documents, "
        f"{summary['masked_lm_accuracy']:.0%} are guessed; the most frequent "
        f"token alone gets {summary['unigram_accuracy']:.0%}.",
        f"On the task, {task}, pre-training adds {shown(summary['margin'])} to "
        f"the {metric} of the same model from scratch.",
        f"The SavedModel, in a fresh process, has "
        f"{shown(summary['served_accuracy'])}; in training it had "
        f"{shown(summary['pretrained_accuracy'])}.",
        "Below, each guess has its probability.",
    )
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(sentence, _TEXT_WIDTH + 6)
    return lines


def _text(axes, lines: list[str], title: str) -> None:
    axes.axis("off")
    axes.set_title(title, loc="left")
    axes.text(0, 0.97, "\n".join(lines), va="top", fontsize=11, linespacing=1.5)


def draw(folder: str, summary: dict, task: glue_tables.GlueTask) -> None:
    """Draws `page.png` in the folder of a quickstart run.

    Args:
      folder: --output_dir of the quickstart.
      summary: content of summary.json.
      task: the task, see `task.find`.
    """
    name = "which library" if task.name == "library" else task.name
    figure, panels = pyplot.subplots(
        3, 2, figsize=(8.5, 11.5), height_ratios=(1, 1, 1.5)
    )
    _loss_panel(panels[0, 0], folder)
    _accuracy_panel(panels[0, 1], folder, summary["unigram_accuracy"])
    dev = quickstart_task.dev_split(task)
    _fine_tuning_panel(panels[1, 0], folder, summary["metric"], dev, name)
    _text(panels[1, 1], _meanings(summary, name), "What the numbers mean")
    for axes in panels.flat[:3]:
        axes.set_xlabel("optimizer step")
        # Below, where it hides no line.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18)}
        axes.legend(edgecolor="none", ncols=2, fontsize=9.5, **place)
        axes.locator_params(nbins=5)
        axes.spines[["top", "right"]].set_visible(False)
    _table(panels[2, 0], _summary_rows(summary), "Summary")
    _text(panels[2, 1], _filled_lines(folder), "Masked words filled")
    figure.suptitle("From raw text to a served BERT: quickstart", fontsize=15)
    figure.tight_layout()
    path = os.path.join(folder, "page.png")
    with atomic_files.atomic_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)
    pyplot.close(figure)
