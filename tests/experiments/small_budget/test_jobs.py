"""Jobs of the experiment: their flags are valid, and what they need is made."""

import dataclasses

import experiment_plans
import pytest

from experiments import recipes
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget.jobs import Settings


def sst_2(name, folder, num_train):
    flags = {"task_name": "SST-2", "data_dir": f"{folder}/SST-2"}
    return EvaluationTask(name, "glue", "run_glue", flags, num_train, 872, 12.0)


NER_FLAGS = {"train_file": "eng.train"}
TASKS = [
    sst_2("SST-2", "glue", 67349),
    sst_2("SST-2 with 1000 labels", "few", 1000),
    EvaluationTask("NER", "ner", "run_ner", NER_FLAGS, 900, 200, 128.0),
]


@pytest.fixture
def settings(tmp_path, tiny_vocab_file):
    return Settings(
        output_dir=str(tmp_path / "out"),
        corpus="text/*.txt",
        vocab_file=tiny_vocab_file,
        recipes=("budget", "paper", "deep"),
        num_train_steps=("budget:6000",),
    )


@pytest.fixture
def jobs(settings):
    return {job.name: job for job in budget_jobs.make(TASKS, settings)}


def test_scripts_accept_the_flags_of_their_jobs(jobs):
    for job in jobs.values():
        experiment_plans.check_flags(job)


def test_jobs_follow_those_they_need(jobs, settings):
    made = set()
    for job in jobs.values():
        assert set(job.needs) <= made, job.name
        made.add(job.name)
    begin = jobs["fine_tuned/budget/NER/seed-2"]
    assert "pretrained/budget/seed-2" in begin.needs
    assert begin.flags["init_checkpoint"].endswith("pretrained/budget/seed-2")
    # With fewer pre-trained models, each starts several fine-tunings.
    few = dataclasses.replace(settings, num_pretrainings=2)
    few = {job.name: job for job in budget_jobs.make(TASKS, few)}
    assert sum(name.startswith("pretrained/") for name in few) == 3 * 2
    for index, start in enumerate((0, 1, 0)):
        flags = few[f"fine_tuned/paper/NER/seed-{index}"].flags
        begin = f"pretrained/paper/seed-{start}"
        assert flags["init_checkpoint"].endswith(begin)
        assert flags["seed"] == settings.seed + index
    scratch = jobs["fine_tuned/from_scratch/NER/seed-0"]
    assert "init_checkpoint" not in scratch.flags
    assert scratch.needs == ("records/run_ner/NER",)


def test_dropout_is_that_of_fine_tuning(jobs, settings):
    configs = budget_jobs.configs_of(settings)
    num_layers = {"budget": 2, "paper": 2, "deep": 4, "from_scratch": 2}
    for row, expected in num_layers.items():
        flags = jobs[f"fine_tuned/{row}/NER/seed-0"].flags
        config = configs[flags["bert_config_file"]]
        assert config.vocab_size == 203
        assert config.num_hidden_layers == expected
        assert config.hidden_dropout_prob == 0.1
        assert flags["learning_rate"] == 1e-3
    assert config.norm_first  # From scratch: as the budget recipe.


@pytest.mark.parametrize(
    ("name", "kind", "recipe"),
    [
        ("SST-2", "glue", "sst_2"),
        ("CoLA", "glue", "cola"),
        ("MNLI", "glue", "sick"),
        ("SQuAD", "squad", "squad_1_1"),
        ("NER", "ner", "ner"),
    ],
)
def test_fine_tuning_follows_its_recipe(settings, name, kind, recipe):
    task = EvaluationTask(name, kind, "run_glue", {}, 900, 200, 12.0)
    jobs = {job.name: job for job in budget_jobs.make([task], settings)}
    flags = jobs[f"fine_tuned/budget/{name}/seed-0"].flags
    of_recipe = recipes.read(recipe)
    for flag in ("learning_rate", "num_train_epochs", "max_seq_length"):
        assert float(of_recipe[flag]) == flags[flag]
    assert of_recipe["do_train"] == "true"


def test_recipes_differ_in_what_they_are_compared_for(jobs, settings):
    budget = jobs["pretrained/budget/seed-0"].flags
    paper = jobs["pretrained/paper/seed-0"].flags
    deep = jobs["pretrained/deep/seed-0"].flags
    found = budget_jobs.configs_of(settings)
    configs = [found[x["bert_config_file"]] for x in (budget, paper, deep)]
    assert [x.num_hidden_layers for x in configs] == [2, 2, 4]
    assert [x.hidden_dropout_prob for x in configs] == [0, 0.1, 0]
    assert [x.norm_first for x in configs] == [True, False, True]
    assert len({(x.hidden_size, x.vocab_size) for x in configs[:2]}) == 1
    scored = [job for name, job in jobs.items() if name.startswith("scored/")]
    assert len(scored) == 3 * 3
    assert budget["optimizer"] == "muon" and "optimizer" not in paper
    assert budget["num_train_steps"] == 6000 and "train_hours" not in budget
    assert paper["train_hours"] == deep["train_hours"] == 1.0
    assert "/paper-held_out-64/" in paper["eval_input_file"]
    (evaluated_on,) = {job.flags["eval_input_file"] for job in scored}
    assert "/budget-held_out-128/" in evaluated_on
    assert budget["phases"] == deep["phases"] != paper["phases"]
    for name in ("vocab_file", "precision"):
        assert budget[name] == paper[name] == deep[name]
    records = jobs["records/paper-128"].flags
    assert records["masked_lm_prob"] == 0.15
    assert records["max_predictions_per_seq"] == 19
    records = jobs["records/budget-64"].flags
    assert records["max_predictions_per_seq"] == 16
    assert records["pairs"] == "none"


def test_few_labels_have_more_epochs(settings):
    epochs = [budget_jobs.epochs_of(task, settings) for task in TASKS]
    assert epochs == [2, 10, 10]


def test_the_deep_recipe_alone(settings):
    settings = dataclasses.replace(
        settings, recipes=("deep",), num_train_steps=(), train_hours=2.0
    )
    jobs = {job.name: job for job in budget_jobs.make(TASKS, settings)}
    deep = jobs["pretrained/deep/seed-0"].flags
    assert deep["train_hours"] == 2.0
    assert "/records/budget-64/" in deep["input_file"]
    assert not any("paper" in name for name in jobs)
    assert not any("/budget/" in name for name in jobs)
    configs = budget_jobs.configs_of(settings)
    assert configs[deep["bert_config_file"]].num_hidden_layers == 4
    scratch = jobs["fine_tuned/from_scratch/NER/seed-0"].flags
    assert configs[scratch["bert_config_file"]].num_hidden_layers == 4
