r"""Folders of GLUE runs -> one table of their scores and the paper's.

    python -m run_scripts.glue_table \
      --run_dirs=runs/cola,runs/sst-2,runs/mnli --output_file=glue.md

Columns are tasks, as in table 1 of Devlin et al. 2018: F1 for QQP and MRPC,
Spearman correlation for STS-B, Matthews correlation for CoLA, otherwise
accuracy; all times 100. Ours are dev scores, the paper's are test scores.
"""

import dataclasses
import os
import statistics

from absl import logging

from bert_tf.checkpoint import run_models
from bert_tf.training import run_folder
from bert_tf.workflows import trial_results
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, records, streams
from tfrecords.options import REQUIRED, Options, option
from tfrecords.tasks import glue_tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableConfig(Options):
    """Runs in the table, and where to write it."""

    run_dirs: tuple[str, ...] = option(
        REQUIRED,
        "The --output_dir of each run_glue, run with --do_eval.",
        reads=True,
    )
    output_file: str = option(
        "-", "Markdown file to write; - is stdout.", writes="file"
    )


FLAGS = common_flags.make_flags(TableConfig)

# Devlin et al. 2018, table 1: test scores.
_COLUMNS = (
    *("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B"),
    *("MRPC", "RTE"),
)
PAPER = {
    f"{model}, test, paper": dict(zip(_COLUMNS, scores, strict=True))
    for model, scores in {
        "OpenAI GPT": (82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0),
        "BERT-base": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4),
        "BERT-large": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1),
    }.items()
}
_SPLITS = {"dev_matched": "-m", "dev_mismatched": "-mm"}
_EXAMPLES, _BEST = "train examples", "ours, dev"
_SPREAD, _BASELINE = "mean of restarts, dev", "majority baseline, dev"
_UNDEFINED = "undefined"  # A correlation with a constant.

Rows = dict[str, dict[str, str | float]]  # Row -> column -> cell.


def read(run_dir: str) -> Rows:
    """Returns a run's cells of the table.

    Raises:
      ValueError: if the folder holds no scores of a GLUE task.
    """
    results = trial_results.read_evaluation(run_dir)
    names = [task.name for task in glue_tables.GLUE_TASKS]
    if results["task_name"] not in names:
        raise ValueError(
            f"{run_dir} is a run of {results['task_name']!r}, which is not a "
            f"GLUE task ({', '.join(names)}). Omit it."
        )
    metric = results["best_metric"]
    expected = glue_tables.find(results["task_name"]).best_metric
    if metric != expected:
        raise ValueError(
            f"{run_dir} has {metric!r} as the metric of "
            f"{results['task_name']}, and GLUE has {expected!r}: a table of "
            "your own, with the name of a GLUE task? Omit it."
        )
    rows: Rows = {_EXAMPLES: {}, _BEST: {}, _SPREAD: {}, _BASELINE: {}}
    for split in results:
        if not split.startswith("dev"):
            continue
        column = results["task_name"] + _SPLITS.get(split, "")
        rows[_EXAMPLES][column] = _count_examples(run_dir)
        rows[_BEST][column] = _percent(results[split].get(metric))
        baseline = results[run_models.BASELINE].get(split, {})
        if metric in baseline:
            rows[_BASELINE][column] = _percent(baseline[metric])
        if spread := _spread(run_dir, split):
            rows[_SPREAD][column] = spread
    return rows


def _percent(score: float | None) -> float | str:
    return _UNDEFINED if score is None else 100.0 * score


def _count_examples(run_dir: str) -> str:
    """Returns a run's number of training examples; - without its records."""
    folder = os.path.join(run_dir, "records", "train")
    if not os.path.exists(os.path.join(folder, records.MANIFEST_NAME)):
        return "-"
    return f"{records.Manifest.read(folder).num_examples:,}"


def _spread(run_dir: str, split: str) -> str:
    """Returns the mean and deviation of restarts on a split; "" if none.

    For a grid: those of the setting with the best mean.
    """
    path = os.path.join(run_dir, trial_results.RESULTS)
    if not os.path.exists(path):
        return ""
    results = trial_results.read_trials(run_dir)
    is_its = any(trial.get("split") == split for trial in results["trials"])
    setting = next(iter(results["settings"]), None)
    if not (is_its and setting):
        return ""
    mean, deviation = setting.get("mean"), setting.get("standard_deviation")
    if None in (mean, deviation):
        return ""
    return f"{100 * mean:.1f} ± {100 * deviation:.1f} ({setting['num_runs']})"


def make_table(runs: list[Rows]) -> str:
    """Returns a Markdown table of runs of different tasks.

    The average is over the columns shown; MNLI-m and MNLI-mm count as two, as
    in the paper.

    Raises:
      ValueError: if two runs have the same task.
    """
    rows: Rows = {}
    for run in runs:
        for name, cells in run.items():
            row = rows.setdefault(name, {})
            if name == _BEST and row.keys() & cells.keys():
                raise ValueError(
                    f"Two runs of {', '.join(row.keys() & cells.keys())}. "
                    "Omit one."
                )
            row |= cells
    columns = [name for name in _COLUMNS if name in rows[_BEST]]
    columns += [name for name in rows[_BEST] if name not in _COLUMNS]
    lines = [["", *columns, "average"], ["---"] * (len(columns) + 2)]
    for name, cells in (rows | PAPER).items():
        if not cells:
            continue
        values = [cells.get(column, "-") for column in columns]
        numbers = [value for value in values if isinstance(value, float)]
        is_complete = len(numbers) == len(columns)
        average = statistics.fmean(numbers) if is_complete else "-"
        lines.append([name, *map(_cell, [*values, average])])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}"


def main(argv: list[str]) -> None:
    """Prints or writes the table."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(TableConfig, FLAGS)
    paths = [
        os.path.join(run_dir, name)
        for run_dir in config.run_dirs
        for name in (run_folder.RESULTS, trial_results.RESULTS)
    ]
    streams.check_output(
        "output_file", config.output_file, [("run_dirs", x) for x in paths]
    )
    table = make_table([read(run_dir) for run_dir in config.run_dirs])
    with atomic_files.atomic_file(config.output_file) as file:
        file.write(table)
    logging.info("%s  runs %d", config.output_file, len(config.run_dirs))


run = common_flags.command(main)

if __name__ == "__main__":
    run()
