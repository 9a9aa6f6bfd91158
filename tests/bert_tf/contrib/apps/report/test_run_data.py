"""run_data.py: folders that are no run with results; sessions."""

import json

import pytest

from bert_tf.contrib.apps.report import report, run_data


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no eval_results.json. Give the"):
        run_data.read(str(tmp_path))
    results = {"step": 2, "perplexity": 8.0}
    (tmp_path / "eval_results.json").write_text(json.dumps(results))
    with pytest.raises(ValueError, match="eval_results.json is of pre-train"):
        run_data.read(str(tmp_path))


def test_runs_of_several_tasks_are_refused(tmp_path, monkeypatch):
    class Run:
        def __init__(self, name):
            self.results = {"task_name": name}

    monkeypatch.setattr(run_data, "read", Run)
    output = tmp_path / "report.html"
    with pytest.raises(ValueError, match="of several tasks: CoLA, RTE. Make"):
        report.write(["RTE", "CoLA"], str(output))
    assert not output.exists()


def test_an_error_is_a_warning(tmp_path, caplog):
    report.write_own(str(tmp_path))
    assert "there is no report.html: " in caplog.messages[-1]


def test_a_cut_last_line_is_left_out(tmp_path):
    results = {"task_name": "RTE", "step": 2, "best_metric": "accuracy"}
    results |= {"dev": {"accuracy": 0.5}, "majority_baseline": {}}
    (tmp_path / "eval_results.json").write_text(json.dumps(results))
    for split in ("train", "dev"):
        (tmp_path / "logs" / split).mkdir(parents=True)
        (tmp_path / "logs" / split / "steps.jsonl").write_text(
            '{"step": 1, "loss": 2.0}\n{"step": 2, "lo'
        )
    (tmp_path / "logs/sessions.jsonl").write_text('{"seconds": 1.5}\n{"sec')
    run = run_data.read(str(tmp_path))
    assert run.train_log == run.dev_logs["dev"] == {1: {"loss": 2.0}}
    assert run.sessions == [{"seconds": 1.5}]
