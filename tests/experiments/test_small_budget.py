"""Jobs of the small budget, TF-IDF, few labels, curves, and a run of it."""

import dataclasses
import json
import pathlib

import experiment_plans
import pytest

from experiments import commands
from experiments.evaluation_tasks import EvaluationTask
from experiments.small_budget import baselines, report, run_small_budget
from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget.jobs import Settings
from tfrecords.io import json_files

SST_2 = {"task_name": "SST-2", "data_dir": "glue/SST-2"}
TASKS = [
    EvaluationTask("SST-2", "glue", "run_glue", SST_2, 67349, 872, 12.0),
    EvaluationTask("NER", "ner", "run_ner", {"train_file": "x"}, 900, 9, 128.0),
]


@pytest.fixture
def settings(tiny_vocab_file):
    return Settings(
        output_dir="out",
        corpus="text/*.txt",
        vocab_file=tiny_vocab_file,
        recipes=("budget", "paper", "deep"),
        num_train_steps=("budget:6000",),
    )


def jobs_of(settings):
    return {job.name: job for job in budget_jobs.make(TASKS, settings)}


def test_jobs_follow_those_they_need_and_have_flags_of_their_scripts(settings):
    made = set()
    jobs = jobs_of(settings)
    for job in jobs.values():
        experiment_plans.check_flags(job)
        assert set(job.needs) <= made, job.name
        made.add(job.name)
    begin = jobs["fine_tuned/budget/NER/seed-2"]
    assert "pretrained/budget/seed-2" in begin.needs
    assert begin.flags["init_checkpoint"].endswith("pretrained/budget/seed-2")
    scratch = jobs["fine_tuned/from_scratch/NER/seed-0"]
    assert "init_checkpoint" not in scratch.flags
    assert scratch.needs == ("records/run_ner/NER",)
    # All are evaluated on the same texts, and fine-tuned with dropout.
    scored = [job for name, job in jobs.items() if name.startswith("scored/")]
    (evaluated_on,) = {job.flags["eval_input_file"] for job in scored}
    assert len(scored) == 3 * 3 and "/budget-held_out-128/" in evaluated_on
    configs = budget_jobs.model_configs(settings)
    config = configs[scratch.flags["bert_config_file"]]
    assert (config.norm_first, config.hidden_dropout_prob) == (True, 0.1)
    # With fewer pre-trained models, each starts several fine-tunings.
    few = jobs_of(dataclasses.replace(settings, num_pretrainings=2))
    for index, start in enumerate((0, 1, 0)):
        flags = few[f"fine_tuned/paper/NER/seed-{index}"].flags
        begin = f"pretrained/paper/seed-{start}"
        assert flags["init_checkpoint"].endswith(begin)
        assert flags["seed"] == settings.seed + index


def test_few_labels_have_more_epochs(settings):
    few = dataclasses.replace(TASKS[0], name=settings.few_labels_name)
    found = [budget_jobs.num_epochs(task, settings) for task in (*TASKS, few)]
    assert found == [2, 10, 10]


def test_hours_of_a_curve_follow_the_tokens(tmp_path):
    settings = Settings(
        output_dir=str(tmp_path), corpus="x", vocab_file="y", train_hours=2.0
    )
    # 10 steps of 64 tokens and 5 of 128: as many tokens in each phase.
    run = tmp_path / budget_jobs.pretrained_name("budget", 0)
    scored = tmp_path / budget_jobs.scored_name("budget", 0)
    for folder in (run / "logs/eval", scored):
        folder.mkdir(parents=True)
    sizes = [{"max_seq_length": 64}, {"max_seq_length": 128}]
    content = {"num_train_steps": 15, "phases": [10, 5], "sizes": sizes}
    json_files.write(run / "run.json", content)
    scores = {"masked_lm_accuracy": 0.3, "perplexity": 90.0}
    lines = [json.dumps(scores | {"step": x}) + "\n" for x in (5, 10, 15)]
    (run / "logs/eval/steps.jsonl").write_text("".join(lines))
    assert report.read_curve("budget", 0, settings) is None
    json_files.write(scored / "eval_results.json", scores)
    curve = report.read_curve("budget", 0, settings)
    assert curve.hours.tolist() == pytest.approx([0.5, 1.0, 2.0])


