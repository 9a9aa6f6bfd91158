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

import dataclasses
import os
import shlex
from collections.abc import Sequence

from absl import flags, logging

from bert_tf.training import run_folder
from experiments import commands, evaluation_tasks
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import baselines, few_labels, plan, report
from experiments.small_budget.plan import Settings
from run_scripts.flags import common_flags
from tfrecords.io import json_files
from tfrecords.text import text_files

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, Settings)
_WINDOW = 128  # Tokens, for the number of windows of a task.


def read_tasks(settings: Settings) -> list[EvaluationTask]:
    """Returns the tasks, with few labels too if wanted.

    Raises:
      ValueError: if a file is missing or malformed.
    """
    tasks = [
        task
        for task in evaluation_tasks.read(settings, _WINDOW)
        if task.kind != "ner_features"
    ]
    for task in list(tasks):
        if task.name == "SST-2" and settings.few_labels:
            folder = f"{settings.output_dir}/few_labels/SST-2"
            few_labels.write(
                task.flags["data_dir"],
                folder,
                settings.few_labels,
                settings.seed,
            )
            name = f"SST-2 with {settings.few_labels} labels"
            tasks.append(
                dataclasses.replace(evaluation_tasks.glue(folder), name=name)
            )
    return tasks


def score_baselines(
    tasks: Sequence[EvaluationTask], settings: Settings
) -> dict[str, float]:
    """Returns the scores of TF-IDF by task; keeps those in baselines.json."""
    path = os.path.join(settings.output_dir, "baselines.json")
    scores = json_files.read(path) if os.path.exists(path) else {}
    for task in tasks:
        if task.kind == "glue" and task.name not in scores:
            logging.info("TF-IDF on %s", task.name)
            folder = task.flags["data_dir"]
            scores[task.name] = baselines.tf_idf_score(folder)
            json_files.write(path, scores)
    return scores


def main(argv: list[str]) -> None:
    """Runs the missing jobs, and writes the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    settings = common_flags.config(Settings, FLAGS)
    text_files.expand_inputs(settings.corpus)
    module = "experiments.small_budget.run_small_budget"
    command = shlex.join(["python", "-m", module])
    command += "".join(f" \\\n  {shlex.quote(word)}" for word in argv[1:])
    with run_folder.open_run(settings.output_dir):
        tasks = read_tasks(settings)
        plan.write_configs(settings)
        jobs = plan.make(tasks, settings)
        clock = commands.Clock(jobs, settings.output_dir)
        if settings.dry_run:
            commands.print_plan(jobs, clock)
            return
        tf_idf = score_baselines(tasks, settings)
        for job in commands.run(
            jobs,
            settings.output_dir,
            clock,
            settings.log_every_seconds,
            settings.num_processes,
        ):
            if not job.name.startswith("records/"):
                report.write(tasks, tf_idf, settings, command)
        report.write(tasks, tf_idf, settings, command)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
