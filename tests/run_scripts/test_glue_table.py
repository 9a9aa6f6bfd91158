"""glue_table: scores of runs in the layout of the paper's table 1."""

import json
import statistics

import pytest

from run_scripts import glue_table
from tfrecords.io import records


def write_run(folder, task="SST-2", metric="accuracy", **more):
    folder.mkdir(parents=True)
    content = {
        "task_name": task,
        "step": 9,
        "best_metric": metric,
        "dev": {"loss": 1.0, "accuracy": 0.8, metric: 0.75},
        "majority_baseline": {"dev": {metric: 0.5}},
    }
    (folder / "eval_results.json").write_text(json.dumps(content | more))
    return folder


def write_mnli(folder):
    scores = {"dev_matched": {"accuracy": 0.5}}
    scores["dev_mismatched"] = {"accuracy": 0.25}
    write_run(folder, "MNLI", majority_baseline={}, **scores)
    content = json.loads((folder / "eval_results.json").read_text())
    del content["dev"]
    (folder / "eval_results.json").write_text(json.dumps(content))
    return folder


def table_of(*folders, capsys):
    glue_table.main(["glue_table", f"--run_dirs={','.join(map(str, folders))}"])
    lines = capsys.readouterr().out.splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    assert cells[1] == ["---"] * len(cells[0])
    return cells[0][1:], {row[0]: row[1:] for row in cells[2:]}


def test_tasks_are_columns_in_the_order_of_the_paper(tmp_path, capsys):
    columns, rows = table_of(
        write_run(tmp_path / "wnli", "WNLI"),
        write_run(tmp_path / "mrpc", "MRPC", "f1"),
        write_mnli(tmp_path / "mnli"),
        capsys=capsys,
    )
    assert columns == ["MNLI-m", "MNLI-mm", "MRPC", "WNLI", "average"]
    assert rows["ours, dev"] == ["50.0", "25.0", "75.0", "75.0", "56.2"]
    assert rows["majority baseline, dev"] == ["-", "-", "50.0", "50.0", "-"]
    paper = rows["BERT-base, test, paper"]
    # The paper leaves WNLI out.
    assert paper == ["84.6", "83.4", "88.9", "-", "-"]
    assert "mean of restarts, dev" not in rows


def test_an_undefined_correlation_has_no_number(tmp_path, capsys):
    none = {"dev": {"loss": 1.0, "spearman": None}}
    run = write_run(
        tmp_path / "sts-b",
        "STS-B",
        "spearman",
        majority_baseline={"dev": {"spearman": None}},
        **none,
    )
    setting = {"num_runs": 2, "mean": None, "standard_deviation": None}
    (run / "trials.json").write_text(
        json.dumps({"settings": [setting], "trials": [{"split": "dev"}]})
    )
    _, rows = table_of(run, write_run(tmp_path / "sst"), capsys=capsys)
    assert rows["ours, dev"] == ["75.0", "undefined", "-"]
    assert rows["majority baseline, dev"] == ["50.0", "undefined", "-"]
    assert "mean of restarts, dev" not in rows


def test_examples_are_counted_without_the_shards(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    folder = run / "records/train"
    folder.mkdir(parents=True)
    shard = records.ShardInfo("shard", 1234, 0, "")
    records.Manifest(
        schema_name="classification",
        sizes={"max_seq_length": 8},
        flags={},
        vocabulary={},
        statistics={},
        shards=[shard],
    ).write(str(folder))
    _, rows = table_of(run, capsys=capsys)
    assert rows["train examples"][0] == "1,234"


def test_averages_equal_those_of_the_paper():
    averages = [
        round(statistics.fmean(scores.values()), 1)
        for scores in glue_table.PAPER.values()
    ]
    assert averages == [75.1, 79.6, 82.1]  # The last column of table 1.


def test_restarts_show_mean_and_deviation(tmp_path, capsys):
    folder = write_run(tmp_path / "cola", "CoLA", "matthews_correlation")
    setting = {"num_runs": 3, "mean": 0.125, "standard_deviation": 0.0211}
    trials = [{"has_failed": True}, {"split": "dev"}]
    (folder / "trials.json").write_text(
        json.dumps({"settings": [setting], "trials": trials})
    )
    _, rows = table_of(folder, capsys=capsys)
    assert rows["mean of restarts, dev"] == ["12.5 ± 2.1 (3)", "-"]
    assert rows["ours, dev"] == ["75.0", "75.0"]
    path = tmp_path / "glue.md"
    words = f"--run_dirs={folder}", f"--output_file={path}"
    glue_table.main(["glue_table", *words])
    assert path.read_text().startswith("|  | CoLA | average |\n| --- |")


def test_folders_without_one_glue_run_per_task_are_refused(tmp_path):
    def mistake(message, *folders):
        with pytest.raises(ValueError, match=message):
            glue_table.main(
                ["glue_table", f"--run_dirs={','.join(map(str, folders))}"]
            )

    own = write_run(tmp_path / "own", "CoLA", "f1")
    mistake("'f1' as the metric of CoLA, and GLUE has 'matthews_corr", own)
    first, second = (write_run(tmp_path / name) for name in "ab")
    mistake("Two runs of SST-2. Omit one", first, second)
