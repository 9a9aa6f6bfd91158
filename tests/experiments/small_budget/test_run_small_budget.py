"""run_small_budget end to end, with a few steps of each run."""

import json
import pathlib

import experiment_plans
import pytest

from experiments import commands
from experiments.small_budget import jobs as budget_jobs
from experiments.small_budget import run_small_budget


@pytest.fixture(scope="module")
def words(tmp_path_factory, tiny_vocab_file):
    folder = tmp_path_factory.mktemp("budget")
    return [
        "run_small_budget",
        *experiment_plans.flags_of_inputs(folder, tiny_vocab_file),
        "--num_train_steps=budget:5,paper:10",
        "--num_pretrainings=1",
        "--num_seeds=1",
        "--few_labels=12",
    ]


@pytest.mark.slow
def test_runs_are_made_and_reported_once(words, monkeypatch):
    names = []

    def run(progress):
        for job in progress.jobs:
            if job.name in names:
                continue
            experiment_plans.run(job)
            progress.taken[job.name] = 1.0
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
    # The words decide the label.
    assert sst.endswith("| 1.000 | 0.500 |")
    assert (folder / "curves.png").stat().st_size > 10000
    baselines = json.loads((folder / "baselines.json").read_text())
    assert baselines["SST-2"]["score"] == 1.0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--num_train_steps=budget", "--num_train_steps=budget should be"),
        ("--num_train_steps=budget:0", "--num_train_steps=budget:0 should be"),
        ("--num_train_steps=deep:5", "--num_train_steps=deep:5 should be"),
        ("--recipes=", "--recipes= should name some of budget, paper, deep"),
        ("--recipes=deep,deep", "--recipes=deep,deep should name some"),
        ("--num_train_steps=budget:5,budget:7", "name each recipe once"),
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
        "".join(
            f"x\t{(i + add) % 2}\t\t{('sit', 'go')[i % 2]}\n" for i in range(9)
        )
        for add in (0, 1)
    )
    scores = []
    (folder / "train.tsv").write_text(rows)
    for dev in (rows, opposite):
        (folder / "dev.tsv").write_text(dev)
        task = run_small_budget.evaluation_tasks.glue(str(folder))
        scores.append(run_small_budget.score_baselines([task], settings))
    assert scores == [{"CoLA": 1.0}, {"CoLA": -1.0}]
    (folder / "dev.tsv").unlink()
    assert run_small_budget.score_baselines([task], settings) == {}


@pytest.fixture
def sst(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    texts = [b"a\x85b", "c\u2028d".encode(), b"e\rf", b"\xff", b"g"]
    rows = [b"%s %d\t%d" % (text, i, i % 2) for i in range(4) for text in texts]
    train = b"\n".join([b"sentence\tlabel", *rows[:7], b"", *rows[7:], b""])
    (folder / "train.tsv").write_bytes(train)
    (folder / "dev.tsv").write_bytes(b"sentence\tlabel\nx\t1\ny\t0\n")
    return folder


def settings_of(folder, **changes):
    given = {"few_labels": 5, "seed": 3, "glue_dir": (str(folder),)}
    return budget_jobs.Settings(
        corpus="x",
        vocab_file="v",
        output_dir=f"{folder}/out",
        **given | changes,
    )


def test_few_labels_are_rows_of_the_task_in_their_order(sst):
    settings = settings_of(sst)
    tasks = run_small_budget.read_tasks(settings)
    full, few = tasks
    assert (few.name, few.num_train) == ("SST-2 with 5 labels", 5)
    assert few.num_dev == full.num_dev == 2
    folder = pathlib.Path(few.flags["data_dir"])
    assert few.flags == full.flags | {"data_dir": str(folder)}
    run_small_budget.write_few_labels(tasks, settings)
    # Rows end at line feeds only; an empty line is none.
    written = (folder / "train.tsv").read_bytes()
    header, *found, end = written.split(b"\n")
    given = (sst / "train.tsv").read_bytes().split(b"\n")
    assert (header, end, len(found)) == (given[0], b"", 5)
    positions = [given.index(row) for row in found]
    assert positions == sorted(set(positions)) and b"" not in found
    dev = (folder / "dev.tsv").read_bytes()
    assert dev == (sst / "dev.tsv").read_bytes()
    run_small_budget.write_few_labels(tasks, settings)
    assert (folder / "train.tsv").read_bytes() == written


def test_few_labels_need_rows_and_a_dev_file(sst):
    with pytest.raises(ValueError, match="--few_labels=25: .* has 20 rows"):
        run_small_budget.read_tasks(settings_of(sst, few_labels=25))
    (sst / "dev.tsv").unlink()
    with pytest.raises(ValueError, match="--few_labels=5 needs .*dev.tsv"):
        run_small_budget.read_tasks(settings_of(sst))
    (sst / "train.tsv").unlink()
    with pytest.raises(ValueError, match="--glue_dir=.*SST-2 has no train.tsv"):
        run_small_budget.read_tasks(settings_of(sst))
