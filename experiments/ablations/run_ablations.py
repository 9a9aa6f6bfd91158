r"""Text, tasks -> tables 5, 6, 8 and figure 5 of the paper, as one report.

    python -m experiments.ablations.run_ablations \
      --corpus='books/*.txt' --glue_dir=glue/SST-2,glue/CoLA \
      --squad_train_file=squad/train-v1.1.json \
      --squad_dev_file=squad/dev-v1.1.json \
      --ner_train_file=conll2003/eng.train --ner_dev_file=conll2003/eng.testa \
      --output_dir=runs/ablations

Devlin et al. 2018, section 5 and appendix C: the effect of next sentence
prediction, bidirectionality, model size, masking mix and training steps.
Models are pre-trained with run_scripts/recipes/budget_records.flags and
budget_cpu.flags (Muon, pre-LN), but for lengths and steps. Each run is a
separate command; rows of several tables share runs; --num_processes=2
runs two at a time. --dry_run prints all commands and their estimated time,
which depends on sizes, steps and examples. report.md, report.png and
results.json are updated after each run. A rerun executes only the missing runs;
so does a command with more --tables.
"""

import dataclasses
import os

from absl import flags, logging

from bert_tf.training import run_folder
from experiments import commands, evaluation_tasks, recipes, step_time
from experiments.ablations import checks as ablation_checks
from experiments.ablations import figure, report, results, tables
from experiments.ablations import jobs as ablation_jobs
from experiments.ablations.settings import Settings
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files
from tfrecords.text import text_files, vocab

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, Settings)


def read_settings() -> Settings:
    """Returns the settings, with the size of the given vocabulary.

    Raises:
      ValueError: if text or vocabulary is missing, or flags contradict each
        other.
    """
    settings = common_flags.config(Settings, FLAGS)
    text_files.expand_inputs(settings.corpus)
    if settings.vocab_file:
        vocab_size = len(vocab.read(settings.vocab_file))
        settings = dataclasses.replace(settings, vocab_size=vocab_size)
    return settings


def write_report(
    rows, tasks, settings, progress, command: str
) -> list[ablation_checks.Check]:
    """Writes the report on the finished runs; returns the checks."""
    scores = results.all_scores(rows, tasks, settings)
    kinds = {task.name: task.kind for task in tasks}
    checks = ablation_checks.make(rows, scores, kinds)
    json_files.write(
        os.path.join(settings.output_dir, "results.json"),
        {
            "rows": [
                {"table": row.table, "label": row.label, "share": row.share}
                | {name: score.values for name, score in row_scores.items()}
                for row, row_scores in zip(rows, scores, strict=True)
            ],
            "checks": [
                check._asdict() | {"is_from_paper": check.is_from_paper}
                for check in checks
            ],
        },
    )
    seconds = sum(taken for taken in progress.taken.values() if taken)
    content = report.text(
        rows, scores, checks, tasks, settings, seconds, command
    )
    path = os.path.join(settings.output_dir, report.REPORT)
    with atomic_files.atomic_file(path) as file:
        file.write(content)
    figure.draw(rows, scores, checks, tasks, settings)
    return checks


def main(argv: list[str]) -> None:
    """Runs the missing jobs of the plan, and writes its report."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings = read_settings()
    rows = tables.make(settings.tables, settings.base, settings.num_checkpoints)
    tasks = evaluation_tasks.read(settings, settings.max_seq_length)
    models = {row.model or settings.base for row in rows}
    configs = {
        settings.config_file(m): settings.model_config(m) for m in models
    }
    recipes.check_configs(configs)
    # Each process has its share of the cores.
    rate = step_time.measure_rate(settings.precision) / settings.num_processes
    jobs = ablation_jobs.make(rows, tasks, settings, rate)
    progress = commands.Progress(jobs, settings)
    if settings.dry_run:
        commands.print_plan(progress)
        return
    command = commands.format_command(
        "experiments.ablations.run_ablations", argv[1:]
    )
    with run_folder.open_run(settings.output_dir):
        recipes.write_configs(configs)
        report_on = (rows, tasks, settings, progress, command)
        for job in commands.run(progress):
            if ".run_" in job.module:  # Not one that makes records.
                write_report(*report_on)
        checks = write_report(*report_on)
    answers = [check.answer for check in checks if check.is_from_paper]
    logging.info(
        "%d of %d claims of the paper hold here; see %s",
        answers.count(ablation_checks.YES),
        len(answers),
        os.path.join(settings.output_dir, report.REPORT),
    )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
