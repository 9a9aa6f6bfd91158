r"""Text, tasks -> tables 5, 6, 8 and figure 5 of the paper, as one report.

    python -m experiments.ablations.run_ablations \
      --corpus='books/*.txt' --glue_dir=glue/SST-2,glue/CoLA \
      --squad_train_file=squad/train-v1.1.json \
      --squad_dev_file=squad/dev-v1.1.json \
      --ner_train_file=conll2003/eng.train --ner_dev_file=conll2003/eng.testa \
      --output_dir=runs/ablations

Devlin et al. 2018, section 5 and appendix C: what next sentences, reading from
both sides, size, the mix of masks and the steps are worth. Each run is a
command of its own, and what rows share is run once; --dry_run prints them all,
and about how long they take, which sizes, steps and examples decide.
report.md, report.png and results.json say after each run what there is so far.
The same command does what is missing; one with more --tables, what is new.
"""

import os
import shlex
from collections.abc import Sequence

from absl import flags, logging

from bert_tf.training import reporting, run_folder
from experiments.ablations import ablation_flags, page, report, results, runs
from experiments.ablations import checks as ablation_checks
from experiments.ablations import jobs as ablation_jobs
from experiments.ablations import settings as ablation_settings
from experiments.ablations.jobs import Job
from experiments.ablations.plan import Row
from run_scripts.flags import common_flags
from tfrecords.io import atomic_files

FLAGS = flags.FlagValues()
ablation_flags.define(FLAGS)
common_flags.define_vocabulary(FLAGS)
common_flags.define_max_seq_length(FLAGS)
common_flags.require(FLAGS, "output_dir", "corpus")


def show_plan(jobs: Sequence[Job], clock: runs.Clock) -> None:
    """Prints each command, about how long it takes, and the sum."""
    for job in jobs:
        taken = clock.taken[job.name]
        seconds = taken or job.seconds * clock.factor(job.script)
        words = "took" if taken else "about"
        print(f"# {job.name}: {words} {reporting.format_seconds(seconds)}")
        command = ["python", "-m", f"run_scripts.{job.script}"]
        print(shlex.join([*command, *runs.words_of(job)]))
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.script] = counts.get(job.script, 0) + 1
    parts = ", ".join(f"{n} {script}" for script, n in counts.items())
    print(f"# {len(jobs)} commands: {parts}; {clock.line()}")


def check_configs(rows: Sequence[Row], settings, base) -> None:
    """Raises ValueError if a bert_config.json is there and is another."""
    for model in {row.model or base for row in rows}:
        ablation_settings.check_config(model, settings)


def write_configs(rows: Sequence[Row], settings, base) -> None:
    """Writes the bert_config.json of every model of the plan.

    Raises:
      ValueError: if one is there with other values; none is written then.
    """
    check_configs(rows, settings, base)
    for model in {row.model or base for row in rows}:
        path = ablation_settings.config_file(model, settings)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        ablation_settings.config_of(model, settings).to_json_file(path)


def write_report(rows, probes, settings, base, clock, command: str):
    """Writes what there is so far; returns the checks."""
    scores = results.of_rows(rows, probes, settings)
    kinds = {probe.name: probe.kind for probe in probes}
    checks = ablation_checks.make(rows, scores, kinds)
    atomic_files.write_json(
        os.path.join(settings.output_dir, "results.json"),
        {
            "rows": [
                {"table": row.table, "label": row.label, "share": row.share}
                | {name: score.values for name, score in found.items()}
                for row, found in zip(rows, scores, strict=True)
            ],
            "checks": [
                check._asdict() | {"is_paper_s": check.is_paper_s}
                for check in checks
            ],
        },
    )
    seconds = sum(taken for taken in clock.taken.values() if taken)
    content = report.text(
        rows, scores, checks, probes, settings, base, seconds, command
    )
    report.write(settings.output_dir, content)
    page.draw(settings.output_dir, rows, scores, checks, probes, settings)
    return checks


def main(argv: list[str]) -> None:
    """Does the plan that the flags mean, and writes its report."""
    common_flags.parse(FLAGS, argv, __doc__)
    base = ablation_flags.base_model(FLAGS)
    rows = ablation_flags.find_rows(FLAGS)
    probes = ablation_flags.find_probes(FLAGS)
    settings = ablation_flags.find_settings(FLAGS)
    check_configs(rows, settings, base)
    jobs = ablation_jobs.make(rows, probes, settings, base)
    clock = runs.Clock(jobs, FLAGS.output_dir)
    if FLAGS.dry_run:
        show_plan(jobs, clock)
        return
    command = shlex.join(
        ["python", "-m", "experiments.ablations.run_ablations"]
    )
    command += "".join(f" \\\n  {shlex.quote(word)}" for word in argv[1:])
    with run_folder.open_run(FLAGS.output_dir):
        write_configs(rows, settings, base)
        things = rows, probes, settings, base, clock, command
        done = runs.run(jobs, FLAGS.output_dir, clock, FLAGS.log_every_seconds)
        for job in done:
            if job.name.startswith(("pretrained/", "fine_tuned/")):
                write_report(*things)
        checks = write_report(*things)
    answers = [check.answer for check in checks if check.is_paper_s]
    logging.info(
        "%d of %d claims of the paper came out; look at %s",
        answers.count(ablation_checks.YES),
        len(answers),
        os.path.join(FLAGS.output_dir, report.REPORT),
    )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()
