"""Rows, scores, checks -> report.md: our numbers beside the paper's."""

import os
from collections.abc import Sequence

from bert_tf.training import reporting
from experiments.ablations import limitations, plan
from experiments.ablations import settings as ablation_settings
from experiments.ablations.checks import (
    NO,
    NOT_RUN,
    TOO_NEAR,
    YES,
    Check,
    percent,
)
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.plan import PERPLEXITY, TABLES, Row
from experiments.ablations.results import Score, Scores
from tfrecords.io import atomic_files

REPORT, PAGE = "report.md", "report.png"
_METRICS = {
    "matthews_correlation": "Matthews correlation",
    "spearman": "Spearman correlation",
    "f1": "F1",
    "entity_f1": "entity F1",
}
# Of its columns that are not accuracies.
_PAPER_METRICS = {
    "SQuAD": "F1",
    "NER": "F1",
    "NER, feature-based": "F1",
    PERPLEXITY: "",
}


def _is_trivial(score: Score) -> bool:
    """Returns whether one answer to all, or the like, is as good."""
    return score.trivial is not None and score.mean <= score.trivial


def cell(score: Score | None) -> str:
    """Returns a score as a table has it; a dash if it is missing."""
    if score is None:
        return "-"
    show = "{:.2f}".format if score.metric == "perplexity" else percent
    text = show(score.mean)
    if len(score.values) > 1:
        text += f" ± {show(score.error)}"
    return text + " †" * _is_trivial(score)


def line(cells: Sequence[str]) -> str:
    """Returns a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a Markdown table."""
    return [line(header), line(["---"] * len(header)), *map(line, rows)]


def _header(probe: Probe, scores: Sequence[Scores]) -> str:
    metric = next((s[probe.name].metric for s in scores if probe.name in s), "")
    metric = _METRICS.get(metric, metric)
    return f"{probe.name}, {metric}" if metric else probe.name


def _columns(name: str, rows, scores, probes):
    """Returns (key, header) of our columns, and the paper's columns."""
    wanted = plan.COLUMNS[name]
    ours = [
        (probe.name, _header(probe, scores))
        for probe in probes
        if probe.kind in wanted
    ]
    if name == "6":
        ours.insert(0, (PERPLEXITY, PERPLEXITY))
    paper = next((list(row.paper) for row in rows if row.paper), [])
    return ours, paper


def _table(name: str, rows, scores, probes) -> list[str]:
    ours, paper = _columns(name, rows, scores, probes)
    header = ["", *(title for _, title in ours)]
    lines = []
    for row, found in zip(rows, scores, strict=True):
        cells = [row.label, *(cell(found.get(key)) for key, _ in ours)]
        cells += [_of_paper(row, column) for column in paper]
        lines.append(cells)
    if name == "6":
        header.append("paper: size")
        paper_sizes = plan.sizes(plan.PAPER_BASE)
        for cells, model in zip(lines, paper_sizes, strict=True):
            cells.insert(1 + len(ours), model.size)
    for column in paper:
        metric = _PAPER_METRICS.get(column, "accuracy")
        header.append(f"paper: {column}" + (f", {metric}" if metric else ""))
    return table(header, lines)


def _of_paper(row: Row, column: str) -> str:
    """Returns the paper's number as the paper writes it; a dash for none."""
    if column not in row.paper:
        return "-"
    return f"{row.paper[column]:.{2 if column == PERPLEXITY else 1}f}"


def _figure(rows, scores, probes, settings) -> list[str]:
    """Returns the points of figure 5, a line a step."""
    ours, _ = _columns("figure5", rows, scores, probes)
    labels = (plan.MASKED_LM, plan.LEFT_TO_RIGHT)
    by_place = {
        (row.label, ablation_settings.step_of(row.share, settings)): found
        for row, found in zip(rows, scores, strict=True)
    }
    steps = sorted({step for _, step in by_place})
    header = ["steps"]
    header += [f"{title}, {label}" for _, title in ours for label in labels]
    lines = [
        [
            f"{step:,}",
            *(
                cell(by_place[label, step].get(key))
                for key, _ in ours
                for label in labels
            ),
        ]
        for step in steps
    ]
    return table(header, lines)


def _count(checks: Sequence[Check], whose: str) -> str:
    """Returns how many claims came out, in a sentence."""
    answers = [check.answer for check in checks]
    yes, no, near, missing = (
        answers.count(answer) for answer in (YES, NO, TOO_NEAR, NOT_RUN)
    )
    return (
        f"Of {len(checks)} claims of {whose}, {yes} came out, {no} did not, "
        f"{near} are too near to tell, and {missing} were not run."
    )


def _verdict(checks: Sequence[Check]) -> list[str]:
    """Returns what came out as in the paper, and what did not."""
    lines = []
    for title, whose, found in (
        (
            "Not as in the paper:",
            "the paper",
            [c for c in checks if c.is_paper_s],
        ),
        (
            "Ours that did not come out:",
            "ours (the same said of columns that the paper's table has not, "
            "and controls)",
            [c for c in checks if not c.is_paper_s],
        ),
    ):
        if not found:
            continue
        lines += ["", _count(found, whose)]
        wrong = [check for check in found if check.answer == NO]
        if wrong:
            lines += ["", title, ""]
            lines += [f"- {x.claim} Here: {x.detail}." for x in wrong]
    return lines[1:]


def text(
    rows: Sequence[Row],
    scores: Sequence[Scores],
    checks: Sequence[Check],
    probes: Sequence[Probe],
    settings: ablation_settings.Settings,
    base: plan.Model,
    seconds: float,
    command: str,
) -> str:
    """Returns the report.

    Args:
      rows: of the plan.
      scores: of each row.
      checks: of `checks.make`.
      probes: of the plan.
      settings: what the runs share.
      base: the base model.
      seconds: that the commands took which are done.
      command: that made it.
    """
    lines = ["# Ablations", "", *limitations.scale(settings, base), ""]
    lines += [*limitations.unlike(rows, probes, settings, base), ""]
    lines += ["## As in the paper?", "", *_verdict(checks), ""]
    lines += [f"![The tables as dots and curves]({PAGE})", ""]
    if any(_is_trivial(score) for found in scores for score in found.values()):
        lines += [
            "† No better than one answer to all or, of NER, than the tag that "
            "each word has most often in training: such a run has learnt "
            "nothing, or less than a list.",
            "",
        ]
    for name, title in TABLES.items():
        places = [i for i, row in enumerate(rows) if row.table == name]
        if not places:
            continue
        of_table = [rows[i] for i in places], [scores[i] for i in places]
        lines += [f"## {title}", ""]
        if name == "figure5":
            lines += _figure(*of_table, probes, settings)
        else:
            lines += _table(name, *of_table, probes)
        own = [check for check in checks if check.table == name]
        lines += [""] + table(
            ["claim", "whose", "here", ""],
            [
                (
                    check.claim,
                    "the paper's" if check.is_paper_s else "ours",
                    "**no**" if check.answer == NO else check.answer,
                    check.detail,
                )
                for check in own
            ],
        )
        lines.append("")
    taken = reporting.format_seconds(seconds)
    lines += [f"The commands took {taken} in all.", "", "```sh", command, "```"]
    return "\n".join(lines) + "\n"


def write(output_dir: str, content: str) -> None:
    """Writes report.md, whole or not at all."""
    with atomic_files.atomic_file(os.path.join(output_dir, REPORT)) as file:
        file.write(content)
