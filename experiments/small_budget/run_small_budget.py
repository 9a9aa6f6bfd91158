r"""Text, tasks -> what an hour of pre-training on one core is worth.

    python -m experiments.small_budget.run_small_budget \
      --corpus='books/*.txt' --vocab_file=vocab.txt \
      --glue_dir=glue/SST-2,glue/CoLA \
      --squad_train_file=squad/train-v1.1.json \
      --squad_dev_file=squad/dev-v1.1.json \
      --ner_train_file=conll2003/eng.train --ner_dev_file=conll2003/eng.testa \
      --num_processes=2 --output_dir=runs/small-budget

Pre-trains by the recipe of run_scripts/recipes/budget_cpu.flags and by the
paper's, for the same hours, and fine-tunes each model on each task, beside the
same model from scratch, TF-IDF with logistic regression, and the most frequent
class. --num_processes=2 on two cores gives each run a core of its own, and
--num_processes=1 all of them: with --recipes=deep --train_hours=3, for one long
run of a deeper model.
report.md and curves.png are updated after each run; a rerun executes only the
missing runs.
"""

import dataclasses
import os
import shutil
from collections.abc import Sequence

import numpy as np
from absl import flags, logging

from bert_tf.training import run_folder
from experiments import commands, evaluation_tasks, recipes, reports
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import baselines, report
from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget.jobs import Settings
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files
from tfrecords.text import text_files

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, Settings)


def read_tasks(settings: Settings) -> list[EvaluationTask]:
    """Returns the tasks, with few labels too if wanted.

    Raises:
      ValueError: if a file is missing or malformed, or has too few rows.
    """
    tasks = [
        task
        for task in evaluation_tasks.read(settings, max(budget_jobs.LENGTHS))
        if task.kind != "ner_features"
    ]
    if settings.few_labels:
        tasks += [
            with_few_labels(task, settings)
            for task in tasks
            if task.name == "SST-2"
        ]
    return tasks


def with_few_labels(
    given: EvaluationTask, settings: Settings
) -> EvaluationTask:
    """Returns the task with some of its rows, before its files are written.

    Raises:
      ValueError: if it has fewer rows, or no dev file.
    """
    folder, num_rows = given.flags["data_dir"], settings.few_labels
    if num_rows > given.num_train:
        raise ValueError(
            f"--few_labels={num_rows}: {folder}/train.tsv has "
            f"{given.num_train} rows. Use fewer, or 0."
        )
    if not os.path.exists(os.path.join(folder, "dev.tsv")):
        raise ValueError(
            f"--few_labels={num_rows} needs {folder}/dev.tsv, which does not "
            "exist. Add it, or use 0."
        )
    return dataclasses.replace(
        given,
        name=settings.few_labels_name,
        num_train=num_rows,
        flags=given.flags
        | {"data_dir": f"{settings.output_dir}/few_labels/{given.name}"},
    )


def write_few_labels(
    tasks: Sequence[EvaluationTask], settings: Settings
) -> None:
    """Writes the files of the task with few labels, if there is one.

    Its training rows are drawn at random; dev is that of the complete task.
    """
    folders = {task.name: task.flags.get("data_dir") for task in tasks}
    if settings.few_labels_name not in folders:
        return
    source, target = folders["SST-2"], folders[settings.few_labels_name]
    with open(os.path.join(source, "train.tsv"), "rb") as file:
        header, *rows = filter(None, file.read().split(b"\n"))
    rng = np.random.default_rng(settings.seed)
    chosen = np.sort(rng.permutation(len(rows))[: settings.few_labels])
    os.makedirs(target, exist_ok=True)
    shutil.copy(os.path.join(source, "dev.tsv"), target)
    path = os.path.join(target, "train.tsv")
    with atomic_files.atomic_file(path, "wb") as file:
        file.write(b"\n".join([header, *(rows[i] for i in chosen), b""]))


def score_baselines(
    tasks: Sequence[EvaluationTask], settings: Settings
) -> dict[str, float]:
    """Returns the scores of TF-IDF by task.

    They are kept in baselines.json, each with the digests of its files.
    """
    path = os.path.join(settings.output_dir, "baselines.json")
    kept = json_files.read(path) if os.path.exists(path) else {}
    scores = {}
    for task in tasks:
        folder = task.flags.get("data_dir")
        if not folder or not baselines.has_score(folder):
            continue
        paths = evaluation_tasks.glue_files(folder)
        digests = list(map(atomic_files.digest, paths))
        if kept.get(task.name, {}).get("sha256") != digests:
            logging.info("TF-IDF on %s", task.name)
            score = baselines.tf_idf_score(folder)
            kept[task.name] = {"score": score, "sha256": digests}
            json_files.write(path, kept)
        scores[task.name] = kept[task.name]["score"]
    return scores


def main(argv: list[str]) -> None:
    """Runs the missing jobs, and writes the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings = common_flags.config(Settings, FLAGS)
    text_files.expand_inputs(settings.corpus)
    command = commands.format_command(
        "experiments.small_budget.run_small_budget", argv[1:]
    )
    tasks = read_tasks(settings)
    configs = budget_jobs.model_configs(settings)
    recipes.check_configs(configs)
    jobs = budget_jobs.make(tasks, settings)
    progress = commands.Progress(jobs, settings)
    if settings.dry_run:
        commands.print_plan(progress)
        return
    with run_folder.open_run(settings.output_dir):
        write_few_labels(tasks, settings)
        tf_idf = score_baselines(tasks, settings)
        for _ in reports.after_runs(progress, configs):
            report.write(tasks, tf_idf, settings, command)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