def test_tf_idf_of_a_pair_has_features_of_each_text(tmp_path):
    folder = tmp_path / "RTE"
    folder.mkdir()
    # The same words: only their side differs.
    pairs = [("old", "new", "entailment"), ("new", "old", "not_entailment")]
    rows = [f"0\t{a}\t{b}\t{label}\n" for a, b, label in pairs]
    for name, times in (("train", 8), ("dev", 1)):
        header = "index\tsentence1\tsentence2\tlabel\n"
        (folder / f"{name}.tsv").write_text(header + "".join(rows * times))
    assert baselines.tf_idf_score(str(folder)) == 1.0


def test_tf_idf_of_cola_is_a_correlation_and_made_anew_for_other_files(
    tmp_path,
):
    folder = tmp_path / "CoLA"
    folder.mkdir()
    settings = Settings(output_dir=str(tmp_path), corpus="x", vocab_file="y")
    rows, opposite = (
        "".join(
            f"x\t{(i + add) % 2}\t\t{('sit', 'go')[i % 2]}\n" for i in range(9)
        )
        for add in (0, 1)
    )
    (folder / "train.tsv").write_text(rows)
    for dev, score in ((rows, 1.0), (opposite, -1.0)):
        (folder / "dev.tsv").write_text(dev)
        task = run_small_budget.evaluation_tasks.glue(str(folder))
        found = run_small_budget.score_baselines([task], settings)
        assert found == {"CoLA": score}


def test_few_labels_are_rows_of_the_task_in_their_order(tmp_path):
    sst = tmp_path / "SST-2"
    sst.mkdir()
    texts = [b"a\x85b", "c\u2028d".encode(), b"e\rf", b"\xff", b"g"]
    rows = [b"%s %d\t%d" % (text, i, i % 2) for i in range(4) for text in texts]
    train = b"\n".join([b"sentence\tlabel", *rows[:7], b"", *rows[7:], b""])
    (sst / "train.tsv").write_bytes(train)
    (sst / "dev.tsv").write_bytes(b"sentence\tlabel\nx\t1\ny\t0\n")
    settings = Settings(
        corpus="x",
        vocab_file="v",
        output_dir=f"{sst}/out",
        few_labels=5,
        glue_dir=(str(sst),),
    )
    tasks = run_small_budget.read_tasks(settings)
    full, few = tasks
    assert (few.name, few.num_train) == ("SST-2 with 5 labels", 5)
    folder = pathlib.Path(few.flags["data_dir"])
    assert few.flags == full.flags | {"data_dir": str(folder)}
    run_small_budget.write_few_labels(tasks, settings)
    # Rows end at line feeds only; an empty line is none.
    header, *found, end = (folder / "train.tsv").read_bytes().split(b"\n")
    given = train.split(b"\n")
    assert (header, end, len(found)) == (given[0], b"", 5)
    positions = [given.index(row) for row in found]
    assert positions == sorted(set(positions)) and b"" not in found
    dev = (folder / "dev.tsv").read_bytes()
    assert dev == (sst / "dev.tsv").read_bytes()
    with pytest.raises(ValueError, match="--few_labels=25: .* has 20 rows"):
        run_small_budget.read_tasks(
            dataclasses.replace(settings, few_labels=25)
        )


@pytest.mark.slow
def test_a_plan_is_run_and_reported(tmp_path, tiny_vocab_file, monkeypatch):
    monkeypatch.setattr(commands, "run", experiment_plans.run_all)
    words = [
        "run_small_budget",
        *experiment_plans.flags_of_inputs(tmp_path, tiny_vocab_file),
        *("--num_train_steps=budget:5,paper:10", "--num_pretrainings=1"),
        *("--num_seeds=1", "--few_labels=12"),
    ]
    folder = tmp_path / "out"
    run_small_budget.main([*words, "--dry_run"])
    assert not folder.exists()
    run_small_budget.main(words)
    lines = (folder / "report.md").read_text().splitlines()
    assert sum(x.startswith("| budget | 1 | 1 | 5 | 0.") for x in lines) == 1
    (sst, few) = [x for x in lines if x.startswith("| SST-2")]
    assert few.startswith("| SST-2 with 12 labels, accuracy | 12 | ")
    # The words decide the label.
    assert sst.endswith("| 1.000 | 0.500 |")
    assert (folder / "curves.png").stat().st_size > 10000
