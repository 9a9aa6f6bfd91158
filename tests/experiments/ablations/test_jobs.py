import dataclasses

import experiment_plans
import pytest
from ablation_examples import TASKS, make_settings

from experiments.ablations import jobs as ablation_jobs
from experiments.ablations import tables as ablation_tables
from experiments.ablations.tables import Model

BASE = Model(4, 64, 4)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return make_settings(str(tmp_path_factory.mktemp("ablations")))


def plan(settings, *tables, **changes):
    settings = dataclasses.replace(settings, **changes)
    rows = ablation_tables.make(
        tables or list(ablation_tables.TABLES), BASE, settings.num_checkpoints
    )
    return ablation_jobs.make(rows, TASKS, settings, rate=1e11)


def names_of(jobs, script):
    return [job.name for job in jobs if job.script == script]


def test_runs_shared_by_rows_are_run_once(settings):
    jobs = plan(settings)
    names = [job.name for job in jobs]
    assert len(names) == len(set(names))
    # Pairs in six mixes, and single segments for two models.
    assert len(names_of(jobs, "make_pretraining_records")) == 7
    assert len(names_of(jobs, "run_pretraining")) == 13
    # Five rows of table 5; five other sizes and mixes; other checkpoints.
    assert len(names_of(jobs, "run_glue")) == 4 + 5 + 5 + 2 * 3
    assert len(names_of(jobs, "experiments.bilstm.run_glue")) == 1
    # SQuAD in table 5, NER twice in table 8, as in the paper.
    assert len(names_of(jobs, "run_squad")) == 4
    assert len(names_of(jobs, "experiments.bilstm.run_squad")) == 1
    # Fine-tuned and feature-based.
    features = "experiments.feature_based.run_ner_features"
    assert len(names_of(jobs, "run_ner")) == 6
    assert len(names_of(jobs, features)) == 6
    assert sum("feature_layers" in job.flags for job in jobs) == 6
    alone = {
        job.name
        for table in ablation_tables.TABLES
        for job in plan(settings, table)
    }
    assert alone == set(names)


def all_needs(job, jobs):
    """Returns the jobs that a job needs, and that those need."""
    needed = [jobs[name] for name in job.needs]
    return needed + [more for one in needed for more in all_needs(one, jobs)]


def test_a_job_needs_the_jobs_whose_output_it_reads(settings):
    jobs = {}
    for job in plan(settings):
        assert set(job.needs) <= set(jobs), job.name
        jobs[job.name] = job
        written = tuple(
            x.flags.get("output_dir") or x.flags["output_file"]
            for x in all_needs(job, jobs)
        )
        for flag in ("vocab_file", "input_file", "init_checkpoint"):
            path = job.flags.get(flag, "")
            if path.startswith(f"{settings.output_dir}/"):
                assert path.startswith(written), (job.name, path)
        records = job.flags.get("records_dir")
        assert records is None or records in written, job.name


def test_each_seed_has_models_and_features_of_its_own(settings):
    jobs = plan(settings, num_seeds=2)
    alone = plan(settings)
    # All rows with the first seed come first.
    assert jobs[: len(alone)] == alone
    models = [job for job in jobs if job.script == "run_pretraining"]
    assert [job.flags["seed"] for job in models] == [7] * 13 + [8] * 13
    # Their records are the same.
    assert len({job.flags["input_file"] for job in models}) == 7
    assert len({job.flags["output_dir"] for job in models}) == 26
    for job in jobs:
        if "init_checkpoint" in job.flags:
            seed = job.name.rpartition("/")[2]
            assert f"/{seed}/checkpoints/" in job.flags["init_checkpoint"]
            assert f"/{seed}/" in job.flags.get("features_dir", f"/{seed}/")
            assert job.flags["seed"] == 7 + int(seed[-1])


def test_pre_training_follows_the_budget_recipe(settings):
    jobs = {job.name: job.flags for job in plan(settings)}
    flags = jobs["pretrained/L-4_H-64_A-4_next_sentence_80-10-10/seed-0"]
    assert (flags["optimizer"], flags["adam_beta_2"]) == ("muon", "0.98")
    assert (flags["train_batch_size"], flags["num_train_steps"]) == (16, 100)
    assert not {"phases", "train_hours"} & set(flags)
    flags = jobs["records/next_sentence_80-10-10"]
    assert flags["masking_time"] == "dynamic"
    # A quarter of 32 tokens.
    assert flags["masked_lm_prob"] == 0.25
    assert flags["max_predictions_per_seq"] == 8
    more = {job.name: job for job in plan(settings, masked_lm_prob=0.4)}
    flags = more["records/next_sentence_80-10-10"].flags
    assert flags["masked_lm_prob"] == 0.4
    assert flags["max_predictions_per_seq"] == 13


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_scripts_accept_the_flags_of_their_jobs(settings, precision):
    for job in plan(settings, precision=precision):
        experiment_plans.check_flags(job)


def test_checkpoints_of_the_figure_are_kept_and_fine_tuned(settings):
    jobs = {job.name: job for job in plan(settings)}
    base = jobs["pretrained/L-4_H-64_A-4_next_sentence_80-10-10/seed-0"].flags
    ltr = jobs["pretrained/L-4_H-64_A-4_left_to_right/seed-0"].flags
    other = jobs["pretrained/L-4_H-64_A-4_none_80-10-10/seed-0"].flags
    assert base["save_checkpoints_steps"] == 25
    kept = [x["keep_checkpoint_max"] for x in (base, ltr, other)]
    assert kept == [4, 4, 1]
    steps = [
        name.split("/")[2]
        for name in jobs
        if "left_to_right" in name and "/sst_2/" in name
    ]
    assert steps == ["step-100", "step-25", "step-50", "step-75"]
    model = "L-4_H-64_A-4_left_to_right"
    flags = jobs[f"fine_tuned/{model}/step-25/sst_2/seed-0"].flags
    start = f"/{model}/seed-0/checkpoints/step-00000025"
    assert flags["init_checkpoint"].endswith(start)
    # A plan with table 5 only keeps them too, for a later figure.
    first = {job.name: job for job in plan(settings, "5")}
    assert all(first[name].flags == jobs[name].flags for name in first)


def test_flags_of_rows_with_a_bilstm_or_without_pre_training(settings):
    jobs = {job.name: job for job in plan(settings, "5")}
    lstm = "fine_tuned/L-4_H-64_A-4_left_to_right/step-100/sst_2_bilstm"
    job = jobs[f"{lstm}/seed-0"]
    assert job.flags["bilstm_units"] == 64
    assert job.module == "experiments.bilstm.run_glue"
    # Its records are those of the task.
    assert set(job.needs) == set(jobs[job.name.replace("_bilstm", "")].needs)
    scratch = jobs["fine_tuned/from_scratch/sst_2/seed-0"].flags
    assert "init_checkpoint" not in scratch
    assert scratch["bert_config_file"].endswith("/configs/L-4_H-64_A-4.json")
    assert scratch["vocab_file"] == settings.vocab_path


def test_epochs_are_limited_by_max_train_examples(settings):
    assert ablation_jobs.epochs_of(TASKS[0], settings) == 3.0
    cut = dataclasses.replace(settings, max_train_examples=150)
    assert ablation_jobs.epochs_of(TASKS[0], cut) == 0.15


def test_a_given_vocabulary_is_not_learned(settings):
    assert plan(settings)[0].script == "make_vocab"
    assert not names_of(plan(settings, vocab_file="vocab.txt"), "make_vocab")
