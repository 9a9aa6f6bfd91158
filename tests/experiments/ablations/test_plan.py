"""Rows of the tables -> models, settings and jobs of a plan."""

import dataclasses
import itertools

import experiment_plans
import pytest
from ablation_examples import TASKS, make_settings

from experiments.ablations import jobs as ablation_jobs
from experiments.ablations import tables
from experiments.ablations.tables import Model

BASE = Model(4, 64, 4)
SETTINGS = make_settings("runs")


def plan(*names, **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    names = names or list(tables.TABLES)
    rows = tables.make(names, BASE, settings.num_checkpoints)
    return ablation_jobs.make(rows, TASKS, settings, rate=1e11)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (
            Model(12, 768, 12),
            "3-768-12 6-768-3 6-768-12 12-768-12 12-1024-16 24-1024-16",
        ),
        (Model(4, 128, 4), "1-128-4 2-128-1 2-128-4 4-128-4 4-160-5 8-160-5"),
    ],
)
def test_sizes_are_those_of_the_paper_for_its_base(base, expected):
    sizes = [
        f"{m.num_hidden_layers}-{m.hidden_size}-{m.num_attention_heads}"
        for m in tables.sizes(base)
    ]
    assert sizes == expected.split()


def test_narrow_models_start_with_larger_weights():
    configs = [SETTINGS.model_config(Model(2, width, 2)) for width in (40, 160)]
    # sqrt(2 / (5 H))
    assert [config.initializer_range for config in configs] == [0.1, 0.05]


def test_epochs_are_limited_by_max_train_examples():
    assert ablation_jobs.num_epochs(TASKS[0], SETTINGS) == 3.0
    cut = dataclasses.replace(SETTINGS, max_train_examples=150)
    assert ablation_jobs.num_epochs(TASKS[0], cut) == 0.15


def test_two_checkpoints_at_the_same_step_are_refused():
    def check(steps, points):
        settings = make_settings(
            "runs", num_train_steps=steps, num_checkpoints=points
        )
        taken = {
            settings.checkpoint_step(i / points) for i in range(1, points + 1)
        }
        assert len(taken) == points and max(taken) == steps

    for steps, points in itertools.product(range(1, 31), repeat=2):
        interval = -(-steps // points)
        taken = {min(steps, i * interval) for i in range(1, points + 1)}
        if len(taken) == points:
            check(steps, points)
            continue
        with pytest.raises(ValueError) as refusal:
            check(steps, points)
        # The two ways out.
        words = str(refusal.value).rstrip(".").split("=")
        check(steps, int(words[-2].split()[0]))
        check(int(words[-1]), points)


def test_runs_shared_by_rows_are_run_once_with_flags_of_their_scripts():
    jobs = plan()
    names = [job.name for job in jobs]
    assert len(names) == len(set(names))
    scripts = [job.script for job in jobs]
    # Pairs in six mixes, and single segments for two models.
    assert scripts.count("make_pretraining_records") == 7
    assert scripts.count("run_pretraining") == 13
    # Five rows of table 5; five other sizes and mixes; other checkpoints.
    assert scripts.count("run_glue") == 4 + 5 + 5 + 2 * 3
    # SQuAD in table 5, NER twice in table 8, as in the paper.
    assert scripts.count("run_squad") == 4
    assert scripts.count("run_ner") == 6
    features = "experiments.feature_based.run_ner_features"
    assert scripts.count(features) == 6
    for script in ("glue", "squad"):
        assert scripts.count(f"experiments.bilstm.run_{script}") == 1
    for job in jobs:
        experiment_plans.check_flags(job)
    alone = {job.name for table in tables.TABLES for job in plan(table)}
    assert alone == set(names)


def all_needs(job, jobs):
    """Returns the jobs that a job needs, and that those need."""
    needed = [jobs[name] for name in job.needs]
    return needed + [more for one in needed for more in all_needs(one, jobs)]


def test_a_job_needs_the_jobs_whose_output_it_reads():
    jobs = {}
    for job in plan(num_seeds=2):
        assert set(job.needs) <= set(jobs), job.name
        jobs[job.name] = job
        written = tuple(
            x.flags.get("output_dir") or x.flags["output_file"]
            for x in all_needs(job, jobs)
        )
        for flag in ("vocab_file", "input_file", "init_checkpoint"):
            path = job.flags.get(flag, "")
            if path.startswith("runs/"):
                assert path.startswith(written), (job.name, path)
        records = job.flags.get("records_dir")
        assert records is None or records in written, job.name
        if "init_checkpoint" in job.flags:
            seed = job.name.rpartition("/")[2]
            assert f"/{seed}/checkpoints/" in job.flags["init_checkpoint"]
            assert f"/{seed}/" in job.flags.get("features_dir", f"/{seed}/")
            assert job.flags["seed"] == 7 + int(seed[-1])


def test_checkpoints_of_the_figure_are_kept_and_fine_tuned():
    jobs = {job.name: job for job in plan()}
    base, ltr, other = (
        jobs[f"pretrained/L-4_H-64_A-4_{name}/seed-0"].flags
        for name in ("next_sentence_80-10-10", "left_to_right", "none_80-10-10")
    )
    assert base["save_checkpoints_steps"] == 25
    kept = [x["keep_checkpoint_max"] for x in (base, ltr, other)]
    assert kept == [4, 4, 1]
    model = "L-4_H-64_A-4_left_to_right"
    for step in (25, 50, 75, 100):
        flags = jobs[f"fine_tuned/{model}/step-{step}/sst_2/seed-0"].flags
        start = f"/{model}/seed-0/checkpoints/step-{step:08d}"
        assert flags["init_checkpoint"].endswith(start)
    # A plan with table 5 only keeps them too, for a later figure.
    first = {job.name: job for job in plan("5")}
    assert all(first[name].flags == jobs[name].flags for name in first)
