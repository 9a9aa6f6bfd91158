"""run_small_budget end to end, with a few steps of each run."""

import importlib
import json
import pathlib

import pytest

from experiments import commands
from experiments.small_budget import run_small_budget

TEXT = pathlib.Path(__file__).parents[2] / "data" / "sentences.txt"


@pytest.fixture(scope="module")
def words(tmp_path_factory, tiny_vocab_file):
    folder = tmp_path_factory.mktemp("budget")
    task = folder / "SST-2"
    task.mkdir()
    rows = [f"the {'cat' if i % 2 else 'moon'}\t{i % 2}\n" for i in range(16)]
    for name in ("train", "dev"):
        content = "sentence\tlabel\n" + "".join(rows)
        (task / f"{name}.tsv").write_text(content)
    return [
        "run_small_budget",
        f"--corpus={TEXT}",
        f"--vocab_file={tiny_vocab_file}",
        f"--glue_dir={task}",
        f"--output_dir={folder}/out",
        "--num_train_steps=budget:5,paper:10",
        "--num_pretrainings=1",
        "--num_seeds=1",
        "--few_labels=12",
    ]


@pytest.mark.slow
def test_runs_are_made_and_reported_once(words, monkeypatch):
    names = []

    def run(jobs, clock, options):
        for job in jobs:
            if job.name in names:
                continue
            script = importlib.import_module(f"run_scripts.{job.script}")
            script.main([job.script, *commands.arguments_of(job)])
            clock.taken[job.name] = 1.0
            names.append(job.name)
            yield job

    monkeypatch.setattr(commands, "run", run)
    run_small_budget.main(words)
    assert len(names) == 1 + 3 * 2 + 2 * 2 + 2 + 3 * 2
    folder = pathlib.Path(words[4].partition("=")[2])
    report = (folder / "report.md").read_text()
    assert report.count("| budget | 1 | 1 | 5 | 0.") == 1
    assert report.count("| paper | 1 | 1 | 10 | 0.") == 1
    (sst, few) = [x for x in report.splitlines() if x.startswith("| SST-2")]
    assert sst.startswith("| SST-2, accuracy | 16 | ")
    assert few.startswith("| SST-2 with 12 labels, accuracy | 12 | ")
    # The words decide the label, and half of the rows have each.
    assert sst.endswith("| 1.000 | 0.500 |")
    assert (folder / "curves.png").stat().st_size > 10000
    baselines = json.loads((folder / "baselines.json").read_text())
    assert baselines["SST-2"]["score"] == 1.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--num_train_steps=budget", "--num_train_steps=budget should be"),
        ("--num_train_steps=mine:5", "--num_train_steps=mine:5 should be"),
        ("--num_train_steps=budget:0", "--num_train_steps=budget:0 should be"),
        ("--num_train_steps=long:5", "--num_train_steps=long:5 needs --long_h"),
        ("--num_train_steps=budget:5,budget:7", "name each recipe once"),
        ("--few_labels=17", "--few_labels=17: .*train.tsv has 16 rows"),
        ("--corpus=nothing*.txt", "nothing.*txt"),
    ],
)
def test_impossible_plans_are_refused(words, more, message):
    with pytest.raises(ValueError, match=message):
        run_small_budget.main([*words, more])


def test_a_dry_run_writes_nothing(words, tmp_path, capsys):
    out = tmp_path / "out"
    run_small_budget.main([*words, f"--output_dir={out}", "--dry_run"])
    assert "fine_tuned/budget/SST-2_with_12_labels" in capsys.readouterr().out
    assert not out.exists()


def test_baselines_are_those_of_the_files(words, tmp_path):
    folder = tmp_path / "CoLA"
    folder.mkdir()
    settings = run_small_budget.Settings(
        output_dir=str(tmp_path), corpus="x", vocab_file="y"
    )
    rows, opposite = (
        [
            f"x\t{(i + add) % 2}\t\t{'go' if i % 2 else 'sit'}\n"
            for i in range(9)
        ]
        for add in (0, 1)
    )
    scores = []
    for dev in (rows, opposite):
        for name, lines in (("train", rows), ("dev", dev)):
            (folder / f"{name}.tsv").write_text("".join(lines))
        task = run_small_budget.evaluation_tasks.glue(str(folder))
        scores.append(run_small_budget.score_baselines([task], settings))
    assert scores == [{"CoLA": 1.0}, {"CoLA": -1.0}]
    (folder / "dev.tsv").unlink()
    assert run_small_budget.score_baselines([task], settings) == {}
