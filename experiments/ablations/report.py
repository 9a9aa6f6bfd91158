"""Rows, scores, checks -> report.md: our numbers next to the paper's."""

from collections.abc import Sequence

from bert_tf.training import reporting
from experiments import dev_scores
from experiments.ablations import limitations, tables
from experiments.ablations.checks import (
    NO,
    NOT_RUN,
    TOO_NEAR,
    YES,
    Check,
    show,
)
from experiments.ablations.results import Scores
from experiments.ablations.settings import Settings
from experiments.ablations.tables import PERPLEXITY, TABLES, Row
from experiments.dev_scores import Score
from experiments.evaluation_tasks import EvaluationTask

REPORT, FIGURE = "report.md", "report.png"
_METRICS = {
    "matthews_correlation": "Matthews correlation",
    "spearman": "Spearman correlation",
    "f1": "F1",
    "entity_f1": "entity F1",
}
# Metrics of the paper's columns that are not accuracies.
_PAPER_METRICS = {
    "SQuAD": "F1",
    "NER": "F1",
    "NER, feature-based": "F1",
    PERPLEXITY: "",
}


def _is_below_baseline(score: Score) -> bool:
    """Returns whether the majority-class baseline is at least as good."""
    # Not <=, which is false for NaN, an undefined score.
    return score.baseline is not None and not score.mean > score.baseline


def cell(score: Score | None) -> str:
    """Returns the table cell of a score; a dash if it is missing."""
    if score is None:
        return "-"
    return show(score) + " †" * _is_below_baseline(score)


def _header(task: EvaluationTask, scores: Sequence[Scores]) -> str:
    metric = next((s[task.name].metric for s in scores if task.name in s), "")
    metric = _METRICS.get(metric, metric)
    return f"{task.name}, {metric}" if metric else task.name


def _columns(name: str, rows, scores, tasks):
    """Returns (key, header) of our columns, and the paper's columns."""
    ours = [
        (task.name, _header(task, scores))
        for task in tasks
        if task.kind in tables.COLUMNS[name]
    ]
    if name == "6":
        ours.insert(0, (PERPLEXITY, PERPLEXITY))
    paper = next((list(row.paper) for row in rows if row.paper), [])
    return ours, paper


def _table(name: str, rows, scores, tasks) -> list[str]:
    ours, paper = _columns(name, rows, scores, tasks)
    header = ["", *(title for _, title in ours)]
    lines = []
    for row, row_scores in zip(rows, scores, strict=True):
        cells = [row.label, *(cell(row_scores.get(key)) for key, _ in ours)]
        cells += [_paper_number(row, column) for column in paper]
        lines.append(cells)
    if name == "6":
        header.append("paper: size")
        paper_sizes = tables.sizes(tables.PAPER_BASE)
        for cells, model in zip(lines, paper_sizes, strict=True):
            cells.insert(1 + len(ours), model.size)
    for column in paper:
        metric = _PAPER_METRICS.get(column, "accuracy")
        header.append(f"paper: {column}" + (f", {metric}" if metric else ""))
    return dev_scores.table(header, lines)


def _paper_number(row: Row, column: str) -> str:
    """Returns the paper's number in its format; a dash for none."""
    if column not in row.paper:
        return "-"
    return f"{row.paper[column]:.{2 if column == PERPLEXITY else 1}f}"


def _figure(rows, scores, tasks, settings: Settings) -> list[str]:
    """Returns the points of figure 5, one line per step."""
    ours, _ = _columns("figure5", rows, scores, tasks)
    labels = (tables.MASKED_LM, tables.LEFT_TO_RIGHT)
    points = {
        (row.label, settings.checkpoint_step(row.share)): row_scores
        for row, row_scores in zip(rows, scores, strict=True)
    }
    steps = sorted({step for _, step in points})
    header = ["steps"]
    header += [f"{title}, {label}" for _, title in ours for label in labels]
    lines = [
        [
            f"{step:,}",
            *(
                cell(points[label, step].get(key))
                for key, _ in ours
                for label in labels
            ),
        ]
        for step in steps
    ]
    return dev_scores.table(header, lines)


def _count(checks: Sequence[Check], source: str) -> str:
    """Returns how many claims hold, in a sentence."""
    answers = [check.answer for check in checks]
    yes, no, near, missing = (
        answers.count(answer) for answer in (YES, NO, TOO_NEAR, NOT_RUN)
    )
    return (
        f"Of {len(checks)} claims of {source}, {yes} hold here, {no} do not, "
        f"{near} are too near to tell, and {missing} were not run."
    )


def _verdict(checks: Sequence[Check]) -> list[str]:
    """Returns the counts of claims, and those that do not hold."""
    lines = []
    for title, source, own in (
        (
            "Claims of the paper that do not hold here:",
            "the paper",
            [c for c in checks if c.is_from_paper],
        ),
        (
            "Claims of ours that do not hold:",
            "ours (controls, and columns that the paper's table does not have)",
            [c for c in checks if not c.is_from_paper],
        ),
    ):
        if not own:
            continue
        lines += ["", _count(own, source)]
        wrong = [check for check in own if check.answer == NO]
        if wrong:
            lines += ["", title, ""]
            lines += [f"- {x.claim} Here: {x.detail}." for x in wrong]
    return lines[1:]


def text(
    rows: Sequence[Row],
    scores: Sequence[Scores],
    checks: Sequence[Check],
    tasks: Sequence[EvaluationTask],
    settings: Settings,
    seconds: float,
    command: str,
) -> str:
    """Returns the report.

    Args:
      rows: rows of the plan.
      scores: scores of each row.
      checks: result of `checks.make`.
      tasks: tasks of the plan.
      settings: settings of all runs.
      seconds: time that the finished commands took.
      command: command that writes this report.
    """
    lines = ["# Ablations", "", *limitations.scale(settings), ""]
    lines += [*limitations.differences(rows, tasks, settings), ""]
    lines += ["## Do the paper's claims hold?", "", *_verdict(checks), ""]
    lines += [f"![The tables as dots and curves]({FIGURE})", ""]
    if any(
        _is_below_baseline(s)
        for row_scores in scores
        for s in row_scores.values()
    ):
        lines += [
            "† No better than the majority-class baseline or, for NER, than "
            "each word's most frequent tag in training.",
            "",
        ]
    for name, title in TABLES.items():
        indices = [i for i, row in enumerate(rows) if row.table == name]
        if not indices:
            continue
        of_table = [rows[i] for i in indices], [scores[i] for i in indices]
        lines += [f"## {title}", ""]
        if name == "figure5":
            lines += _figure(*of_table, tasks, settings)
        else:
            lines += _table(name, *of_table, tasks)
        own = [check for check in checks if check.table == name]
        lines += [""] + dev_scores.table(
            ["claim", "source", "here", ""],
            [
                (
                    check.claim,
                    "the paper's" if check.is_from_paper else "ours",
                    "**no**" if check.answer == NO else check.answer,
                    check.detail,
                )
                for check in own
            ],
        )
        lines.append("")
    taken = reporting.format_seconds(seconds)
    lines += [
        f"The commands took {taken} in total.",
        "",
        "```sh",
        command,
        "```",
    ]
    return "\n".join(lines) + "\n"
