"""Scores, logs and data of runs -> report.html, one file.

It has no scripts and loads nothing; all text is escaped. It is readable in the
dark and in print.
"""

import html
import string
from collections.abc import Iterable, Sequence
from math import isfinite

from bert_tf.checkpoint import run_models
from bert_tf.contrib.apps.report import figures, verdict, wrong_rows
from bert_tf.contrib.apps.report.run_data import RunData
from bert_tf.tasks.texts import calibration
from bert_tf.training.reporting import format_seconds, metric_words

_MAX_ROWS = 20
_MAX_TEXT = 300  # Characters of a text.
_SHORT = 24  # Characters of a cell that is not broken.
_SMALL = 5  # Classes with fewer rows than this are marked.

_PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1b1b1b;
  --soft: #666; --line: #d5d5d5; --box: #f6f6f6;
  --c0: #1f6fb4; --c1: #b85c00; --c2: #1d7a3d; --c3: #8a3fa0; }
@media (prefers-color-scheme: dark) { :root { --back: #16181b; --text: #e8e8e8;
  --soft: #a5a5a5; --line: #3a3d42; --box: #1f2226;
  --c0: #6cb2f0; --c1: #f0a050; --c2: #6fcf8f; --c3: #d59be6; } }
@media print { :root { --back: #fff; --text: #000; --soft: #444;
  --line: #bbb; --box: #fff; } section { break-inside: avoid-page; } }
body { background: var(--back); color: var(--text); margin: 2em auto;
  font: 15px/1.5 system-ui, sans-serif; max-width: 62em; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em;
  border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; margin: .8em 0; font-size: 93%; }
th, td { text-align: left; padding: 3px 10px; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th, td.n, td.short { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); } .box { background: var(--box); padding: .6em 1em;
  border-left: 3px solid var(--c1); }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--text); } svg .grid { stroke: var(--line); fill: none; }
details > summary { cursor: pointer; }
.scroll { overflow-x: auto; } .plot { display: inline-block;
  max-width: min(100%, 420px); vertical-align: top; }
.plot span { margin-right: 1.2em; font-size: 85%; }
h1, h2, p, .plot, summary { overflow-wrap: anywhere; }
@media (max-width: 40em) { body { margin: 1em auto; padding: 0 .7em; }
  th, td { padding: 3px 6px; } td:not(.n):not(.short) { min-width: 15em; } }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")


def make(runs: Sequence[RunData], advice: Sequence[str] = ()) -> str:
    """Returns the page of one run, or of several side by side.

    Args:
      runs: the runs, of the same task.
      advice: lines that follow the scores.
    """
    names = ", ".join(run.name for run in runs)
    title = f"{runs[0].results['task_name']}, run {names}"
    sections = [
        section(
            f"Verdict{f' of {run.name}' * (len(runs) > 1)}",
            *paragraphs(verdict.make(run)),
        )
        for run in runs
    ]
    sections += [
        section(
            "Scores",
            _scores(runs),
            *map(_box, [*_not_comparable(runs), *advice]),
        ),
        section("Training", *_curves(runs)),
        section("Classes", _classes(runs)),
    ]
    for run in runs:
        of = f" of {run.name}" if len(runs) > 1 else ""
        for split, matrix in run.results.get("confusion_matrix", {}).items():
            figure = figures.matrix(matrix, run.labels)
            sections.append(
                section(
                    f"Confusion on {split}{of}",
                    "<p class='soft'>Rows are labels, columns predictions.</p>",
                    f"<div class='scroll'>{figure}</div>",
                )
            )
        for split, rows in run.rows.items():
            heading = f"How sure on {split}{of}"
            sections.append(section(heading, _reliability(run, rows)))
            heading = f"Most wrong rows of {split}{of}"
            sections.append(section(heading, _wrong(run, rows)))
            # The probabilities of another model say nothing of labels.
            if verdict.beats_baseline(run, split):
                heading = f"Labels of {split} that are probably wrong{of}"
                sections.append(section(heading, _mislabelled(run, rows)))
        sections += [
            section(f"Lengths and data{of}", _data(run)),
            section(f"Settings{of}", settings(run)),
        ]
    return document(title, *sections)


def document(title: str, *sections: str) -> str:
    """Returns a page of sections, without those that are empty."""
    body = "\n".join(filter(None, sections))
    return _PAGE.substitute(title=html.escape(title), body=body)


def _not_comparable(runs: Sequence[RunData]) -> list[str]:
    """Returns a line for each dev split that is not the same in all runs."""
    found = []
    splits = dict.fromkeys(split for run in runs for split, *_ in run.scores)
    for split in splits:
        known = [run.evaluated(split) for run in runs]
        digests = {x["rows"] for x in known if "rows" in x}
        if not all("rows" in x for x in known):
            digests = {x["records"] for x in known if "records" in x}
        if len(digests) > 1:
            found.append(
                f"The runs were evaluated on different rows of {split}, so "
                "their scores cannot be compared. Evaluate them with the same "
                "--dev_file."
            )
    return found


def section(title: str, *parts: str) -> str:
    """Returns a section; "" if it has no content."""
    content = "\n".join(filter(None, parts))
    if not content:
        return ""
    return f"<section>\n<h2>{html.escape(title)}</h2>\n{content}\n</section>"


def paragraphs(texts: Iterable[str]) -> list[str]:
    """Returns a paragraph for each text."""
    return [f"<p>{html.escape(text)}</p>" for text in texts]


def _box(text: str) -> str:
    return f'<p class="box">{html.escape(text)}</p>'


def table(header: Sequence[str], rows: Iterable[Sequence]) -> str:
    """Returns a table; numbers are right-aligned. "" without rows."""
    rows = list(rows)
    if not rows:
        return ""
    is_number = [isinstance(cell, int | float) for cell in rows[0]]
    head = "".join(
        f"<th{' class=n' * n}>{html.escape(x)}</th>"
        for x, n in zip(header, is_number, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
    )


def _cell(value) -> str:
    if value is None:
        return "<td class=n>undefined</td>"
    if isinstance(value, int):
        return f"<td class=n>{value:,}</td>"
    if isinstance(value, float):
        return f"<td class=n>{value:.4g}</td>"
    text = str(value)
    short = " class=short" * (len(text) <= _SHORT)
    return f"<td{short}>{html.escape(text)}</td>"


def _scores(runs) -> str:
    rows, results = [], runs[0].results
    first = next(x for x in results if x.startswith("dev"))
    for split, metric, _, baseline in runs[0].scores:
        values = [
            {(s, m): x for s, m, x, _ in run.scores}.get((split, metric), "")
            for run in runs
        ]
        name, interval = metric_words(metric), ""
        if metric == results["best_metric"]:
            name += " (chooses the best model)" * (split == first)
            found = results.get(run_models.INTERVALS, {}).get(split, {})
            if "low" in found and len(runs) == 1:
                interval = f"{found['low']:.4g} to {found['high']:.4g}"
        words = results.get(run_models.WORD_BASELINE, {}).get(split, {})
        baseline = "" if metric == "loss" else baseline
        row = (split, name, *values, baseline)
        rows.append((*row, interval, words.get(metric, "")))
    names = [run.name for run in runs] if len(runs) > 1 else ["score"]
    header = ["split", "metric", *names, "baseline", "95 % interval", "TF-IDF"]
    # Columns that say nothing are left out.
    kept = [i for i in range(len(header)) if any(row[i] != "" for row in rows)]
    rows = [[row[i] for i in kept] for row in rows]
    return table([header[i] for i in kept], rows)


def _curves(runs) -> list[str]:
    """Returns the curves of the loss and of the best metric."""
    metric = runs[0].results["best_metric"]
    words = metric_words(metric)
    several = len(runs) > 1
    losses, scores = {}, {}
    for run in runs:
        of = f"{run.name} " * several
        losses[f"{of}train loss"] = points(run.train_log, "loss")
        for split, log in run.dev_logs.items():
            if not several:
                losses[f"{split} loss"] = points(log, "loss")
            scores[f"{of}{split} {words}"] = points(log, metric)
    seconds = [
        f"<p class='soft'>{html.escape(run.name)}: {_resources(run)}</p>"
        for run in runs
        if run.sessions
    ]
    return [
        figures.lines(losses, "Loss by step"),
        figures.lines(scores, f"{words[0].upper()}{words[1:]} by step"),
        *seconds,
    ]


def points(log, name) -> list[tuple[float, float]]:
    """Returns the finite values of a log by step."""
    found = [(step, row.get(name)) for step, row in log.items()]
    return [(step, x) for step, x in found if x is not None and isfinite(x)]


def _resources(run) -> str:
    seconds = sum(x["seconds"] for x in run.sessions)
    memory = max(x["peak_memory_gb"] for x in run.sessions)
    times = len(run.sessions)
    return (
        f"{format_seconds(seconds)} in {times} process{'es' * (times > 1)}, at "
        f"most {memory:.2f} GB of memory"
    )


def _classes(runs) -> str:
    parts = []
    for split in dict.fromkeys(
        split for run in runs for split in run.results.get("classes", {})
    ):
        found = {
            run.name: run.results["classes"][split]
            for run in runs
            if split in run.results.get("classes", {})
        }
        (name, first), *others = found.items()
        if others:
            rows = [
                (label, scores["support"])
                + tuple(x.get(label, {}).get("f1") for x in found.values())
                for label, scores in first.items()
            ]
            header = ("label", "rows", *(f"F1, {name}" for name in found))
        else:
            header = ("label", *map(metric_words, next(iter(first.values()))))
            rows = [(label, *x.values()) for label, x in first.items()]
        of = f", {name}" if len(runs) > 1 and not others else ""
        parts.append(f"<p>{html.escape(split + of)}</p>" + table(header, rows))
        few = [x for x, y in first.items() if y["support"] < _SMALL]
        if few:
            parts.append(
                f"<p class='soft'>Fewer than {_SMALL} rows, so that scores "
                f"mean little: {html.escape(', '.join(few))}.</p>"
            )
    return "\n".join(parts)


def _wrong(run, rows) -> str:
    found = wrong_rows.most_wrong(rows, run.labels, _MAX_ROWS)
    return table(
        ("line", "text", "label", "predicted", "error"),
        [
            (
                row["source"],
                _text(row),
                _named(row["label"]),
                _named(row["predicted"]),
                error,
            )
            for row, error in found
        ],
    )


def _reliability(run, rows) -> str:
    curve = wrong_rows.reliability(rows, run.labels)
    if not curve:
        return ""
    points = {"this model": [x[1:] for x in curve]}
    points["calibrated"] = [(x, x) for _, x, _ in curve]
    title = "Share of right answers by their probability"
    header = ("rows", "mean probability", "share of right answers")
    return (
        "<p class='soft'>Expected calibration error "
        f"{calibration.error(curve):.4f}, of 15 bins of equal width (Guo et "
        "al. 2017).</p>" + figures.lines(points, title) + table(header, curve)
    )


def _mislabelled(run, rows) -> str:
    found = wrong_rows.mislabelled(rows, run.labels, _MAX_ROWS)
    suspicions = table(
        ("line", "text", "label", "probably", "margin"),
        [
            (x.row["source"], _text(x.row), x.label, x.better, x.margin)
            for x in found
        ],
    )
    note = (
        "<p class='soft'>By confident learning (Northcutt et al. 2021): "
        "another class is at least as probable as it is on average for rows "
        "that have it. The margin is how much more. Read them before you "
        "change a label.</p>"
    )
    return suspicions and note + suspicions


def _text(row) -> str:
    text = row["text_a"]
    if "text_b" in row:
        text = f"{text} | {row['text_b']}"
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "\u2026"


def _named(label) -> str | float:
    if isinstance(label, list):
        return ", ".join(label) or "none"
    return label


def _data(run) -> str:
    rows = []
    for split, manifest in run.manifests.items():
        counts, flags = manifest.statistics, manifest.flags
        cut = counts.get("truncated_rows", counts.get("truncated_texts", ""))
        file = flags.get("source", ""), flags.get("source_sha256", "")
        rows.append((split, manifest.num_examples, cut, *file))
    header = ("split", "rows", "cut", "file", "sha256")
    figure = ""
    if len(run.lengths):
        limit = run.manifests["train"].sizes["max_seq_length"]
        words = "Lengths of the training rows", "tokens in a row"
        figure = figures.histogram(run.lengths, limit, *words)
    if not rows:
        return (
            "<p class='soft'>The records of this run are not where it had "
            "them, so lengths and digests are unknown.</p>"
        )
    return table(header, rows) + figure


def settings(run) -> str:
    """Returns flags, versions, and digests."""
    given = run.source.flags if run.source else {}
    rows = sorted(given.items())
    rows += [
        (name, value)
        for name, value in run.settings.items()
        if name not in given and value is not None
    ]
    rows += [(f"model: {name}", value) for name, value in run.model.items()]
    if run.source:
        rows += [(f"version: {n}", x) for n, x in run.source.versions.items()]
    content = table(("setting", "value"), [(n, str(x)) for n, x in rows])
    return (
        f"<details><summary>{len(rows)} settings</summary>{content}</details>"
    )
