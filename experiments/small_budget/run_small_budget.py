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
class. --num_processes=2 on two cores gives each run a core of its own.
report.md and curves.png are updated after each run; a rerun executes only the
missing runs.
"""

import os
from collections.abc import Sequence

from absl import flags, logging

from bert_tf.training import run_folder
from experiments import commands, configs, evaluation_tasks
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import baselines, few_labels, plan, report
from experiments.small_budget.plan import Settings
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files, json_files
from tfrecords.text import text_files

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, Settings)
_WINDOW = 128  # Tokens, for the number of windows of a task.


def read_tasks(settings: Settings) -> list[EvaluationTask]:
    """Returns the tasks, with few labels too if wanted.

    Raises:
      ValueError: if a file is missing or malformed, or has too few rows.
    """
    tasks = [
        task
        for task in evaluation_tasks.read(settings, _WINDOW)
        if task.kind != "ner_features"
    ]
    return tasks + [
        few_labels.task(
            task,
            settings.few_labels_name,
            f"{settings.output_dir}/few_labels/SST-2",
            settings.few_labels,
        )
        for task in tasks
        if task.name == "SST-2" and settings.few_labels
    ]


def write_few_labels(
    tasks: Sequence[EvaluationTask], settings: Settings
) -> None:
    """Writes the files of the task with few labels, if there is one."""
    folders = {task.name: task.flags.get("data_dir") for task in tasks}
    if settings.few_labels_name in folders:
        few_labels.write(
            folders["SST-2"],
            folders[settings.few_labels_name],
            settings.few_labels,
            settings.seed,
        )


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
        digests = list(map(atomic_files.digest, baselines.files_of(folder)))
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
    command = commands.text_of(
        "experiments.small_budget.run_small_budget", argv[1:]
    )
    tasks = read_tasks(settings)
    model_configs = plan.configs_of(settings)
    configs.check(model_configs)
    jobs = plan.make(tasks, settings)
    clock = commands.Clock(jobs, settings)
    if settings.dry_run:
        commands.print_plan(jobs, clock)
        return
    with run_folder.open_run(settings.output_dir):
        write_few_labels(tasks, settings)
        configs.write(model_configs)
        tf_idf = score_baselines(tasks, settings)
        for job in commands.run(jobs, clock, settings):
            if not job.name.startswith("records/"):
                report.write(tasks, tf_idf, settings, command)
        report.write(tasks, tf_idf, settings, command)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
